"""
The draft of a node that runs a function: how it is called, and what happens with its result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.core.components.waits import Waits
from weft.core.compose.component import Component
from weft.core.functions.function import Function
from weft.core.functions.initial import Initial
from weft.core.functions.references import Read
from weft.core.plan.draft import AnyDraft, CollectDraft, EmitDraft, LoopDraft, ReceiverDraft
from weft.core.plan.node import (
    APART,
    IN_THE_LOOP,
    WITH_ITS_RUN,
    Arguments,
    ExitNode,
    FunctionNode,
    Kind,
    LoopTest,
    NodeState,
    OpenedRegion,
    Reading,
    Turn,
)
from weft.errors import InvalidComponent


class FunctionDraft(ReceiverDraft[FunctionNode]):
    """A node that will run a function."""

    made_of = FunctionNode
    component: Component | None = None
    readings: Sequence[ReadingDraft] = ()
    is_relay: bool = False
    undoes: bool = False
    waits: Waits | None = None
    taken: EmitDraft | None = None
    """Of a part whose routes are for the inside of its component: what passes its values on to other components."""
    reduces: bool = False
    """Whether it takes the batch of a collect."""
    askers: int = 0
    """Of a test: how many gates ask it."""
    collects: Mapping[CollectDraft, int] = {}
    """Of a fan: what closes the region that it opens, and by which inlet."""
    # The state.
    initial: Initial | None = None
    by_key: bool = False
    sees_states: bool = False
    emits: EmitDraft | None = None
    fires: Mapping[str, FunctionDraft] = {}
    """Of a state: by part, what may run after a change of it."""
    # Loops.
    first: FunctionDraft | None = None
    """The beginning of a turn of the chain that this is a part of."""
    following: FunctionDraft | None = None
    at_most: int = 0
    gives_last: bool = False
    opening: LoopDraft | None = None

    def __init__(
        self,
        name: str,
        owner: str,
        region: str | None,
        *,
        kind: Kind,
        function: Function,
        call: Callable[..., Any] | None = None,
        spread: bool = False,
    ) -> None:
        """
        Make a draft of a node that will run *function*.

        Args:
            call: what to run in its place, on the same arguments.
            spread: spread one collection over the parameters.
        """
        super().__init__(name, owner, region)
        self.kind, self.function, self.spread = kind, function, spread
        self.passes_on = kind is Kind.TEST
        self.call = call or function.call

    def keeps_state(self, initial: Initial) -> None:
        """Pass the function its last value as the first argument, and *initial* at the beginning."""
        self.initial, self.stateful, self.follows_log = initial, True, True

    @property
    def shares_answers(self) -> bool:
        """Whether several gates, or a gate and the flow, may need the result of this test for one fact."""
        return self.askers + (self.inlets > 0) > 1

    @property
    def is_ready_on_arrival(self) -> bool:
        """Whether it can run on a fact as soon as that arrives, without a look at anything else."""
        return (
            self.kind in (Kind.WORK, Kind.TEST)
            and self.inlets == 1
            and self.arrival_order is None
            and self.waits is None
            and not (self.stateful or self.readings or self.shares_answers or self.deduplicates)
        )

    @property
    def _is_noted(self) -> bool:
        """Whether its completion needs more than delivering its fact."""
        goes_elsewhere = self.is_relay or self.following is not None or self.reduces
        return goes_elsewhere or self.is_tracked or self.is_kept or bool(self.readings)

    @property
    def held_exits(self) -> tuple[ExitNode, ...]:
        """The exits that stay open as long as it may begin another turn."""
        return () if self.opening is None else self.opening.exits_opened

    def fields(self) -> dict[str, Any]:
        """Return the fields of the node, by name."""
        fields = super().fields()
        kind, function = self.kind, self.function
        fields.update(
            call=self.call,
            is_async=function.is_async,
            component=self.component,
            is_test=kind is Kind.TEST,
            is_fan=kind is Kind.FAN,
            place=self._place(),
            changes_state=kind is Kind.STATE,
            stateful=self.stateful,
            is_relay=self.is_relay,
            undoes=self.undoes,
            shares_answers=self.shares_answers,
            wait=self.waits,
        )
        takes_more = function.constants or function.references or function.by_keyword or self.sees_states
        takes_no_values = not function.required and not function.variadic
        if takes_more or takes_no_values or self.stateful or self.spread:
            fields["arguments"] = self._arguments(takes_no_values=takes_no_values)
            fields["folds_plainly"] = self.stateful and not takes_more
        if function.transaction:
            fields["transaction"] = self._transaction(function.transaction)
        if self.taken is not None:
            fields["taken"] = self.taken.node
        if self.readings:
            fields["readings"] = tuple([reading.frozen() for reading in self.readings])
        if self.initial is not None:
            fields["state"] = self._state(self.initial)
        if self.error_routes:
            fields["error_routes"] = tuple([(names, target.node, port) for names, target, port in self.error_routes])
        if kind is Kind.WORK:
            is_plain = len(fields.get("plain_targets", ())) == len(self.routes)
            fields["only_delivers"] = is_plain and not self._is_noted
            if len(self.routes) == 1 and isinstance(collect := self.routes[0][0], CollectDraft):
                fields["collect_route"] = (collect.node, self.routes[0][1])
        elif kind is Kind.FAN:
            collects = tuple([(collect.node, port) for collect, port in self.collects.items()])
            fields["opens"] = OpenedRegion(exits=self.exits_opened, collects=collects)
        if self.first is not None:
            following = None if self.following is None else self.following.node
            fields["turn"] = Turn(first=self.first.node, following=following)
        if self.at_most:
            opening = None if self.opening is None else self.opening.node
            fields["loop_test"] = LoopTest(
                at_most=self.at_most, gives_last=self.gives_last, opening=opening, may_repeat=self.may_repeat
            )
        return fields

    def _place(self) -> int:
        """Return where the function runs unless a policy says otherwise."""
        if self.function.is_async or self.function.transaction:
            return APART
        return IN_THE_LOOP if self.kind in (Kind.TEST, Kind.FAN) else WITH_ITS_RUN

    def _transaction(self, parameter: str) -> str:
        """Return *parameter*, which takes a transaction, if this is a step."""
        if self.kind is not Kind.WORK or self.stateful or self.waits is not None:
            raise InvalidComponent(
                f"{self.name!r} asks for a transaction ({parameter}=transaction()), and only a step can have one; "
                "write in a step before or after it"
            )
        return parameter

    def _arguments(self, *, takes_no_values: bool) -> Arguments:
        function = self.function
        return Arguments(
            takes_no_values=takes_no_values,
            spread=0 if not self.spread else -1 if function.variadic else len(function.required),
            by_keyword=function.required if function.by_keyword else (),
            constants=dict(function.constants),
            contexts=tuple(function.contexts.items()),
        )

    def _state(self, initial: Initial) -> NodeState:
        emits = None if self.emits is None else self.emits.node
        fires = {part: draft.node for part, draft in self.fires.items()}
        return NodeState(initial=initial, by_key=self.by_key, sees_states=self.sees_states, emits=emits, fires=fires)


class ReadingDraft:
    """A parameter that will read another component."""

    def __init__(self, parameter: str, read: Read, target: AnyDraft, unit: AnyDraft | None, levels: int) -> None:
        self.parameter, self.read, self.target, self.unit, self.levels = parameter, read, target, unit, levels

    def frozen(self) -> Reading:
        """Return the reading between the nodes themselves."""
        initial = self.target.initial if isinstance(self.target, FunctionDraft) else None
        unit = None if self.unit is None else self.unit.node
        return Reading(
            parameter=self.parameter,
            read=self.read,
            target=self.target.node,
            initial=initial,
            unit=unit,
            levels=self.levels,
        )

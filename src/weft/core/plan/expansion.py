"""
The expansion of a component into drafts of nodes, as the compiler carries it out.

Components know it as :class:`weft.core.compose.expansion.Expansion`, which says what each method is for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from weft.core.components.waits import Waits
from weft.core.compose.expansion import Expansion
from weft.core.compose.expression import And, Expression, Leaf, leaves
from weft.core.compose.questions import questions_of
from weft.core.failure import EVERYTHING
from weft.core.functions.function import Function
from weft.core.functions.initial import Initial
from weft.core.plan.draft import AnyDraft, CollectDraft, EmitDraft, GateDraft, LoopDraft
from weft.core.plan.function_draft import FunctionDraft
from weft.core.plan.node import Kind

if TYPE_CHECKING:
    from weft.core.plan.plan import Compiler


def _passed_on(value: Any) -> Any:
    """Stand for the function of a node that only waits: it is never called by a driver."""
    return value


_PASSED_ON = Function(_passed_on, ("value",), variadic=False)


class PlanExpansion(Expansion):
    """One component on its way into a plan."""

    __slots__ = ("_compiler", "name", "region")

    def __init__(self, compiler: Compiler, name: str, region: str | None) -> None:
        self._compiler, self.name, self.region = compiler, name, region

    @property
    def closes_map(self) -> bool:
        """Whether this component reduces the elements of an ``each``."""
        return self.name in self._compiler.wiring.closing

    @property
    def is_asked_only(self) -> bool:
        """Whether this component is a condition that only gates of other components use, outside the flow."""
        wiring = self._compiler.wiring
        return wiring.is_asked_only(self.name) and self.name not in wiring.inlets

    def work(
        self,
        function: Function,
        *,
        call: Callable[..., Any] | None = None,
        spread: bool = False,
        initial: Initial | None = None,
        pending: Initial | None = None,
        fans_out: bool = False,
        part: str = "",
    ) -> FunctionDraft:
        """Add a node that runs *function*."""
        draft = self._function(Kind.FAN if fans_out else Kind.WORK, function, call, spread=spread, part=part)
        if initial is not None:
            draft.keeps_state(initial)
        else:
            draft.initial = pending
        if not part:
            self._compiler.outputs[self.name] = draft
        return draft

    def state(
        self,
        function: Function,
        initial: Initial,
        *,
        several: bool,
        by_key: bool = False,
        sees_states: bool = False,
    ) -> FunctionDraft:
        """Add the node that decides over the component's state, fed by its parents, and one that emits its facts."""
        draft = self._function(Kind.STATE, function)
        draft.keeps_state(initial)
        draft.by_key, draft.sees_states = by_key, sees_states
        self.feed(draft)
        draft.emits = emits = self._compiler.add(EmitDraft(f"\0facts of {self.name}", self.name, self.region))
        emits.may_repeat = several
        self._compiler.connect(draft, emits, 0)
        self._compiler.outputs[self.name] = emits
        self._compiler.states[self.name] = draft
        return draft

    def wait(self, waits: Waits) -> FunctionDraft:
        """Add a node that runs nothing, but waits for what *waits* says."""
        draft = self.work(_PASSED_ON)
        draft.waits = waits
        return draft

    def reaction(self, state: FunctionDraft, function: Function, part: str) -> None:
        """Let a change of *state* fire *part*, which runs *function* on the new state and on what changed it."""
        reaction = self.work(function, part=part)
        state.fires = {**state.fires, part: reaction}
        self.link(state, reaction)

    def relay(self, function: Function, *, part: str, undoes: bool = False) -> FunctionDraft:
        """Add a node that passes on its inputs together with its result."""
        draft = self.work(function, part=part)
        draft.is_relay, draft.undoes = True, undoes
        return draft

    def test(
        self,
        function: Function,
        *,
        call: Callable[..., Any] | None = None,
        spread: bool = False,
        part: str = "",
        region: str | None = None,
    ) -> FunctionDraft:
        """Add a node that tests whether *function* holds, in *region*, by default that of the component."""
        draft = self._function(Kind.TEST, function, call, spread=spread, part=part, region=region)
        if not part:
            self._compiler.outputs[self.name] = draft
        return draft

    def gate(
        self, expression: Expression, *, part: str = "", first: tuple[str, FunctionDraft] | None = None
    ) -> GateDraft:
        """Add a gate over conditions of other components."""
        expression = self._compiler.spelled_out(expression)
        tests = {name: self._compiler.asked(name) for name in dict.fromkeys(leaves(expression))}
        if first is not None:
            own, test = self._name(first[0]), first[1]
            test.askers += 1
            expression, tests = And(Leaf(own), expression), {own: test, **tests}
        gate = GateDraft(self._name(part), self.name, self.region, questions_of(expression), tests)
        self._compiler.add(gate)
        if not part:
            self._compiler.outputs[self.name] = gate
        return gate

    def take(self, owner: str, part: str) -> None:
        """Let the values of *part* of the component *owner* be those of this component."""
        compiler = self._compiler
        source: AnyDraft = compiler.drafts[f"{owner}.{part}"]
        assert isinstance(source, FunctionDraft)  # noqa: S101
        compiler.taken[self.name] = source
        if source.is_relay or source.first is not None:  # its routes are for the inside of its component
            is_turn = source.first is not None
            source.taken = taken = compiler.add(EmitDraft(f"\0facts of {self.name}", self.name, self.region))
            taken.may_repeat = is_turn or source.may_repeat
            compiler.connect(source, taken, 0)
            compiler.outputs[self.name] = taken
        else:
            compiler.outputs[self.name] = source

    def feed(self, node: AnyDraft) -> None:
        """Let the component's parents feed *node*."""
        self._compiler.feed(node, self.name)

    def begin(self, node: FunctionDraft) -> None:
        """Let the component's parents feed *node*, and its ``before`` hooks run before it."""
        self._compiler.beginnings[self.name] = node
        self.feed(node)

    def collect(self, node: FunctionDraft) -> None:
        """Let *node* run once on all facts that the component's parents produce in a scope."""
        collect = self._compiler.add(CollectDraft(f"\0batch of {self.name}", self.name, self.region))
        self._compiler.feed(collect, self.name)
        self._compiler.connect(collect, node, 0)

    def link(self, first: FunctionDraft | GateDraft, then: FunctionDraft) -> None:
        """Let *first* feed *then*."""
        self._compiler.connect(first, then, 0)

    def link_failure(self, first: FunctionDraft, then: FunctionDraft) -> None:
        """Let the failures of *first* feed *then*."""
        self._compiler.connect(first, then, 0, errors=EVERYTHING)

    def loop(self, turn: list[FunctionDraft], until: FunctionDraft, *, at_most: int, gives_last: bool) -> None:
        """Let *turn*, a chain of nodes that *until* follows, run again until it holds."""
        for draft, following in zip(turn, [*turn[1:], until], strict=True):
            draft.first, draft.following = turn[0], following
            self.link(draft, following)
        until.first, until.at_most, until.gives_last = turn[0], at_most, gives_last

    def opening(self) -> LoopDraft:
        """Add a node that opens a scope for each turn of a loop."""
        opening = self._compiler.add(LoopDraft(self.name, self.name, self.region))
        self._compiler.outputs[self.name] = opening
        return opening

    def reopen(self, until: FunctionDraft, start: str, *, at_most: int, gives_last: bool) -> None:
        """Let *until* end the turns that the component *start* opens, and open the next one."""
        until.opening = cast("LoopDraft", self._compiler.outputs[start])
        until.at_most, until.gives_last = at_most, gives_last
        self._compiler.untils[start] = until

    def _function(
        self,
        kind: Kind,
        function: Function,
        call: Callable[..., Any] | None = None,
        *,
        spread: bool = False,
        part: str = "",
        region: str | None = None,
    ) -> FunctionDraft:
        name, where = self._name(part), region or self.region
        return self._compiler.add(
            FunctionDraft(name, self.name, where, kind=kind, function=function, call=call, spread=spread)
        )

    def _name(self, part: str) -> str:
        return f"{self.name}.{part}" if part else self.name

"""
The queries of a run: values, facts, results, where a value came from, and drawings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from weft.core.components.fsm import FSM
from weft.core.components.saga import Saga
from weft.core.diagrams.run_status import progress_of
from weft.core.diagrams.sequence import to_sequence
from weft.core.diagrams.workflow import sketch
from weft.core.draw.drawable import Drawable
from weft.core.draw.picture import Picture
from weft.core.events import (
    ENDINGS,
    PRODUCTIONS,
    Activated,
    AnyEvent,
    ConditionEvaluated,
    FannedOut,
    InputReceived,
    RunnableFailed,
    RunnableSkipped,
    StateChanged,
)
from weft.core.failure import described
from weft.core.fold.scope import Order
from weft.core.functions.references import MISSING
from weft.core.graph.outputs import Output, fill, port_names
from weft.core.lineage.explain import Explanation
from weft.core.lineage.fact import Fact
from weft.core.plan.node import FunctionNode, NodeState
from weft.core.run.input_results import event_of
from weft.core.run.leaf_orders import ordered
from weft.core.run.saga_status import saga_status
from weft.errors import (
    DefinitionError,
    HistoryTruncated,
    InvalidArgument,
    InvalidDrawing,
    NothingProduced,
    SignalTimeout,
    StepFailed,
    UnknownComponent,
    an,
    shown,
)
from weft.typing import Address

if TYPE_CHECKING:
    from weft.core.fold.memory import Memory


class Queries(Drawable):
    """The queries of a run; all of them read its memory and change nothing."""

    __slots__ = ("memory",)

    memory: Memory

    def _facts(self, which: object) -> tuple[str, list[Address]]:
        """Return the name of *which* component, and where its facts stand; of a truncated log, those that are left."""
        found = self.memory.lineage.index()
        if isinstance(which, str) and which in found:
            return which, found[which]
        name = self._name_of(which)
        return name, found.get(name, [])

    def _last(self, which: object) -> tuple[str, Address | None]:
        """Return the name of *which* component, and where its latest fact stands; None if it has made none."""
        if self.memory.lineage.paged is not None:
            name = self._name_of(which)
            recent = self.memory.lineage.last_address(name)
            if recent is not None:
                return name, recent
        name, facts = self._facts(which)
        return name, facts[-1] if facts else None

    def _name_of(self, which: object) -> str:
        """Return the name of *which*: a component, its name, or that of a part of it."""
        try:
            return self.memory.workflow.name_of(which)
        except UnknownComponent:
            if not (isinstance(which, str) and which in self.memory.plan.nodes):
                raise
            return which

    def _region(self, name: str) -> str | None:
        """Return the region of *name*; a part may be in another one than its component."""
        regions = self.memory.workflow.wiring.regions
        return regions[name] if name in regions else self.memory.plan.nodes[name].region

    def productions(self, which: object = None) -> list[Fact]:
        """Return the facts that were produced, in order: all of them, or those of *which* component."""
        if which is None:
            return [fact for fact in self.facts() if not fact.is_input]
        self.memory.lineage.check_whole()
        return [self.memory.lineage.fact(address) for address in self._facts(which)[1]]

    def facts(self, which: object = None) -> list[Fact]:
        """Return the facts of *which* component in order; without one, all inputs and productions."""
        if which is not None:
            return self.productions(which)
        lineage = self.memory.lineage
        lineage.check_whole()
        found: list[Fact] = []
        for event in lineage.standing():
            if isinstance(event, (InputReceived, *PRODUCTIONS)):
                found.append(lineage.fact(event.seq))
            elif isinstance(event, StateChanged):
                found.extend(lineage.fact((event.seq, index)) for index in range(len(event.emitted)))
        return found

    def values(self, which: object = None) -> list[Any]:
        """Return the values that were produced, in order: all of them, or those of *which* component."""
        return [fact.value for fact in self.productions(which)]

    def fact(self, which: object) -> Fact:
        """
        Return the latest fact of *which* component.

        Raises:
            NothingProduced: there is none.
            UnknownComponent: nothing has this name.
        """
        name, last = self._last(which)
        if last is None:
            self._check_nothing(name)
            raise self.nothing_produced(name)
        return self.memory.lineage.fact(last)

    def _check_nothing(self, name: str) -> None:
        """
        Check that *name* has made nothing at all: the log has nothing that it has made.

        Raises:
            HistoryTruncated: it may have made something that was removed; of a leaf the latest fact never is.
        """
        if name not in self.memory.workflow.leaves:
            self.memory.lineage.check_whole()

    def _check_inputs(self) -> None:
        """
        Check that all inputs are in the log, and with them all that came of them.

        Raises:
            HistoryTruncated: one of them may have been removed.
        """
        memory, lineage = self.memory, self.memory.lineage
        if lineage.removed and memory.received and event_of(memory, 1).seq <= lineage.removed:
            lineage.check_whole()

    def value(self, which: object, default: Any = MISSING) -> Any:
        """
        Return the latest value of *which* component, or *default* if it has produced none.

        Raises:
            NothingProduced: there is none, and no default.
            UnknownComponent: nothing has this name.
        """
        name, last = self._last(which)
        if last is not None:
            return self.memory.lineage.fact(last).value
        self._check_nothing(name)
        if default is MISSING:
            raise self.nothing_produced(name, advice="; pass default= to get a value anyway")
        return default

    def results(
        self,
        *which: object,
        all: bool = False,  # noqa: A002 - what one would say
        facts: bool = False,
    ) -> dict[str, Any]:
        """
        Return the latest value of each leaf that has one; of several for one input, the last in the order written.

        For a leaf inside an ``each`` it is a list: its values for all elements of the latest input, in their order.

        Args:
            which: output ports, components, or parts of components (``trip.book``) to return in place of the leaves;
                None where they have produced nothing.
            all: return a list of all values, input by input, instead of the latest.
            facts: return facts in place of their values: each has the value, its producer, and where it came from.
        """
        if not which and not all:
            found: dict[str, Any] = {}
            for name in self.memory.workflow.leaves:
                value = self._result(name, facts=facts)
                if value is not MISSING:
                    found[name] = value
            return found
        ports = dict(port_names(self.memory.workflow.returns))
        asked = {name: name for name in self.memory.workflow.leaves} if not which else self._asked(which, ports)
        if all:
            return {port: self._all_results(name, facts=facts) for port, name in asked.items()}
        latest = {port: self._result(name, facts=facts) for port, name in asked.items()}
        return {port: None if value is MISSING else value for port, value in latest.items()}

    def _asked(self, which: tuple[object, ...], ports: dict[str, str]) -> dict[str, str]:
        """Return the components that *which*, ports or components, stand for, by what to call them."""
        found: dict[str, str] = {}
        for one in which:
            name = ports[one] if isinstance(one, str) and one in ports else self._name_of(one)
            found[one if isinstance(one, str) else name] = name
        return found

    def _taken(self, addresses: Iterable[Address], *, facts: bool) -> list[Any]:
        """Return the facts at *addresses*, or their values."""
        lineage = self.memory.lineage
        return [lineage.fact(at) if facts else lineage.cell(at).value for at in addresses]

    def _all_results(self, name: str, *, facts: bool) -> list[Any]:
        """Return everything that *name* has made, by input, by element, and in the order written."""
        memory, wiring = self.memory, self.memory.workflow.wiring
        memory.lineage.check_whole()
        made = memory.lineage.index().get(name, [])
        maps = wiring.enclosing(self._region(name))[:-1]
        if (among := ordered(memory, name, made)) is not None:
            return self._taken([at for _, at in sorted(among, key=itemgetter(0))], facts=facts)
        placed = [
            (self.memory.lineage.ordinal(at), [i for _, i in self.memory.lineage.elements(at, maps)], n)
            for n, at in enumerate(made)
        ]
        return self._taken([made[n] for *_, n in sorted(placed)], facts=facts)

    def _result(self, name: str, *, facts: bool = False) -> Any:
        """Return the latest value of *name*, or its fact; a list inside an ``each``; MISSING if there is none."""
        memory, wiring = self.memory, self.memory.workflow.wiring
        region, is_ordered = self._region(name), memory.keyed is not None and name in memory.keyed
        if region is None and not is_ordered and not facts and (last := memory.lineage.made_last(name)) is not None:
            return last.value
        if region is None and not is_ordered and (recent := memory.lineage.last_address(name)) is not None:
            return self._taken((recent,), facts=facts)[0]
        made = memory.lineage.index().get(name, [])
        among = ordered(memory, name, made) if is_ordered else None
        maps = wiring.enclosing(region)[:-1]
        if maps:
            batch = self.memory.lineage.last_batch(str(maps[-1]))
            if batch is None:
                self._check_inputs()
                return MISSING
            if batch <= memory.lineage.removed:  # some of its elements may have been removed
                memory.lineage.check_whole()
            if among is not None:
                return self._taken(_of_input(among, self.memory.lineage.ordinal(batch)), facts=facts)
            return self._taken(self._of_batch(made, maps, batch), facts=facts)
        if not made:
            self._check_nothing(name)
            return MISSING
        if among:
            made = _of_input(among, among[-1][0][0])
        elif among is not None:  # the log is truncated, and has none of those
            memory.lineage.check_whole()
        [latest] = self._taken(made[-1:], facts=facts)
        return latest

    @property
    def output(self) -> Any:
        """
        The result of a traced workflow; else the value of the only leaf; of several leaves, the results by name.

        A dict leaves out what has produced nothing.

        Raises:
            NothingProduced: a component that the workflow returns has produced nothing; the error says why.
        """
        return fill(self.memory.workflow.returns, self._returned)

    def _returned(self, output: Output) -> Any:
        value = self._result(output.component)
        return self.fact(output.component).value if value is MISSING else value

    def state_of(self, which: object) -> Any:
        """
        Return the state of *which* stateful component, or its initial one.

        For a component that keeps a state per key, return the states by key; for a saga, its progress or its outcome.
        If several requests of a saga are in the run, that is one that is stuck, or else the one that was active last.
        """
        name, node, state = self._stateful(which)
        if isinstance(node.component, Saga):
            letters = [
                each.event for each in (self.memory.letters or {}).values() if each.activation.node.owner == name
            ]
            has_ended = self.memory.undo is not None and not self.memory.is_undoing
            return saga_status(node.component, name, self.memory.lineage, letters, has_ended=has_ended)
        if state.by_key:
            return {key: change.state for key, change in self.memory.state_changes(node).items()}
        states = self.memory.produced.get(name)
        return states[-1].value if states else state.initial.make()

    def is_complete(self, which: object, *, key: Any = None) -> bool:
        """
        Return whether *which* component has nothing more to do: an FSM in a final state, a process
        that is complete, a saga that has an outcome for every request.

        Args:
            key: which one, of a component that keeps a state per key; without it, all that have begun.
        """
        name, node, state = self._stateful(which)
        if isinstance(node.component, Saga):
            return bool(self.state_of(which).is_over) and not self._is_in_flight(name)
        if key is not None and not state.by_key:
            raise DefinitionError(f"{name!r} keeps one state; leave key={key!r} out")
        if isinstance(node.component, FSM):
            return self.state_of(which) in node.component.final
        changes = self.memory.state_changes(node)
        of = list(changes.values()) if key is None else [changes[key]] if key in changes else []
        return bool(of) and all(getattr(last, "done", False) for last in of)

    def _is_in_flight(self, saga: str) -> bool:
        """Whether some request of *saga* has no outcome: a part of it may still run, or is kept as a dead letter."""
        memory = self.memory
        pending = [*memory.open_all().values(), *(memory.blocked or {}).values()]
        pending += [letter.activation for letter in (memory.letters or {}).values()]
        return any(one.node.owner == saga and (one.node.is_relay or one.node.name == saga) for one in pending)

    def _stateful(self, which: object) -> tuple[str, FunctionNode, NodeState]:
        name = self._name_of(which)
        node = self.memory.plan.nodes.get(name)
        if not isinstance(node, FunctionNode) or node.state is None:
            raise DefinitionError(f"{name!r} keeps no state; ask for value({name!r})")
        return name, node, node.state

    def lineage(self, fact: Fact, depth: int | None = None) -> list[Fact]:
        """
        Return everything that *fact* came from, the input first, *fact* last.

        Args:
            depth: how many steps to go back at most; the older causes of a long history are left out then.
        """
        check_fact("lineage", fact)
        check_depth(depth)
        return fact.ancestry(depth)

    def explain(self, which: object, depth: int | None = None) -> Explanation:
        """
        Return the causal tree of *which*, a fact or the latest of a component: as data, and as text by ``str``.

        Args:
            depth: how many steps to go back at most; the text says where older causes were left out.
        """
        check_depth(depth)
        return Explanation(which if isinstance(which, Fact) else self.fact(which), depth)

    def hash_of(self, fact: Fact) -> str:
        """Return the content hash of *fact*: value and ancestry, the same in every process."""
        check_fact("hash_of", fact)
        return fact.hash

    def picture(self) -> Picture:
        """Return the picture of this run as data: its workflow, with the status of each component."""
        return sketch(self.memory.workflow, progress_of(self.memory))

    def to_mermaid(self, direction: str = "TD", *, kind: str = "flowchart") -> str:
        """
        Return this run for Mermaid: its graph, or with ``kind="sequence"`` what caused what, in order.

        Raises:
            InvalidDrawing: an unknown *kind* or *direction*.
        """
        if kind == "sequence":
            return to_sequence(self.memory)
        if kind != "flowchart":
            raise InvalidDrawing("kind", kind, ("flowchart", "sequence"))
        return super().to_mermaid(direction)

    def nothing_produced(self, name: str, ordinal: int | None = None, advice: str = "") -> NothingProduced:
        """Return the error for *name*, which has produced nothing, for the input *ordinal* if that is given."""
        try:
            return self._nothing_produced(name, ordinal, advice)
        except HistoryTruncated as error:  # that it has produced nothing is known all the same
            return NothingProduced(name, str(error), advice)

    def _nothing_produced(self, name: str, ordinal: int | None, advice: str) -> NothingProduced:
        failed = self._failed_before(name, ordinal) if self._makes_values(name) else None
        if failed is None:
            return NothingProduced(name, self._why_nothing(name, ordinal), advice)
        who = "it" if failed.component == name else repr(failed.component)
        if name not in (failed.component, self._owner_of(failed.component)):
            who += ", which feeds it,"
        kind, message = failed.error.type.rpartition(".")[2], failed.error.message
        error = NothingProduced(name, f"{who} failed ({kind}: {message})", advice)
        error.__cause__ = self.failure_of(failed)
        return error

    def failure_of(self, event: RunnableFailed) -> StepFailed:
        """Return the failure that *event* tells of, as an error; the user's exception is its ``__cause__``."""
        failure = StepFailed(event.component, event.attempts, event.error.type, event.error.message)
        failure.__cause__ = self._cause_of(event)
        return failure

    def _cause_of(self, event: RunnableFailed) -> BaseException:
        cause, node = described(event.error), self.memory.plan.nodes.get(event.component)
        if isinstance(cause, SignalTimeout) and isinstance(node, FunctionNode) and node.wait is not None:
            cause.component, cause.signal = event.component, str(node.wait.signal)
            cause.seconds = node.wait.seconds or 0.0
        return cause

    def _failed_before(self, name: str, ordinal: int | None) -> RunnableFailed | None:
        """
        Return the failure that kept *name* from its facts: its own or of a part, else of what it depends on.

        That a batch failed says less than the failure of its element, which is one of those.
        """
        memory = self.memory
        if not memory.failures:
            return None
        begin = self._begin_of(ordinal)
        failures = [event for event in memory.failures.values() if self._is_of(event, ordinal, begin)]
        if not failures:
            return None
        above = memory.workflow.wiring.upstream(name) if name in memory.workflow.wiring.inlets else set[str]()
        inside = [event for event in failures if name in (event.component, self._owner_of(event.component))]
        before = [event for event in failures if above & {event.component, self._owner_of(event.component)}]
        batches = [event for event in inside if event.error.type == "weft.errors.BatchFailed"]
        found = [event for event in inside if event not in batches] or before or batches
        return found[-1] if found else None

    def _owner_of(self, name: str) -> str:
        """Return the name of the component that *name* is a part of; its own if it is none."""
        node = self.memory.plan.nodes.get(name)
        return name if node is None else node.owner

    def _makes_values(self, name: str) -> bool:
        """Whether *name* makes values: conditions and tests do not."""
        component, node = self.memory.workflow.components.get(name), self.memory.plan.nodes.get(name)
        is_test = isinstance(node, FunctionNode) and node.is_test
        return not is_test and (component is None or component.makes_facts)

    def _begin_of(self, ordinal: int | None) -> int:
        """Return where the input *ordinal* stands; 0 if that is None, or the only one."""
        memory = self.memory
        return 0 if ordinal is None or memory.received == 1 else event_of(memory, ordinal).seq

    def _is_of(self, event: Activated, ordinal: int | None, begin: int) -> bool:
        """Whether *event* comes from the input *ordinal*, which stands at *begin*; from any if that is None."""
        memory = self.memory
        return ordinal is None or memory.received == 1 or memory.lineage.is_of(event.inputs[0], ordinal, begin)

    def _latest_first(self, begin: int) -> Iterator[AnyEvent]:
        """Yield the events after *begin* that count, the last one first."""
        lineage = self.memory.lineage
        for event in reversed(lineage.log):
            if event.seq <= begin:
                return
            if event.seq not in lineage.void:
                yield event

    def _why_nothing(self, name: str, ordinal: int | None = None) -> str:
        memory = self.memory
        component = memory.workflow.components.get(name)
        if not self._makes_values(name):
            return f"{an('condition' if component is None else component.kind)} makes no values"
        ready = (each for each in memory.open_all().values() if each.key[0] == name)
        if any(ordinal is None or each.scope.root.index == ordinal for each in ready):
            return "it is ready and has not run yet"
        waiting = [each for (who, _), each in (memory.waiting or {}).items() if who == name]
        if any(ordinal is None or each.activation.scope.root.index == ordinal for each in waiting):
            wait = waiting[0].activation.node.wait
            signal = None if wait is None else wait.signal
            return "it sleeps" if signal is None else f"it waits for the signal {signal!r}"
        if not memory.received:
            return "the run has had no input"
        begin = self._begin_of(ordinal)
        ends = (end for end in self._latest_first(begin) if isinstance(end, ENDINGS) and end.component == name)
        last = next((end for end in ends if self._is_of(end, ordinal, begin)), None)
        if isinstance(last, RunnableFailed):
            return f"it failed ({last.error.type.rpartition('.')[2]}: {last.error.message}), and that was handled"
        if isinstance(last, RunnableSkipped):
            return f"it was skipped{f' ({last.reason})' if last.reason else ''}"
        if last is not None:
            return "it ignored what arrived"
        above = memory.workflow.wiring.upstream(name) if name in memory.workflow.components else set[str]()
        stops = (each for each in self._latest_first(begin) if isinstance(each, ConditionEvaluated | RunnableSkipped))
        for event in stops:
            if event.component not in above or not self._is_of(event, ordinal, begin):
                continue
            if isinstance(event, RunnableSkipped):
                return f"{event.component!r}, which feeds it, was skipped{f' ({event.reason})' if event.reason else ''}"
            if not event.holds:
                return f"the condition {event.component!r} did not hold"
        if memory.lineage.removed > begin:  # the reason may be among what was removed
            memory.lineage.check_whole()
        return "nothing that it takes has reached it, or what feeds it failed or was gated off"

    def _of_batch(self, facts: list[Address], maps: list[str | None], batch: int) -> list[Address]:
        """Return those of *facts*, made inside *maps*, that came of the collection of *batch*, in its order."""
        placed = [(self.memory.lineage.elements(address, maps), address) for address in facts]
        same = [(elements, address) for elements, address in placed if elements and elements[0][0] == batch]
        same.sort(key=lambda item: [index for _, index in item[0]])
        return [address for _, address in same]

    def _results_of_last_input(self) -> list[Fact]:
        """Return the facts that the leaves have produced for the last input."""
        memory = self.memory
        last = next((event.seq for event in reversed(memory.log) if isinstance(event, InputReceived)), 0)
        reached = {last}
        void = memory.lineage.void
        for event in memory.lineage.log[last:]:
            if isinstance(event, (*PRODUCTIONS, FannedOut, StateChanged)) and event.seq not in void:
                sources = (at if isinstance(at, int) else at[0] for at in memory.lineage.parents(event.seq))
                if any(source in reached for source in sources):
                    reached.add(event.seq)
        leaves = set(memory.workflow.leaves)
        return [
            fact
            for fact in self.facts()
            if fact.producer in leaves
            and (fact.address if isinstance(fact.address, int) else fact.address[0]) in reached
        ]


def check_depth(depth: object) -> None:
    """Raise InvalidArgument unless *depth* is a number of steps, or None."""
    if depth is not None and (type(depth) is not int or depth < 0):
        raise InvalidArgument(f"depth={shown(depth)}: use a number of steps, 0 or more, or None for all of them")


def check_fact(method: str, fact: object) -> None:
    """Raise InvalidArgument unless *fact*, which *method* was given, is one."""
    if not isinstance(fact, Fact):
        named = "; run.fact('name') is the latest of a component" if isinstance(fact, str) else ""
        raise InvalidArgument(f"{method}() takes a fact, got {shown(fact)}{named}")


def _of_input(facts: Iterable[tuple[Order, Address]], ordinal: int) -> list[Address]:
    """Return those of *facts* that came of the input *ordinal*, in their order."""
    return [at for _, at in sorted((fact for fact in facts if fact[0][0] == ordinal), key=itemgetter(0))]

"""
Pieces wired to each other: who feeds whom, inside of a map or of another workflow or plainly, and whether a run came
to what the pieces say.

In front of every piece stands a step that makes a message for it of whatever comes.  Of the log the judge takes two
things that cannot be foreseen: in which order a component that keeps a state got its messages, and what was given up
by a person or by a policy.  All else follows from the inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, Literal
from zlib import crc32

import msgspec
from courses import Loop, Nest, Rounds, Route, Trip
from families import Family, lives
from families import told as told_of
from pauses import Pause, Wait
from pieces import NOTHING, Account, Arrivals, Came, Gate, Lost, Machine, Orders, Piece
from remedies import Fragile, Spare

from weft import Policy, Run, SagaOutcome, Workflow, each, reduce, step
from weft.core import events as ev
from weft.core.components.loop_ends import TurnEnd
from weft.core.components.repeat import Repeat
from weft.core.components.rule import Rule
from weft.core.compose.inlet import INPUT_NAME
from weft.testing import Signal, Trial

KINDS = (
    *(Machine, Gate, Account, Orders, Trip, Trip, Loop, Route, Nest, Fragile, Fragile),
    *(Spare, Spare, Rounds, Rounds, Family, Family, Pause, Pause, Wait, Wait),
)
Shape = Literal["plain", "map", "batch", "nested"]


class Place(msgspec.Struct, frozen=True):
    """Where a piece stands: behind which other one, if not at the input, and inside of what."""

    piece: Piece
    source: str | None
    shape: Shape

    @property
    def prefix(self) -> str:
        """The prefix of its names."""
        return f"in_{self.piece.name}." if self.shape == "nested" else ""

    @property
    def name(self) -> str:
        """The name of the component in the workflow."""
        return self.prefix + self.piece.name

    @property
    def adapter(self) -> str:
        """The name of the step that makes messages."""
        return f"{self.prefix}to_{self.piece.name}"

    def part(self, part: str) -> str:
        """Return what a *part* of the piece is called in the workflow."""
        return f"{self.name}{'' if not part or part.startswith('_') else '.'}{part}"

    def adapt(self, value: Any) -> Any:
        """Return what the adapter makes of *value*: a message, or a few for a map."""
        number = mixed(value)
        if self.shape in ("map", "batch"):
            return [self.piece.message(number // 3 + place) for place in range(number % 3)]
        return self.piece.message(number)

    def fragment(self) -> Any:
        """Return the adapter and the component."""
        # A method would have annotations, which reading a log would work out each time.
        adapter = step(lambda value: self.adapt(value), name=f"to_{self.piece.name}")  # noqa: PLW0108
        component = self.piece.component()
        match self.shape:
            case "plain":
                return adapter >> component
            case "map":
                return adapter >> each(component, name=f"each_{self.piece.name}")
            case "batch":
                return adapter >> each(component, name=f"each_{self.piece.name}") >> self.total()
            case "nested":
                return Workflow(f"in_{self.piece.name}", adapter >> component)

    def total(self) -> Any:
        """Return what waits until all elements of a map are done, and adds up what they made."""
        return reduce(lambda total, value: total + mixed(value) % 1_000, init=0, name=f"total_{self.piece.name}")


class Network(msgspec.Struct, frozen=True):
    """Some places, sources first, and the signals that are sent to it."""

    places: tuple[Place, ...]
    signals: tuple[Signal, ...] = ()

    @property
    def waits(self) -> list[Wait]:
        """Its waits for signals."""
        return [place.piece for place in self.places if isinstance(place.piece, Wait)]

    def fragments(self) -> Iterator[tuple[str | None, Any]]:
        """Yield every place, and behind which component it stands."""
        outlets = {None: None, **{place.piece.name: place.part(place.piece.outlet) for place in self.places}}
        for place in self.places:
            yield outlets[place.source], place.fragment()

    @property
    def repairable(self) -> frozenset[str]:
        """The steps that may fail for good until they are fixed."""
        return frozenset(place.part(part) for place in self.places for part in place.piece.repairable)

    @property
    def losable(self) -> frozenset[str]:
        """The steps that a policy may give up."""
        return frozenset(place.part(part) for place in self.places for part in place.piece.losable)

    @property
    def policies(self) -> dict[str, Policy]:
        """The policies of its parts, by name."""
        return {place.part(part): policy for place in self.places for part, policy in place.piece.policies.items()}

    @property
    def children(self) -> dict[str, Workflow]:
        """The workflows that steps start."""
        return {name: workflow for place in self.places for name, workflow in place.piece.children.items()}

    @property
    def patient(self) -> frozenset[str]:
        """The components that wait for those."""
        mine = {place.name for place in self.places if place.piece.children}
        return frozenset(mine.union(*(place.piece.patient for place in self.places)))

    @property
    def amends(self) -> dict[str, Callable[[Any], Any]]:
        """The functions that make other inputs for dead letters."""
        return {place.name: place.piece.amend for place in self.places if isinstance(place.piece, Fragile)}

    def told_to(self, trial: Trial, verdict: Verdict) -> Trial:
        """Return *trial* with what may happen to this network, and what *verdict* says of its children."""
        return msgspec.structs.replace(
            trial,
            repairable=self.repairable,
            losable=self.losable,
            policies=self.policies,
            amends=self.amends,
            children=self.children,
            patient=self.patient,
            check_children=verdict.children,
            signals=self.signals,
            ending_signals=tuple(signal for wait in self.waits for signal in wait.ending_signals),
        )


def draw_network(dice: Random) -> Network:
    """Return a network of up to four pieces."""
    places: list[Place] = []
    for number in range(dice.choice((1, 1, 2, 3, 4))):
        kind = dice.choice(KINDS)
        sources = [None, *(place.piece.name for place in places if place.shape == "plain")]
        shape = dice.choice(shapes(kind, "plain", "plain"))
        places.append(Place(kind.draw(f"{kind.__name__.lower()}{number}", dice), dice.choice(sources), shape))
    signals = [signal for wait in Network(tuple(places)).waits for signal in wait.signals(dice)]
    dice.shuffle(signals)
    return Network(tuple(places), tuple(signals))


def shapes(kind: type[Piece], *more: Shape) -> tuple[Shape, ...]:
    """Return in which shapes a piece of some *kind* can stand, and *more*."""
    batch: tuple[Shape, ...] = ("batch",) if kind.makes_one else ()
    return ("plain", "map", *batch, "nested", *more)


def mixed(value: Any) -> int:
    """Return a number for anything."""
    return crc32(repr(plain(value)).encode())


def plain(value: Any) -> Any:
    """Return *value* as plain data."""
    return msgspec.structs.astuple(value) if isinstance(value, SagaOutcome) else value


def counted(values: list[Any]) -> Counter[str]:
    """Return *values* without their order."""
    return Counter(repr(plain(value)) for value in values)


# -- whether a run came to what it should --------------------------------------------------------


class Verdict:
    """Compares a run of *network* with what has to come of *given*, the values that its first pieces get."""

    def __init__(self, network: Network, given: list[Any]) -> None:
        self.network, self.given = network, given
        self.creations: list[Any] = []
        """The expected ends of the children of the run that was looked at last."""

    def __repr__(self) -> str:
        return f"{self.given} given to {self.network!r}"

    def __call__(self, run: Run) -> Iterator[str]:
        """Yield what is wrong with *run*."""
        self.creations = []
        log = run.log()
        made: dict[str | None, list[Any]] = {None: self.given}
        for place in self.network.places:
            arrived = arrivals(log, place)
            wanted = [message for value in made[place.source] for message in messages(place, value)]
            if counted([message for _, message in arrived]) != counted(wanted):
                yield f"{place.name} should get {wanted} and got {arrived}"
                return
            if place.piece.is_stateful:
                arrived, wrong = in_order(log, place, arrived)
                yield from wrong
            told = retold(log, place)
            arrived = [(address, told.said(place.piece, address, message)) for address, message in arrived]
            came = place.piece.read(log, place.name).expect(arrived, lost(log, place, told))
            self.creations += came.creations
            made[place.piece.name] = [fact for facts in came.facts for fact in facts]
            yield from self.compare(run, place, came)

    def children(self, run: Run, runs: Mapping[str, Run]) -> Iterator[str]:
        """Yield what is wrong with the children of *run*, which was looked at just now."""
        found, wanted = told_of(lives(run, runs)), told_of(self.creations)
        if found != wanted:
            yield f"its children should become{wanted} and became{found}"

    def compare(self, run: Run, place: Place, came: Came) -> Iterator[str]:
        """Yield where a piece has come to something else."""
        name, facts = place.name, [fact for facts in came.facts for fact in facts]
        log = run.log()
        if not place.piece.outlet:
            found = [plain(value) for value in run.values(name)]
            if (found != facts) if place.piece.is_stateful else (counted(found) != counted(facts)):
                yield f"{name} should make {facts} and made {found}"
        inside = [event for event in log if isinstance(event, ev.ReactionOccurred) and owns(place, event.component)]
        parts = {part: counted([event.value for event in inside if event.component == part]) for part in names(inside)}
        wanted = {place.part(part): counted(values) for part, values in came.parts.items() if values}
        if parts != wanted:
            yield f"the parts of {name} should make {wanted} and made {parts}"
        if place.shape == "batch":
            yield from self.total(run, place, came)
        if came.state is not NOTHING and run.state_of(name) != came.state:
            yield f"the state of {name} should be {came.state} and is {run.state_of(name)}"
        in_doubt = {place.part(part) for part in (*place.piece.repairable, *place.piece.losable)}
        failed = {part for part in run.failures if part == name or owns(place, part)} - in_doubt
        if failed != {place.part(part) for part in came.failed}:
            yield f"of {name}, {came.failed} should fail and {failed} did"
        if came.errors is not None:
            failures = [event for event in log if isinstance(event, ev.RunnableFailed) and event.component == name]
            said = [event.error.message.replace(f" of {name!r}", "") for event in failures]
            if sorted(said) != sorted(came.errors):
                yield f"{name} should fail with {came.errors} and failed with {said}"
        events = [(event.component.removeprefix(f"{name}."), event.inputs[0]) for event in inside]
        yield from (f"{name}: {wrong}" for wrong in place.piece.disorder(events, came))

    def total(self, run: Run, place: Place, came: Came) -> Iterator[str]:
        """Yield what is wrong with what was added up of each input behind a map, which a failed element makes fail."""
        name, facts, by_input = f"total_{place.piece.name}", iter(came.facts), dict[Any, list[list[Any]]]()
        if made_nothing(run) & upstream(run, f"to_{place.piece.name}"):
            return  # one of several that lead to the map is missing, so that the batch is not whole
        for event in run.log():
            if isinstance(event, ev.FannedOut) and event.component == each_of(place):
                first = run.memory.lineage.ancestry(event.inputs[0])[0]
                by_input.setdefault(first, []).extend(next(facts) for _ in event.value)
        batches = list(by_input.values())
        whole = [batch for batch in batches if all(batch)]
        wanted = [sum(mixed(fact) % 1_000 for [fact] in batch) for batch in whole]
        if counted(run.values(name)) != counted(wanted):
            yield f"{name} should make {wanted} and made {run.values(name)}"
        if (name in run.failures) != (len(whole) < len(batches)):
            yield f"{name} should fail for {len(batches) - len(whole)} batches, and has {run.failures.get(name)}"


def made_nothing(run: Run) -> set[str]:
    """Return what has failed in *run*, or was passed over."""
    return {*run.failures, *(event.component for event in run.log() if isinstance(event, ev.RunnableSkipped))}


def upstream(run: Run, name: str) -> set[str]:
    """
    Return all without which something may not reach *name* in the workflow of *run*.

    These are the components before it, the conditions that they ask, and the parts of loops and rules; the parts of
    others stand beside the way.
    """
    wiring, found, left = run.workflow.wiring, set[str](), [name]
    while left:
        at = left.pop()
        parents = {parent for inlet in wiring.fed_by(at) for parent in inlet.parents} - {INPUT_NAME}
        before = parents.union(wiring.components[at].refers_to()) - found
        left += before
        found |= before
    parts = {
        f"{at}.{part}"
        for at in found
        if isinstance(wiring.components[at], Repeat | Rule | TurnEnd)
        for part in wiring.components[at].functions()
    }
    return found | parts


def each_of(place: Place) -> str:
    """Return what the map is called in which a piece stands."""
    return f"each_{place.name}"


def messages(place: Place, value: Any) -> list[Any]:
    """Return what arrives at a piece when its adapter gets *value*."""
    made = place.adapt(value)
    return made if place.shape in ("map", "batch") else [made]


def owns(place: Place, component: str) -> bool:
    """Whether *component* is a part of a piece."""
    return component.startswith(f"{place.name}.") or component == f"{place.name}_error"


def names(events: list[Any]) -> dict[str, None]:
    """Return the components of *events*, each once."""
    return dict.fromkeys(event.component for event in events)


def arrivals(log: list[Any], place: Place) -> Arrivals:
    """Return what arrived at a piece, in the order in which it was made."""
    if place.shape in ("map", "batch"):
        fans = [event for event in log if isinstance(event, ev.FannedOut) and event.component == each_of(place)]
        return [((event.seq, index), value) for event in fans for index, value in enumerate(event.value)]
    made = [event for event in log if isinstance(event, ev.ReactionOccurred) and event.component == place.adapter]
    return [(event.seq, event.value) for event in made]


def in_order(log: list[Any], place: Place, arrived: Arrivals) -> tuple[Arrivals, list[str]]:
    """Return what arrived in the order in which the piece took it, and what is wrong with that."""
    said = dict(arrived)
    order = [event.inputs[0] for event in log if isinstance(event, ev.ENDINGS) and event.component == place.name]
    if Counter(order) != Counter(list(said)):
        return arrived, [f"{place.name} should take {said} once each and took {order}"]
    return [(address, said[address]) for address in order], []


class Retold(msgspec.Struct, frozen=True):
    """The inputs that dead letters were given in place of what they had."""

    origins: dict[Any, Any]
    """By where it stands: in place of what had arrived at first."""
    times: Counter[Any]
    """By where that had arrived: how often."""

    def said(self, piece: Piece, address: Any, message: Any) -> Any:
        """Return what *piece* received in the end in place of *message*."""
        for _ in range(self.times[address]):
            message = piece.amend(message)
        return message


def retold(log: list[Any], place: Place) -> Retold:
    """Return which dead letters of a piece were given something else, and how often; not what."""
    found = Retold({}, Counter())
    for event in log:
        if isinstance(event, ev.RunnableRetried) and event.component == place.name and event.values is not None:
            origin = found.origins.get(event.inputs[0], event.inputs[0])
            found.origins[event.seq, 0] = origin
            found.times[origin] += 1
    return found


def lost(log: list[Any], place: Place, told: Retold) -> Lost:
    """Return what a person or a policy gave up: that did not complete in the end."""
    found: dict[tuple[str, Any], Any] = {}
    doubtful = {place.part(part): part for part in (*place.piece.repairable, *place.piece.losable)}
    for event in log:
        if isinstance(event, ev.ENDINGS) and event.component in doubtful:
            address = event.inputs[0]
            found[doubtful[event.component], told.origins.get(address, address)] = event
    return {about for about, event in found.items() if isinstance(event, ev.RunnableFailed | ev.RunnableSkipped)}

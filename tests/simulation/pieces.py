"""
The components that keep a state and decide, each as a few drawn numbers.

A piece makes a component of them, and says in plain Python what has to come of the messages that arrive at it, one
after another.  It knows nothing of how Weft does that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from random import Random
from typing import Any, ClassVar

import msgspec

from weft import FSM, Aggregate, Policy, ProcessManager, Transition, Workflow, state_machine
from weft.typing import Address

Message = Any
Arrivals = list[tuple[Address, Message]]
"""The messages that arrived at a piece, in its order: where each stands in the log, and what it says."""
Lost = Collection[tuple[str, Address]]
"""A part that came to nothing because a person or a policy gave it up, and the arrival that it was about."""
NOTHING: Any = ...
"""The state of what keeps none."""


class Came(msgspec.Struct):
    """The expected results of what arrived at a piece."""

    facts: list[list[Any]] = []
    """Of each arrival, in order: what flows on."""
    parts: dict[str, list[Any]] = {}
    """By part: what it made, in any order."""
    failed: set[str] = set()
    """The parts of which something failed; ``""`` is the piece itself."""
    errors: list[str] | None = None
    """The errors of the piece itself, in any order; None, if they do not matter."""
    state: Any = NOTHING
    creations: list[Any] = []
    """The ends of the runs that it starts."""

    def made(self, part: str, value: Any) -> None:
        """A *part* has made *value*."""
        self.parts.setdefault(part, []).append(value)


class Piece(msgspec.Struct, frozen=True):
    """One component.  *names* of parts are those behind its own name."""

    name: str
    is_stateful: ClassVar[bool] = True
    """Whether what comes of one arrival depends on those before."""
    makes_one: ClassVar[bool] = False
    """Whether one fact comes of every arrival, or else a failure."""
    outlet: ClassVar[str] = ""
    """The part whose facts flow on; ``""`` is the piece itself."""

    def message(self, number: int) -> Message:
        """Return what this piece understands, made of any number."""
        raise NotImplementedError

    def component(self) -> Any:
        """Return it as a component."""
        raise NotImplementedError

    def expect(self, arrivals: Arrivals, lost: Lost) -> Came:
        """Return what has to come of *arrivals*."""
        raise NotImplementedError

    @property
    def repairable(self) -> tuple[str, ...]:
        """The parts that may fail for good until they are fixed; ``""`` is the piece itself."""
        return ()

    @property
    def losable(self) -> tuple[str, ...]:
        """The parts that a policy may give up."""
        return ()

    @property
    def policies(self) -> dict[str, Policy]:
        """By part: what its policy has to say."""
        return {}

    @property
    def children(self) -> dict[str, Workflow]:
        """The workflows that it starts, by name."""
        return {}

    @property
    def patient(self) -> tuple[str, ...]:
        """The components of these that wait for others."""
        return ()

    def read(self, log: list[Any], name: str) -> Piece:
        """Return it with what only the *log* says, where it is called *name*."""
        del log, name
        return self

    def amend(self, message: Message) -> Message:
        """Return what a dead letter gets in place of *message*."""
        return message

    def disorder(self, events: list[tuple[str, Address]], came: Came) -> Iterator[str]:
        """Yield what is wrong with the order in which parts have completed, each for an arrival."""
        del events, came
        yield from ()


def refuse(number: int, every: int) -> int:
    """Return *number*, unless *every* divides it; 0 divides nothing."""
    if every and number % every == 0:
        raise ValueError(f"{number} can be divided by {every}")
    return number


def bare(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* without annotations, which reading a log would work out each time."""
    function.__annotations__.clear()
    return function


class Machine(Piece, frozen=True):
    """A state machine: adds up, and fails on some numbers; one reactor sees every state, the other some."""

    init: int
    bad: int
    high: int

    @staticmethod
    def draw(name: str, dice: Random) -> Machine:
        """Return one."""
        return Machine(name, dice.randint(0, 9), dice.choice((0, 4)), dice.randint(2, 3))

    def message(self, number: int) -> Message:
        return number % 20

    def component(self) -> Any:
        bad, high = self.bad, self.high
        return state_machine(
            self.name,
            init=self.init,
            reducer=lambda state, x: (2 * state + refuse(x, bad)) % 101,
            reactors={"seen": lambda s: ("seen", s), "high": (lambda s: s % high == 0, lambda s: refuse(s, 5))},
        )

    def expect(self, arrivals: Arrivals, lost: Lost) -> Came:
        came = Came(state=self.init)
        for _, x in arrivals:
            if self.bad and x % self.bad == 0:
                came.failed.add("")
                came.facts.append([])
                continue
            state = came.state = (2 * came.state + x) % 101
            came.facts.append([state])
            came.made("seen", ("seen", state))
            if state % self.high == 0 and state % 5 == 0:
                came.failed.add("high")
            elif state % self.high == 0:
                came.made("high", state)
        return came


class Way(msgspec.Struct, frozen=True):
    """A transition: where it leads, for which numbers it does not, and whether it does something."""

    to: str | None
    but: int | None
    does: bool


class Gate(Piece, frozen=True):
    """An FSM with a drawn table."""

    table: dict[str, dict[str, tuple[Way, ...]]]
    entries: tuple[str, ...]
    exits: tuple[str, ...]

    @staticmethod
    def draw(name: str, dice: Random) -> Gate:
        """Return one of three states, of which the last may be final."""
        states = ("shut", "ajar", "open")

        def way() -> Way:
            return Way(dice.choice((None, *states)), dice.choice((None, 0, 1)), dice.random() < 0.5)

        table = {
            state: {event: tuple(way() for _ in range(dice.randint(1, 2))) for event in ("go", "stop")}
            for state in states
        }
        if dice.random() < 0.4:
            table["open"] = {}
        entries, exits = ([state for state in states if dice.random() < 0.5] for _ in range(2))
        return Gate(name, table, tuple(entries), tuple(exits))

    def message(self, number: int) -> Message:
        return {"event": ("go", "stop", "go", "knock")[number % 4], "n": number % 9}

    def component(self) -> Any:
        def acts(kind: str, state: str) -> Any:
            return lambda event: (kind, state, refuse(event["n"], 5))

        def made(way: Way) -> Transition:
            but = way.but
            when = None if but is None else (lambda event: event["n"] % 3 != but)
            return Transition(way.to, when=when, do=(lambda event: ("do", event["n"])) if way.does else None)

        return FSM(
            self.name,
            initial="shut",
            states={
                state: {event: [made(way) for way in ways] for event, ways in events.items()}
                for state, events in self.table.items()
            },
            on_entry={state: acts("in", state) for state in self.entries},
            on_exit={state: acts("out", state) for state in self.exits},
            final=[state for state, events in self.table.items() if not events],
        )

    def expect(self, arrivals: Arrivals, lost: Lost) -> Came:
        came = Came(state="shut")
        for _, message in arrivals:
            n, before = message["n"], came.state
            ways = self.table[before].get(message["event"], ())
            taken = next((place for place, way in enumerate(ways) if way.but is None or n % 3 != way.but), None)
            came.facts.append([])
            if taken is None:
                continue
            way = ways[taken]
            if way.does:
                part = f"{before}.{message['event']}{f'_{taken + 1}' if taken else ''}.do"
                came.made(part, ("do", n))
            if way.to is None:
                continue
            came.state = way.to
            came.facts[-1].append(way.to)
            actions = [("exit", "out", before)] if before in self.exits else []
            actions += [("entry", "in", way.to)] if way.to in self.entries else []
            for part, kind, state in actions:
                if n % 5 == 0:
                    came.failed.add(f"{state}.{part}")
                else:
                    came.made(f"{state}.{part}", (kind, state, n))
        return came


class Account(Piece, frozen=True):
    """An aggregate that adds and subtracts; its own events given as input are ignored."""

    init: int
    bad: int

    @staticmethod
    def draw(name: str, dice: Random) -> Account:
        """Return one."""
        return Account(name, dice.randint(0, 9), dice.choice((0, 3)))

    def message(self, number: int) -> Message:
        n = number % 13
        named = {"n": n, "command": ("put", "take", "twice", "nothing", "unknown")[number % 5]}
        return ("moved", n) if number % 7 == 0 else named

    def component(self) -> Any:
        bad = self.bad
        made = Aggregate(self.name, init=self.init)
        made.command("put")(lambda s, c: ("moved", refuse(c["n"], bad)))
        made.command("take", when=lambda s, c: s >= c["n"])(lambda s, c: ("moved", -c["n"]))
        made.command("twice")(lambda s, c: [("moved", c["n"]), ("closed",)])
        made.command("nothing")(lambda s, c: None)
        made.event("moved")(lambda s, n: s + n)
        made.event("closed")(lambda s, e: s * 2)
        return made

    def expect(self, arrivals: Arrivals, lost: Lost) -> Came:
        came = Came(state=self.init)
        for _, message in arrivals:
            command, n = (message["command"], message["n"]) if isinstance(message, dict) else ("moved", 0)
            events: list[Any] = []
            if command == "put" and self.bad and n % self.bad == 0:
                came.failed.add("")
            elif command == "put":
                events = [("moved", n)]
                came.state += n
            elif command == "take" and came.state >= n:
                events = [("moved", -n)]
                came.state -= n
            elif command == "twice":
                events = [("moved", n), ("closed",)]
                came.state = (came.state + n) * 2
            came.facts.append(events)
        return came


class Orders(Piece, frozen=True):
    """A process manager, for all or by key, that completes once."""

    keys: int
    """How many there are; 0, if it keeps one state."""
    last: int
    bad: int

    @staticmethod
    def draw(name: str, dice: Random) -> Orders:
        """Return one."""
        return Orders(name, dice.choice((0, 2)), dice.randint(1, 4), dice.choice((0, 5)))

    def message(self, number: int) -> Message:
        return {"event": ("paid", "sent", "unknown")[number % 3], "n": number % 11}

    def component(self) -> Any:
        keys, last, bad = self.keys, self.last, self.bad
        made = ProcessManager(
            self.name,
            init=0,
            key=(lambda event: event["n"] % keys) if keys else None,
            complete=lambda state: state >= last,
            on_complete=lambda state: ("done", state),
        )
        made.on("paid")(lambda state, event: (state + 1, [("ship", state), ("thank", refuse(event["n"], bad))]))
        made.on("sent")(lambda state, event: (state + 2, []))
        return made

    def expect(self, arrivals: Arrivals, lost: Lost) -> Came:
        states: dict[Any, int] = {}
        came = Came()
        for _, message in arrivals:
            n, key = message["n"], message["n"] % self.keys if self.keys else None
            state = states.get(key, 0)
            came.facts.append([])
            if state >= self.last or message["event"] == "unknown":
                continue
            if message["event"] == "sent":
                states[key] = state + 2
            elif self.bad and n % self.bad == 0:
                came.failed.add("")
                continue
            else:
                states[key] = state + 1
                came.facts[-1] += [("ship", state), ("thank", n)]
            if states[key] >= self.last:
                came.made("on_complete", ("done", states[key]))
        came.state = states if self.keys else states.get(None, 0)
        return came

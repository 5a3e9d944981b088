"""
The components that take one thing after another its course, each as a few drawn numbers: sagas, loops over steps and
over graphs, error routes, and nested workflows.

As those of ``pieces``, they say in plain Python what has to come of what arrives; here one arrival has nothing to do
with the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, ClassVar, Literal

import msgspec
from pieces import Arrivals, Came, Lost, Message, Piece, refuse

from weft import Saga, Workflow, condition, each, join, reduce, repeat, step
from weft.typing import Address


class Deed(msgspec.Struct, frozen=True):
    """A transaction: on which requests it fails, and whether it has to be undone."""

    name: str
    bad: int
    is_undone: bool


class Trip(Piece, frozen=True):
    """A saga of drawn transactions."""

    is_stateful: ClassVar[bool] = False
    deeds: tuple[Deed, ...]
    tells: bool

    @staticmethod
    def draw(name: str, dice: Random) -> Trip:
        """Return one of up to four transactions."""
        count = dice.randint(1, 4)
        deeds = [Deed(f"t{n}", dice.choice((0, 0, 2, 3, 4)), dice.random() < 0.8) for n in range(count)]
        return Trip(name, tuple(deeds), dice.random() < 0.5)

    def message(self, number: int) -> Message:
        return number % 30

    @property
    def repairable(self) -> tuple[str, ...]:
        """The compensations."""
        return tuple(f"{deed.name}.undo" for deed in self.deeds if deed.is_undone)

    def component(self) -> Any:
        said = (lambda outcome: (outcome.status, list(outcome.results))) if self.tells else None
        made = Saga(self.name, on_complete=said, on_abort=said)
        for deed in self.deeds:
            undo = _undoing(deed.name) if deed.is_undone else None
            made.transaction(_doing(deed.name, deed.bad), name=deed.name, compensate=undo)
        return made

    def expect(self, arrivals: Arrivals, lost: Lost) -> Came:
        came = Came()
        for address, request in arrivals:
            outcome = self.outcome(address, request, lost)
            came.facts.append([outcome])
            status, results, _, _, undone, _ = outcome
            for name, result in results.items():
                came.made(name, result)
            for name in undone:
                came.made(f"{name}.undo", ("undone", name, request))
            if self.tells:
                came.made("on_complete" if status == "completed" else "on_abort", (status, list(results)))
        return came

    def outcome(self, address: Address, request: int, lost: Lost) -> tuple[Any, ...]:
        """Return how it ends for *request*: the fields of an outcome."""
        results: dict[str, Any] = {}
        for deed in self.deeds:
            if deed.bad and request % deed.bad == 0:
                done = [each for each in self.deeds if each.name in results and each.is_undone]
                undone = [each.name for each in reversed(done) if (f"{each.name}.undo", address) not in lost]
                error = f"ValueError: {request} can be divided by {deed.bad}"
                return "aborted", results, deed.name, error, undone, []
            results[deed.name] = (deed.name, request, len(results))
        return "completed", results, None, None, [], []

    def disorder(self, events: list[tuple[str, Address]], came: Came) -> Iterator[str]:
        """Yield which transactions were not compensated once each, in reverse order."""
        found: dict[Address, list[str]] = {}
        for part, address in events:
            if not part.startswith("on_"):
                found.setdefault(address, []).append(part)
        outcomes = [outcome for ((_, *outcome),) in came.facts]
        wanted = [[*results, *(f"{name}.undo" for name in undone)] for results, _, _, undone, _ in outcomes]
        if sorted(found.values()) != sorted(parts for parts in wanted if parts):
            yield f"its parts completed in the order {list(found.values())}, not {wanted}"


def _doing(name: str, bad: int) -> Any:
    return lambda request, results: (name, refuse(request, bad), len(results))


def _undoing(name: str) -> Any:
    return lambda request, results: ("undone", name, results[name][1])


class Loop(Piece, frozen=True):
    """A loop of one or two steps a turn."""

    is_stateful: ClassVar[bool] = False
    makes_one: ClassVar[bool] = True
    steps: int
    goal: int
    at_most: int
    gives_last: bool
    bad: int

    @staticmethod
    def draw(name: str, dice: Random) -> Loop:
        """Return one."""
        return Loop(
            name, dice.randint(1, 2), dice.randint(3, 20), dice.randint(1, 4), dice.random() < 0.5, dice.choice((0, 7))
        )

    def message(self, number: int) -> Message:
        return number % 12

    def component(self) -> Any:
        goal, bad = self.goal, self.bad
        body: Any = step(lambda x: refuse(x, bad) + 3, name="add0")
        if self.steps == 2:
            body = body >> step(lambda x: refuse(x, bad) + 3, name="add1")
        otherwise: Any = "last" if self.gives_last else "fail"
        return repeat(body, until=lambda x: x >= goal, at_most=self.at_most, otherwise=otherwise, name=self.name)

    def expect(self, arrivals: Arrivals, lost: Lost) -> Came:
        came = Came()
        parts = ["turn"] if self.steps == 1 else ["add0", "add1"]
        for _, x in arrivals:
            came.facts.append([])
            try:
                for turn in range(1, self.at_most + 1):
                    for part in parts:
                        try:
                            x = refuse(x, self.bad) + 3  # noqa: PLW2901
                        except ValueError:
                            came.failed.add(part)
                            raise
                        came.made(part, x)
                    if x >= self.goal or (turn == self.at_most and self.gives_last):
                        came.facts[-1].append(x)
                        break
                else:
                    came.failed.add("")
            except ValueError:
                continue
        return came


class Rounds(Piece, frozen=True):
    """A loop over a graph: a turn adds, and then takes two ways at once, one of two, a map, or another loop."""

    is_stateful: ClassVar[bool] = False
    makes_one: ClassVar[bool] = True
    turn: Literal["fork", "either", "map", "loop"]
    goal: int
    at_most: int
    gives_last: bool
    bad: int

    @staticmethod
    def draw(name: str, dice: Random) -> Rounds:
        """Return one."""
        turn: Any = dice.choice(("fork", "either", "map", "loop"))
        return Rounds(name, turn, dice.randint(6, 40), dice.randint(1, 3), dice.random() < 0.5, dice.choice((0, 0, 5)))

    def message(self, number: int) -> Message:
        return number % 12

    def component(self) -> Any:
        goal, bad = self.goal, self.bad
        add = step(lambda x: refuse(x, bad) + 1, name="add")
        left, right = step(lambda x: x + 2, name="left"), step(lambda x: 2 * x, name="right")
        both = step(lambda a, b: (a + b) % 43, name="both")
        match self.turn:
            case "fork":
                body: Any = add >> [left, right] >> both
            case "either":
                is_even = condition(lambda x: x % 2 == 0, name="is_even")
                body = add >> join(is_even >> left, ~is_even >> right, wait="any")
            case "map":
                total = reduce(lambda total, x: total + x, init=0, name="total")
                body = add >> step(lambda x: [x] * (x % 3), name="list") >> each(left, name="each") >> total
            case "loop":
                inner = repeat([left, right] >> both, until=lambda x: x > 9, at_most=2, otherwise="last", name="inner")
                body = add >> inner
        otherwise: Any = "last" if self.gives_last else "fail"
        return repeat(body, until=lambda x: x >= goal, at_most=self.at_most, otherwise=otherwise, name=self.name)

    def expect(self, arrivals: Arrivals, lost: Lost) -> Came:
        came = Came()
        for _, x in arrivals:
            came.facts.append([])
            for turn in range(1, self.at_most + 1):
                if self.bad and x % self.bad == 0:
                    came.failed.add("add")
                    break
                x = self.turned(x + 1, came)  # noqa: PLW2901
                if x >= self.goal or (turn == self.at_most and self.gives_last):
                    came.facts[-1].append(x)
                    break
            else:
                came.failed.add("")
        return came

    def turned(self, x: int, came: Came) -> int:
        """Return what a turn makes that has added up to *x*."""
        came.made("add", x)
        match self.turn:
            case "fork":
                return self.forked(x, came, "")
            case "either":
                made = x + 2 if x % 2 == 0 else 2 * x
                came.made("right" if x % 2 else "left", made)
                return made
            case "map":
                elements = [x] * (x % 3)
                came.made("list", elements)
                for each_ in elements:
                    came.made("left", each_ + 2)
                came.made("total", sum(each_ + 2 for each_ in elements))
                return sum(each_ + 2 for each_ in elements)
            case "loop":
                x = self.forked(x, came, "inner.")
                if x <= 9:
                    x = self.forked(x, came, "inner.")
                came.made("inner", x)
                return x

    def forked(self, x: int, came: Came, inside: str) -> int:
        """Return what two ways at once make of *x*."""
        came.made(f"{inside}left", x + 2)
        came.made(f"{inside}right", 2 * x)
        came.made(f"{inside}both", (3 * x + 2) % 43)
        return (3 * x + 2) % 43


class Route(Piece, frozen=True):
    """A step whose failures go to another one; the run does not count as failed."""

    is_stateful: ClassVar[bool] = False
    bad: int

    @staticmethod
    def draw(name: str, dice: Random) -> Route:
        """Return one."""
        return Route(name, dice.randint(2, 3))

    def message(self, number: int) -> Message:
        return number % 10

    def component(self) -> Any:
        bad = self.bad
        picky = step(lambda x: ("fine", refuse(x, bad)), name=self.name)
        return picky.on_error(
            ValueError, then=step(lambda failure: ("caught", failure.input), name=f"{self.name}_error")
        )

    def expect(self, arrivals: Arrivals, lost: Lost) -> Came:
        came = Came()
        for _, x in arrivals:
            is_bad = x % self.bad == 0
            came.facts.append([] if is_bad else [("fine", x)])
            if is_bad:
                came.made("_error", ("caught", x))
        return came


class Nest(Piece, frozen=True):
    """A workflow in a workflow: two steps."""

    is_stateful: ClassVar[bool] = False
    outlet: ClassVar[str] = "both"
    by: int

    @staticmethod
    def draw(name: str, dice: Random) -> Nest:
        """Return one."""
        return Nest(name, dice.randint(1, 5))

    def message(self, number: int) -> Message:
        return number % 50

    def component(self) -> Any:
        by = self.by
        return Workflow(self.name, step(lambda x: x + by, name="more") >> step(lambda x: [x, by], name="both"))

    def expect(self, arrivals: Arrivals, lost: Lost) -> Came:
        came = Came()
        for _, x in arrivals:
            came.facts.append([[x + self.by, self.by]])
            came.made("more", x + self.by)
            came.made("both", [x + self.by, self.by])
        return came

"""
The first and the last component of a turn, in a loop whose body is a graph.

The components between them form a region, as the body of an ``each`` does: every turn is a scope, in which joins pair
facts and batches are completed.  In a loop called ``collatz``, ``collatz.turn`` begins a turn with a fact; ``collatz``
tests whether the loop is done, and has the outcome.  The way back is not an edge (``weft.core.fold.loops``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from weft.core.compose.component import Component, check_arity
from weft.core.functions.function import Function
from weft.core.functions.identity import canonical
from weft.errors import InvalidComponent, InvalidJoin, WrongArity

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion

Otherwise = Literal["fail", "last"]
"""The result of a loop that has used all its turns and is not done: it fails, or returns its last value."""


@dataclass(frozen=True, eq=False, repr=False)
class TurnStart(Component):
    """The start of a turn."""

    kind: ClassVar[str] = "turn"
    makes_facts: ClassVar[bool] = False
    opens_region: ClassVar[bool] = True

    def functions(self) -> dict[str, Function]:
        """Return nothing: the beginning of a turn does not run a function."""
        return {}

    def check_width(self, width: int, source: str) -> None:
        """Require one value."""
        if width != 1:
            raise WrongArity(f"{self.label!r} takes one value at a time and gets {width} from {source}")

    def expand(self, into: Expansion) -> None:
        """One node, which opens a scope for a turn."""
        into.feed(into.opening())


@dataclass(frozen=True, eq=False, repr=False)
class TurnEnd(Component):
    """The end of a turn: decides whether it was the last one, and has the outcome of the loop."""

    until: Function
    at_most: int
    start: str
    """The component with which a turn begins."""
    otherwise: Otherwise = field(default="fail", kw_only=True)
    kind: ClassVar[str] = "loop"
    takes_join: ClassVar[bool] = True

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return this end with components renamed as *names* says."""
        return replace(super().renamed(names), until=self.until.renamed(names), start=names.get(self.start, self.start))

    def before(self, *hooks: Callable[..., object], part: str | None = None) -> Self:
        """Refuse *hooks*: they belong to the components of a turn."""
        del hooks, part
        raise InvalidComponent(f"{self.label!r} is a loop and cannot have hooks; put them on what runs in a turn")

    def after(self, *hooks: Callable[..., object], part: str | None = None) -> Self:
        """Refuse *hooks*: they belong to the components of a turn."""
        return self.before(*hooks, part=part)

    def functions(self) -> dict[str, Function]:
        """Return the test that ends the loop."""
        return {"until": self.until}

    def rules_hold_for(self, part: str) -> bool:
        """Whether *part* is the test, which is asked once per turn."""
        return part == "until"

    def check_width(self, width: int, source: str) -> None:
        """Require one value, which the test takes."""
        if width != 1:
            raise InvalidJoin(
                f"a turn of {self.label!r} ends with {width} values, of {source}; let one component take them: "
                "[a, b] >> combine, or join(a, b, wait='any') if only one of them comes"
            )
        check_arity(f"{self.label}.until", self.until, 1, source, spread=False)

    def expand(self, into: Expansion) -> None:
        """A test inside of the turn, and a node for the outcome outside of it."""
        until = into.test(self.until, part="until", region=self.start)
        outcome = into.work(ITSELF)
        into.feed(until)
        into.reopen(until, self.start, at_most=self.at_most, gives_last=self.otherwise == "last")
        into.link(until, outcome)

    def details(self) -> bytes:
        """How many turns there may be, and what happens after the last one."""
        return canonical((self.at_most, self.otherwise))


def _itself(value: Any) -> Any:
    return value


ITSELF = Function.of(_itself)
"""Returns the value that it takes."""

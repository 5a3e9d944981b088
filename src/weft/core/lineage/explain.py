"""
Why a value is what it is: the facts that caused it, as a tree.

    >>> from weft import Workflow, step
    >>> run = Workflow("w", step(lambda x: x + 1, name="next") >> step(lambda x: x * 10, name="tenfold")).run(1)
    >>> print(run.explain("tenfold"))
    tenfold = 20
    └─ next = 2
       └─ input 1 = 1

A fact that several others came from is shown once; where it occurs again, the text says "see above".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from weft.core.lineage.fact import Fact

_WIDE = 8
"""How many causes of one fact the text shows."""
_LONG = 72
"""How many characters of a value the text shows."""


class Cause(msgspec.Struct, frozen=True, eq=False):
    """One fact, with what caused it.  A fact with several effects is one object, reached from each of them."""

    fact: Fact
    causes: tuple[Cause, ...]
    """The facts it was computed from, in the order of the arguments."""
    reads: tuple[Fact, ...] = ()
    """The other facts that its component read."""

    def __repr__(self) -> str:
        return f"Cause({_line(self.fact)}, {len(self.causes)} causes)"

    @property
    def component(self) -> str | None:
        """The component that produced the fact; None for an input."""
        return self.fact.producer

    @property
    def value(self) -> Any:
        """The value of the fact."""
        return self.fact.value


class Explanation:
    """The causal tree of one fact."""

    def __init__(self, fact: Fact, depth: int | None = None) -> None:
        self.fact, self.depth = fact, depth

    @property
    def root(self) -> Cause:
        """The tree as data."""
        done: dict[Fact, Cause] = {}
        for fact in self.fact.ancestry(self.depth):
            done[fact] = Cause(fact, tuple(done[parent] for parent in fact.parents if parent in done), fact.reads)
        return done[self.fact]

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as a flat, ordered record: each with its address, value, and the addresses of its causes."""
        return {
            "fact": self.fact.address,
            "facts": [
                {
                    "address": fact.address,
                    "component": fact.producer,
                    "value": fact.value,
                    "causes": [parent.address for parent in fact.parents],
                    "reads": [read.address for read in fact.reads],
                }
                for fact in self.fact.ancestry(self.depth)
            ],
        }

    def lines(self) -> Iterator[str]:
        """Yield the tree as text, line by line."""
        told: set[Fact] = set()
        stack: list[tuple[Fact | str, str, str, int]] = [(self.fact, "", "", 0)]
        while stack:
            fact, first, rest, depth = stack.pop()
            if isinstance(fact, str):
                yield first + fact
                continue
            parents = fact.parents
            again = fact in told and bool(parents)
            yield f"{first}{_line(fact)}{' (see above)' if again else ''}"
            if again:
                continue
            told.add(fact)
            if depth == self.depth:
                if parents:
                    yield f"{rest}└─ ... older causes, more than {depth:,} steps back"
                continue
            causes: list[Fact | str] = [f"reads {_line(read)}" for read in fact.reads]
            causes += parents[:_WIDE]
            if len(parents) > _WIDE:
                causes.append(f"... and {len(parents) - _WIDE:,} more")
            for i, cause in reversed(list(enumerate(causes))):
                last = i == len(causes) - 1
                stack.append((cause, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "), depth + 1))

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return f"Explanation of {self.fact!r}"


def _line(fact: Fact) -> str:
    return f"{_title(fact)} = {shown(fact.value)}"


def _title(fact: Fact) -> str:
    if fact.signal is not None:
        return f"signal {fact.signal!r}{f' by {fact.by}' if fact.by else ''}"
    if fact.producer is None:
        return f"input {fact.index}"
    return fact.producer if fact.index is None else f"{fact.producer}[{fact.index}]"


def shown(value: object) -> str:
    try:
        text = " ".join(repr(value).split())
    except Exception as error:  # noqa: BLE001 - what cannot be shown is still explained
        return f"<{type(value).__name__} whose repr fails with {type(error).__name__}>"
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."

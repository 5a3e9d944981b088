"""
A join: one child that waits for several parents.

``[a, b] >> c`` waits for a fact of both and calls ``c(a, b)``, in the order written.  ``join`` says what
else to wait for:

| wait | fires | the child gets |
| --- | --- | --- |
| ``"all"`` | when every parent has produced; never if one failed, was skipped or gated off | a value of each |
| ``"any"`` | once, with the first parent that produces | one value |
| ``n`` | once, when *n* parents have produced | *n* values, in the order the parents are written |
| ``"all_done"`` | when no parent can produce any more, even if some failed | a value or :class:`Absent` of each |

Facts are paired with facts of the same input, or of the same element of an ``each``.  ``"any"`` and *n* are
races: only the order of the log decides which parents win.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import msgspec

from weft.core.compose.flow import Flow, Fragment, as_flow, beside
from weft.core.compose.symbol import Symbol, living, origin_of
from weft.errors import InvalidJoin
from weft.typing import Wait


class Absent(msgspec.Struct, frozen=True):
    """
    Takes the place of the value of a parent of an ``all_done`` join that produced nothing; it is false.

    >>> bool(Absent("fetch", "failed"))
    False
    """

    component: str
    reason: Literal["failed", "skipped", "gated"]

    def __bool__(self) -> bool:
        return False


class Join(Fragment):
    """Several parents, and what to wait for."""

    def __init__(self, parents: Flow, wait: Wait) -> None:
        self.parents = parents
        self.wait: Wait = wait

    def flow(self) -> Flow:
        """Return the parents side by side, to be joined by what follows."""
        return replace(self.parents, wait=self.wait)

    def __repr__(self) -> str:
        names = ", ".join(str(tail.name) for tail in self.parents.tails)
        return f"join({names}, wait={self.wait!r})"


def join(*parents: object, wait: Wait = "all") -> Join:
    """
    Join *parents*: ``join(a, b, wait="any") >> c``, or inside ``@workflow`` ``c(join(x, y, wait="any"))``.

    Raises:
        InvalidJoin: fewer than two parents, or a *wait* that makes no sense.
    """
    flow = beside([_as_parent(parent) for parent in parents]) if parents else Flow()
    count = len(flow.tails)
    if count < 2:
        shown = flow.tails[0].name if flow.tails else "nothing"
        raise InvalidJoin(f"join({shown}) has {count} parent(s) and needs at least two; one parent is a >> b")
    if isinstance(wait, bool) or (isinstance(wait, int) and not 1 <= wait <= count):
        raise InvalidJoin(f"wait={wait!r} of {count} parents; use a number from 1 to {count}")
    if not isinstance(wait, int) and wait not in ("all", "any", "all_done"):
        raise InvalidJoin(f"wait={wait!r} is none of 'all', 'any', 'all_done' or a number of parents")
    return Join(flow, wait)


def _as_parent(parent: object) -> Flow:
    """Return *parent* as a flow; a value inside ``@workflow`` as what makes it."""
    return Flow(tails=(origin_of(living(parent)).tail,)) if isinstance(parent, Symbol) else as_flow(parent)

"""
The inlets of a component: where facts arrive, by the names of its parents.

A component may have several inlets, and runs on the facts of each.  An inlet with several parents is a join.

    >>> str(Inlet(("a", "b"), "any"))
    "join(a, b, wait='any')"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from weft.typing import Wait

INPUT_NAME: Final = "INPUT"


class Inlet(msgspec.Struct, frozen=True):
    """One way into a component: a parent, or several that are joined."""

    parents: tuple[str, ...]
    wait: Wait = "all"
    errors: tuple[str, ...] = ()
    """The names of exceptions: what comes by this inlet is a failure of the parent with one of them."""

    @property
    def is_join(self) -> bool:
        """Whether there is something to wait for."""
        return len(self.parents) > 1

    def renamed(self, names: Mapping[str, str]) -> Inlet:
        """Return this inlet where components go by other *names*."""
        return Inlet(tuple(names.get(parent, parent) for parent in self.parents), self.wait, self.errors)

    def __str__(self) -> str:
        names = ", ".join(self.parents)
        if self.errors:
            return f"failures of {names}"
        return names if self.wait == "all" else f"join({names}, wait={self.wait!r})"


ROOT: Final = (Inlet((INPUT_NAME,)),)
"""The inlets of a component that nothing else feeds."""

"""The usual scheduler: every runnable goes out by itself."""

from __future__ import annotations

from collections.abc import Sequence


class Default:
    """
    Hands over one runnable at a time.

    >>> Default().group(["fetch", "parse", "store"])
    1
    """

    __slots__ = ()

    def group(self, components: Sequence[str]) -> int:  # noqa: ARG002 - the answer is always the same
        """Return 1."""
        return 1

    def __repr__(self) -> str:
        return "Default()"

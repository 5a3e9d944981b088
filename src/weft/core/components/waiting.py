"""
Waiting: the base of components that only wait, for a time or for a signal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from weft.core.compose.component import Component
from weft.errors import InvalidComponent
from weft.typing import Out_co


@dataclass(frozen=True, eq=False, repr=False)
class Waiting(Component[Out_co]):
    """A component whose node runs no function, so nothing can be called before or after one."""

    def before(self, *hooks: Callable[..., object], part: str | None = None) -> Self:
        """Refuse *hooks*: no function runs here."""
        del hooks, part
        raise InvalidComponent(f"{self.label!r} only waits and cannot have hooks; put a step before or after it")

    def after(self, *hooks: Callable[..., object], part: str | None = None) -> Self:
        """Refuse *hooks*: no function runs here."""
        return self.before(*hooks, part=part)

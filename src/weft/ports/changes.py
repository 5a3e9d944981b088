"""
The port of stores that announce changes of runs that other processes drive.

A notification is a hint, which may be lost or repeated: a caller that waits also polls the run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol, runtime_checkable

from weft.typing import RunId


@runtime_checkable
class ChangeStore(Protocol):
    """A store that is notified of what other processes do with runs."""

    @property
    def hears_changes(self) -> bool:
        """Whether changes are announced now; if not, poll often."""
        ...

    async def watch_runs(self, notify: Callable[[Collection[RunId] | None], object]) -> Callable[[], None]:
        """
        Call *notify*, in the event loop, with the ids of runs whose status has changed; with None if any may have.

        Return a function that ends this; closing the store does too.
        """
        ...

    async def follow(self, run: RunId) -> None:
        """Ask the process that drives *run* to tell, for a minute, also of all events and streams."""
        ...

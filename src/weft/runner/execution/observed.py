"""
An attempt in flight, as handlers of telemetry see it; created only while there are handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from weft.core.events import Activated, RunnableRetried
from weft.core.fold.scope import NOTHING, Activation, Key
from weft.core.run.runnable import Runnable
from weft.telemetry.attempt import Entry
from weft.typing import Address


class ObservedAttempt:
    """One attempt of a runnable: the :class:`~weft.telemetry.attempt.AttemptHandle` of its events."""

    __slots__ = ("_activation", "_runnable", "entries", "run")

    def __init__(self, run: tuple[int, str], activation: Activation, runnable: Runnable | None) -> None:
        """Observe *runnable*, which is None if the attempt was refused before it was prepared."""
        self.run, self._activation, self._runnable = run, activation, runnable
        self.entries: tuple[Entry, ...] = ()
        """Called where the attempt runs."""

    @property
    def key(self) -> Key:
        """The key of the runnable in its run."""
        return self._activation.key

    @property
    def idempotency_key(self) -> str:
        """Its idempotency key; empty if the attempt was refused before there was one."""
        return "" if self._runnable is None else self._runnable.idempotency_key

    @property
    def ordinal(self) -> int:
        """The number of its input."""
        return self._activation.scope.root.index

    @property
    def carrier(self) -> Mapping[str, str]:
        """The text that was stored with its input."""
        return self._activation.scope.root.carrier or NOTHING

    def causes(self) -> Iterator[Key]:
        """Yield the keys of the runnables that made its facts, each once."""
        seen: set[int] = set()
        for cell in self._activation.facts:
            event = self._event(cell.address)
            if isinstance(event, Activated) and event.seq not in seen:
                seen.add(event.seq)
                yield event.component, event.inputs

    def enter_with(self, enter: Callable[[], object]) -> None:
        """Call *enter* where the attempt runs."""
        self.entries = (*self.entries, Entry(enter))

    def _event(self, address: Address) -> object:
        """Return the event that brought the fact at *address*; None if no event did."""
        if self._runnable is None:
            return None
        seq, index = (address, 0) if isinstance(address, int) else address
        event = self._runnable.lineage.log[seq - 1] if seq > 0 else None
        if isinstance(event, RunnableRetried):  # another value in place of a fact, whose maker stays the same
            return self._event(event.inputs[index])
        return event

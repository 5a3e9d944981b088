"""
Reads a stored run from its file, without importing or calling code of the application.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec

from weft.core.events import AnyEvent, InputReceived
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import CorruptLog
from weft.log import Decoder, references, verify
from weft.ports.store import RunRecord
from weft.stores import SQLiteView
from weft.typing import RunId


class Stored(msgspec.Struct, frozen=True, eq=False):
    """One run as its file has it."""

    record: RunRecord
    events: list[AnyEvent]
    owner: str | None
    """The process that owns it, if that is alive."""
    written: Sequence[tuple[int, float]]
    """For each segment: the number of its first event, and when it was written."""

    def run(self) -> Run:
        """Return the run as it was when its last event was stored."""
        return Run.from_log(self.events)

    def time_of(self, event: AnyEvent) -> float | None:
        """Return when *event* arrived or was written, in seconds since the epoch; None if unknown."""
        if isinstance(event, InputReceived) and event.at is not None:
            return event.at
        place = bisect_right(self.written, (event.seq, float("inf")))
        return self.written[place - 1][1] if place else None


class RunReader(Protocol):
    """Reads a run as it grows."""

    def more(self) -> Stored:
        """Return the events since the last call."""
        ...


def times_of(events: Iterable[AnyEvent]) -> list[tuple[int, float]]:
    """Return the times that *events* carry, as :attr:`Stored.written` has them."""
    found: list[tuple[int, float]] = []
    for event in events:
        timing: Any = getattr(event, "timing", None)
        at = timing.at if timing is not None else getattr(event, "at", None)
        if at:
            found.append((event.seq, at))
    return found


class Reader:
    """
    Reads *run* as it grows, from a file.

    Args:
        workflow: provides the functions that cannot be found by name.
    """

    def __init__(self, view: SQLiteView, run: RunId, workflow: Workflow | None = None) -> None:
        self._view, self._run = view, run
        self._decoder = Decoder(workflow=workflow)
        self._definitions: dict[bytes, bytes] = {}
        self._position = 0

    def more(self) -> Stored:
        """
        Return the events since the last call.

        Raises:
            RunNotFound: nothing is stored under this id.
            CorruptLog: its log cannot be read.
        """
        try:
            return self._more()
        except CorruptLog as error:
            raise error.of(self._run) from error

    def _more(self) -> Stored:
        view, run = self._view, self._run
        loaded = view.load_since(run, self._position)
        if not loaded.record.head:
            raise CorruptLog("none of its events are there")
        bodies = [segment.body for segment in loaded.segments]
        stored = view.definitions()
        for key in references(bodies).definitions - self._definitions.keys():
            body = stored.get(key)
            if body is None:
                raise CorruptLog(f"the definition {key.hex()} that it refers to is missing")
            self._definitions[key] = body
        events = self._decoder.segments(bodies, definitions=self._definitions, facts=view.facts(run))
        self._position = loaded.record.head
        written = [(each.first, each.at) for each in view.times(run)] if bodies else []
        return Stored(loaded.record, events, view.owners(run).get(run), written)


def read(view: SQLiteView, run: RunId, *, workflow: Workflow | None = None) -> Stored:
    """
    Return *run* as *view* shows it; functions that cannot be found by name are taken from *workflow*.

    Raises:
        RunNotFound: nothing was ever stored under this id.
        CorruptLog: its log cannot be read.
    """
    return Reader(view, run, workflow).more()


def check(view: SQLiteView, run: RunId) -> tuple[int, int]:
    """
    Return the number of events of *run*, and of its segments, if all of them are as they were written.

    Raises:
        RunNotFound: nothing was ever stored under this id.
        CorruptLog: they are not.
    """
    loaded = view.load(run)
    try:
        count = verify(
            [segment.body for segment in loaded.segments],
            facts=view.facts(run),
            definitions=view.definitions(),
            head=loaded.record.chain,
            position=loaded.record.head,
            known=loaded.known,
        )
    except CorruptLog as error:
        raise error.of(run) from error
    return count, len(loaded.segments)


async def check_stored(store: Any, run: RunId) -> tuple[int, int]:
    """As :func:`check`, of a run in *store*, a log store that is open."""
    loaded = await store.load(run)
    bodies = [segment.body for segment in loaded.segments]
    needed = references(bodies)
    try:
        count = verify(
            bodies,
            facts=await store.load_facts(run, needed.facts),
            definitions=await store.load_definitions(needed.definitions),
            head=loaded.record.chain,
            position=loaded.record.head,
            known=loaded.known,
        )
    except CorruptLog as error:
        raise error.of(run) from error
    return count, len(loaded.segments)

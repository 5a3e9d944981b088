"""
Reads the log of a run that another process writes, as it grows: each segment once.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.core.events import AnyEvent, LogTruncated
from weft.core.workflow import Workflow
from weft.errors import CorruptLog
from weft.log import Decoder, chain
from weft.log.hash_chain import GENESIS
from weft.ports.store import RunRecord
from weft.runner.durability.ownership import Ownership
from weft.runner.slices import pause


class LogReader:
    """The log of one run, from its beginning or from where it stood once."""

    def __init__(
        self,
        ownership: Ownership,
        run: str,
        live: Callable[[RunRecord], Workflow | None],
        after: RunRecord | None = None,
    ) -> None:
        """Read *run*, if given *after* this record; *live* finds the definition that has the classes of its values."""
        self._ownership, self._run, self._live = ownership, run, live
        self._decoder: Decoder | None = None
        self._definitions: dict[bytes, bytes] = {}
        self._position, self._link = (0, GENESIS) if after is None else (after.head, after.chain)

    async def more(self) -> list[AnyEvent]:
        """
        Return the events since the last call; if some of them were removed, the first one says so.

        Raises:
            RunNotFound: nothing is stored under this id.
            CorruptLog: they are not what was written, or do not follow what was read before.
        """
        loaded, definitions, facts = await self._ownership.since(self._run, self._position)
        record = loaded.record
        bodies = [segment.body for segment in loaded.segments]
        link, events = self._link, list[AnyEvent]()
        if self._position < record.first - 1:  # what was to be read next was removed
            link = loaded.link
            events.append(LogTruncated(record.first - 1))
        for body in bodies:
            link = chain(link, body)
        if link != record.chain:
            raise CorruptLog(f"the log of run {self._run!r} does not continue what was read of it before")
        if self._decoder is None:
            self._decoder = Decoder(workflow=self._live(record))
        self._definitions.update(definitions)
        try:
            for some in self._decoder.batches(bodies, definitions=self._definitions, facts=facts):
                events += some
                await pause()  # so that a long log does not hold the event loop
        except CorruptLog as error:
            raise error.of(self._run) from error
        self._position, self._link = record.head, link
        return events

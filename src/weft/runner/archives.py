"""
Moving runs: exporting one to a file, importing it, and comparing two.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from weft.core import events as ev
from weft.core.diff import RunDiff, diff
from weft.core.run.run import Run
from weft.errors import CorruptLog
from weft.log import Encoder, chain
from weft.log.archive import Archive, decode_archive, encode_archive
from weft.log.hash_chain import GENESIS
from weft.log.redaction import Redact, Redaction
from weft.ports.store import FINISHED, RunRecord, RunStatus
from weft.runner.execution.status import text_of_failures
from weft.runner.handle import AsyncHandle, RunHandle, RunRef, as_ref, id_of
from weft.runner.queries import RunnerQueries

IMPORTED = "it was imported from a file: fork() makes another run of it, and resume() continues it under its own id"


class RunnerArchives(RunnerQueries):
    """The methods of a runner that move runs between stores."""

    async def diff(self, one: str | RunHandle[Any], other: str | RunHandle[Any]) -> RunDiff:
        """
        Return the differences of two runs, ids or handles; see :func:`weft.diff`.

        Raises:
            RunNotFound: there is no such run.
            HistoryTruncated: the beginning of a log was removed.
        """
        runs = [(await self._run(await self._found(as_ref(each)))).frozen_copy() for each in (one, other)]
        for run in runs:
            await self._runtime.ownership.again(run.load)
        return diff(runs[0], runs[1])

    async def export(self, id: str | RunHandle[Any], path: str | Path, *, redact: Redact | None = None) -> None:
        """
        Write the run *id*, as far as it is stored, to one file: log, definitions and values.

        Args:
            path: the file; one that exists is replaced when the new one is complete.
            redact: names of components (``"INPUT"`` for inputs) whose values are replaced by the name of their class
                and a hash; True for all values; or a function of a name and a value that returns what to write.  Names
                cover failures of these components too.  Tokens of external steps are replaced whatever is named,
                constants in the definition are not.

        Raises:
            RunNotFound: no run has this id.
            InvalidArgument: *redact* is something else, or names what the run does not have.
            UnencodableValue: what *redact* returned could not be written.
        """
        id = id_of(id)
        self._runtime.check_open()
        redaction = None if redact is None or redact is False else Redaction(redact, secrets.token_bytes(32))
        worker = await self._runtime.lookup.held(id)
        if worker is not None and worker.lost is None:
            worker.checkpoint()
            await self._runtime.lookup.written(worker)
        stored, bodies, definitions, facts = await self._runtime.ownership.content(id)
        archive = _archive(stored, bodies, definitions, facts)
        if redaction is not None:
            log = redaction.events(archive.log())
            segment = Encoder().segment(log)
            archive = replace(
                archive,
                chain=chain(GENESIS, segment.body),
                bodies=[segment.body],
                definitions=dict(segment.definitions),
                facts=dict(segment.facts),
                reason="",  # which may quote a value
                redacted=list(redaction.named),
            )
        await asyncio.to_thread(_write, Path(path), encode_archive(archive))

    async def import_run(self, path: str | Path, id: str | None = None, *, by: str | None = None) -> AsyncHandle:
        """
        Store the run in the file at *path*, which :meth:`export` has written.  Nothing of it runs.

        A run that had finished is what it was; any other one is parked, so that it does not repeat what its original
        still does.

        Args:
            id: the id to store it under; its own if not given.
            by: the name of the caller; kept in the log.

        Raises:
            CorruptLog: the file is not an exported run, or was altered.
            RunExists: a run with this id exists.
        """
        self._runtime.check_open()
        archive = decode_archive(await asyncio.to_thread(Path(path).read_bytes))
        log = archive.log()
        if not log or not isinstance(log[0], ev.WorkflowDefined):
            raise CorruptLog("an exported run without a definition")
        first = replace(log[0], run=archive.run if id is None else id)
        redacted = tuple(archive.redacted)
        run = Run.from_log([first, *log[1:], ev.RunImported(len(log) + 1, archive.run, archive.chain, redacted, by)])
        status: RunStatus = run.memory.status
        reason = archive.reason
        if status not in FINISHED:
            status, reason = "parked", IMPORTED
        elif status == "failed":
            reason = text_of_failures(run)
        await self._runtime.creator.store(run, status, reason)
        return AsyncHandle(self, RunRef(run.id))


def _archive(record: RunRecord, bodies: list[bytes], definitions: Any, facts: Any) -> Archive:
    return Archive(
        run=record.id,
        workflow=record.workflow,
        version=record.version,
        status=record.status,
        reason=record.reason,
        created_at=record.created_at,
        updated_at=record.updated_at,
        head=record.head,
        chain=record.chain,
        bodies=bodies,
        definitions=dict(definitions),
        facts=dict(facts),
    )


def _write(path: Path, data: bytes) -> None:
    """Write *data* to the file at *path*: all of it, or nothing."""
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise

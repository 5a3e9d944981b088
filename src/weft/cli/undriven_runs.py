"""Finds runs that have work left and that no process drives, and the commands that resume them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from weft.cli.source import FileSource
from weft.errors import WeftError
from weft.ports.checkup import Finding
from weft.ports.store import DUE, FINISHED, RunRecord
from weft.views import Undriven, importing, undriven
from weft.views.code import modules_of
from weft.views.text import ago, count, word

if TYPE_CHECKING:
    from weft.cli.source import Source
    from weft.core.run.run import Run

_DEFINITIONS: Final = 5
"""The modules of at most this many definitions are looked up: a command that names more is not readable."""
_LISTED: Final = 5
"""How many ids of runs are listed."""
_LONGEST: Final = 20_000
"""A run with more events is not read for the names of its modules."""


def undriven_run(source: Source, run: Run, option: str) -> Undriven | None:
    """Return what to report if no process drives *run*, of *source*; *option* names the store in commands."""
    record = source.find(run.id)
    return undriven(record, workers=source.workers(), modules=modules_of(run.workflow), option=option)


def resume_command(source: Source, records: Iterable[RunRecord], option: str) -> str:
    """Return the command that goes on with all runs of a store that no process drives, of which these are *records*."""
    command = "weft resume --all" if source.workers() is None else "weft worker"
    return f"{command}{importing(_modules(source, records))}{option}"


def _modules(source: Source, records: Iterable[RunRecord]) -> tuple[str, ...]:
    """Return the modules of all definitions that *records* follow; none if they are many, or cannot all be read."""
    by_definition = {(record.workflow, record.version): record for record in records}
    if len(by_definition) > _DEFINITIONS or any(record.head > _LONGEST for record in by_definition.values()):
        return ()
    try:
        found = [modules_of(source.read(record.id).run().workflow) for record in by_definition.values()]
    except WeftError:  # the command names none; weft show says what is wrong with it
        return ()
    return tuple(dict.fromkeys(module for modules in found for module in modules)) if all(found) else ()


# -- for weft doctor -----------------------------------------------------------------------------


def remarks(source: Source, option: str) -> list[Finding]:
    """Return the runs that no process drives, and the messages that no process takes, as remarks."""
    return [*_undriven(source, option), *_untaken(source, option)]


def _undriven(source: Source, option: str) -> Iterable[Finding]:
    workers, found = source.workers(), list[RunRecord]()
    last: RunRecord | None = None
    while page := source.list(statuses=DUE, after=last, limit=1_000, damaged=lambda _: None):
        found += (record for record in page if undriven(record, workers=workers))
        last = page[-1]
    if found:
        verb = "have" if len(found) > 1 else "has"
        yield Finding(
            where="runs",
            what=f"{count(len(found), 'run')} {verb} work left and no process: {_listed([each.id for each in found])}",
            next=f"to go on: {resume_command(source, found, option)}",
            run=found[0].id if len(found) == 1 else None,
            is_damage=False,
        )


def _untaken(source: Source, option: str) -> Iterable[Finding]:
    """Yield the messages in a file whose runs have no process; those of a fleet are a matter of its workers."""
    if not isinstance(source, FileSource):
        return
    waiting: list[tuple[RunRecord, int, float]] = []
    late: dict[str, int] = {}
    for id, number, at in source.inbox():
        record = source.find(id)
        if record.owner is not None:
            continue
        if record.status in FINISHED:
            late[id] = number
        else:
            waiting.append((record, number, at))
    if waiting:
        records = [record for record, *_ in waiting]
        ids = " ".join(word(record.id) for record in records[:_LISTED])
        more = "" if len(records) <= _LISTED else ", and the others likewise"
        oldest = ago(time.time() - min(at for *_, at in waiting))
        yield Finding(
            where="the inbox",
            what=f"{count(sum(number for _, number, _ in waiting), 'message')} for "
            f"{_listed([record.id for record in records])} wait for a process that takes them; "
            f"the oldest came {oldest}",
            next=f"to go on: weft resume {ids}{importing(_modules(source, records))}{option}{more}",
            is_damage=False,
        )
    if late:
        yield Finding(
            where="the inbox",
            what=f"{count(sum(late.values()), 'message')} came after {_listed(list(late))} had finished, and will not "
            "be taken",
            next="nothing: a run that has finished takes none; send them to another run if they were meant for one",
            is_damage=False,
        )


def _listed(ids: list[str]) -> str:
    """Return some of *ids*, and how many more there are."""
    more = f" and {len(ids) - _LISTED:,} more" if len(ids) > _LISTED else ""
    return f"{', '.join(ids[:_LISTED])}{more}"

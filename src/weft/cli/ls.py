"""``weft ls``: lists the runs in a store."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any, cast, get_args

import typer

from weft.cli.completion import statuses_of, workflows
from weft.cli.reading import reading
from weft.cli.screen import Screen
from weft.cli.source import Source
from weft.cli.store_option import StoreOption, located
from weft.cli.undriven_runs import resume_command
from weft.errors import DamagedRow
from weft.ports.store import DUE, RunRecord, RunStatus
from weft.views import undriven
from weft.views.text import ago, count, stamp

_COLUMNS = ("ID", "WORKFLOW", "STATUS", "EVENTS", "CREATED", "UPDATED", "OWNER")
_PAGE = 1_000


def ls(
    status: Annotated[
        list[str] | None,
        typer.Option(
            help="Only runs in this state; can be used several times.", show_default=False, autocompletion=statuses_of
        ),
    ] = None,
    workflow: Annotated[
        str | None,
        typer.Option(help="Only runs of the workflow of this name.", show_default=False, autocompletion=workflows),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The maximum number of runs.")] = 1_000,
    store: StoreOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List the runs in a store, newest first, without changing it."""
    screen = Screen()
    statuses: list[RunStatus] | None = [_status(each) for each in status] if status else None
    damaged: dict[str, DamagedRow] = {}
    with reading(screen, store) as view:
        records = _records(view, statuses, workflow, limit + 1, lambda error: damaged.setdefault(str(error), error))
        workers = view.workers()
        rest, records = records[limit:], records[:limit]
        if as_json:
            screen.json([_counted(record, workers) for record in records], indent=2)
        elif records:
            now = time.time()
            screen.table(_COLUMNS, [_row(record, now) for record in records])
        elif not damaged:
            screen.note(f"no runs{' like that' if status or workflow else ''} in {located(store).shown}")
        if rest:
            screen.note(
                f"there are more than {count(limit, 'run')}: raise --limit, or ask for a --status or --workflow"
            )
        left = [record for record in records if undriven(record, workers=workers)]
        if left and not as_json:
            command = resume_command(view, left, located(store).option)
            screen.note(f"no process drives {count(len(left), 'run')} with work left; to go on: {command}")
        for problem in damaged:
            screen.complain(problem)
        if damaged:
            raise typer.Exit(1)


def _status(text: str) -> RunStatus:
    if text not in get_args(RunStatus):
        raise typer.BadParameter(f"{text!r} is none of {', '.join(get_args(RunStatus))}", param_hint="--status")
    return cast("RunStatus", text)


def _records(
    view: Source,
    statuses: list[RunStatus] | None,
    workflow: str | None,
    most: int,
    damaged: Callable[[DamagedRow], object],
) -> list[RunRecord]:
    found: list[RunRecord] = []
    while len(found) < most:
        after = found[-1] if found else None
        size = min(_PAGE, most - len(found))
        page = view.list(statuses=statuses, workflow=workflow, after=after, limit=size, damaged=damaged)
        if not page:
            break
        found += page
    return found


def _row(record: RunRecord, now: float) -> tuple[str, ...]:
    holder = record.owner or ("none" if record.status in DUE else "")
    times = ago(now - record.created_at), ago(now - record.updated_at)
    return record.id, record.workflow, record.status, str(record.head), *times, holder


def _counted(record: RunRecord, workers: int | None) -> dict[str, Any]:
    """Return the record of a run, with how many failures there are: ``weft show`` lists them."""
    return as_data(record, record.owner) | {
        "failures": record.failures,
        "dead_letters": record.dead_letters,
        "is_interrupted": undriven(record, workers=workers) is not None,
    }


def as_data(record: RunRecord, owner: str | None) -> dict[str, Any]:
    """Return the record of a run, for JSON."""
    return {
        "id": record.id,
        "workflow": record.workflow,
        "version": record.version,
        "status": record.status,
        "reason": record.reason,
        "events": record.head,
        "first": record.first,
        "created_at": stamp(record.created_at),
        "updated_at": stamp(record.updated_at),
        "finished_at": None if record.finished_at is None else stamp(record.finished_at),
        "owner": owner,
    }

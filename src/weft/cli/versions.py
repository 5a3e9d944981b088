"""``weft versions``: lists the versions of workflows, and how many runs follow each."""

from __future__ import annotations

import time
from collections import Counter
from typing import Annotated, Any

import msgspec
import typer

from weft.cli.completion import workflows
from weft.cli.options import AsJson
from weft.cli.reading import reading
from weft.cli.screen import Screen
from weft.cli.source import Source
from weft.cli.store_option import StoreOption, located
from weft.errors import CommandError
from weft.ports.store import FINISHED, RunRecord
from weft.views.text import ago, stamp

_PAGE = 1_000


class VersionLine(msgspec.Struct):
    """One version of a workflow, and its runs."""

    workflow: str
    version: str
    first: float
    last: float
    statuses: Counter[str] = msgspec.field(default_factory=Counter[str])

    @property
    def open(self) -> int:
        """How many of its runs have not finished: they still need the code of this version."""
        return sum(number for status, number in self.statuses.items() if status not in FINISHED)


def versions(
    workflow: Annotated[
        str | None,
        typer.Argument(metavar="WORKFLOW", help="Only this workflow.", show_default=False, autocompletion=workflows),
    ] = None,
    store: StoreOption = None,
    as_json: AsJson = False,
) -> None:
    """List the versions of workflows, and how many runs follow each."""
    screen = Screen()
    with reading(screen, store) as view:
        lost = _stranded(store, workflow)
        lines = sorted(_lines(view, workflow).values(), key=lambda line: (line.workflow, -line.last))
        if as_json and (lines or workflow is None):
            screen.json([_data(line, lost.get((line.workflow, line.version), 0)) for line in lines], indent=2)
        elif lines:
            now = time.time()
            rows = [
                (
                    *(line.workflow, line.version[:12], f"{line.open:,}", f"{line.statuses.total():,}"),
                    *(ago(now - line.first), ago(now - line.last)),
                )
                for line in lines
            ]
            screen.table(("WORKFLOW", "VERSION", "OPEN", "RUNS", "FIRST RUN", "LAST RUN"), rows)
            for (name, version), runs in lost.items():
                screen.complain(
                    f"{name}@{version[:12]} is stranded: {runs:,} runs are due, and no worker that is alive can drive "
                    "them; start one with this code, or weft upgrade the runs"
                )
        elif workflow is not None:
            raise CommandError(f"no run of {workflow!r} is stored here; weft versions lists those that have runs")
        else:
            screen.note(f"no runs in {located(store).shown}")


def _stranded(store: str | None, workflow: str | None) -> dict[tuple[str, str], int]:
    """Return how many runs of each version are due that no worker of the fleet can drive; nothing of a file."""
    url = located(store)
    if not url.is_database:
        return {}
    from weft.fleet import Client

    found: Counter[tuple[str, str]] = Counter()
    with Client(url.text) as client:
        for each in client.stranded():
            if workflow in (None, each.workflow):
                found[each.workflow, each.version] += each.runs
    return dict(found)


def _lines(view: Source, workflow: str | None) -> dict[tuple[str, str], VersionLine]:
    found: dict[tuple[str, str], VersionLine] = {}
    after: RunRecord | None = None
    while page := view.list(workflow=workflow, after=after, limit=_PAGE, damaged=lambda _: None):
        for record in page:
            key = (record.workflow, record.version)
            line = found.get(key)
            if line is None:
                line = found[key] = VersionLine(*key, record.created_at, record.created_at)
            line.statuses[record.status] += 1
            line.first, line.last = min(line.first, record.created_at), max(line.last, record.created_at)
        after = page[-1]
    return found


def _data(line: VersionLine, stranded: int) -> dict[str, Any]:
    return {
        "workflow": line.workflow,
        "version": line.version,
        "open": line.open,
        "stranded": stranded,
        "runs": dict(line.statuses),
        "first_run": stamp(line.first),
        "last_run": stamp(line.last),
    }

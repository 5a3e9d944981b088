"""``weft versions``: lists the versions of workflows, and how many runs follow each."""

from __future__ import annotations

import time
from collections import Counter
from typing import Annotated, Any

import msgspec
import typer

from weft.cli.looking import looking
from weft.cli.options import AsJson
from weft.cli.screen import Screen
from weft.cli.source import Source
from weft.cli.store_option import StoreOption, located
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
        str | None, typer.Argument(metavar="WORKFLOW", help="Only this workflow.", show_default=False)
    ] = None,
    store: StoreOption = None,
    as_json: AsJson = False,
) -> None:
    """List the versions of workflows, and how many runs follow each."""
    screen = Screen()
    with looking(screen, store) as view:
        lines = sorted(_lines(view, workflow).values(), key=lambda line: (line.workflow, -line.last))
        if as_json:
            screen.json([_data(line) for line in lines], indent=2)
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
        else:
            screen.note(f"no runs{f' of {workflow}' if workflow else ''} in {located(store).shown}")


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


def _data(line: VersionLine) -> dict[str, Any]:
    return {
        "workflow": line.workflow,
        "version": line.version,
        "open": line.open,
        "runs": dict(line.statuses),
        "first_run": stamp(line.first),
        "last_run": stamp(line.last),
    }

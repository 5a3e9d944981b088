"""``weft doctor``: checks that everything in a file is what was written."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.status import Status
from rich.text import Text

from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.store_option import StoreOption, located
from weft.errors import CommandError, CorruptStore, WeftError
from weft.stores.sqlite.checkup import Checkup, Finding
from weft.views.text import count, plain

_MOST = 1_000  # findings that are listed
_DAMAGED, _UNREADABLE = 1, 2


def doctor(
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out whether SQLite's indexes and tables agree, which takes longest.")
    ] = False,
    store: StoreOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Check that everything in a file is what was written, without changing it."""
    screen = Screen()
    with errors_in_one_line(screen, code=_UNREADABLE):
        file = _file(store)
    progress = _Progress(screen, is_silent=as_json)
    listed: list[Finding] = []
    kinds: Counter[bool] = Counter()
    checkup: Checkup | None = None
    verdict, why = "fine", ""
    try:
        checkup = Checkup(file, is_quick=quick, tell=progress.tell)
        with progress.line:
            for finding in checkup.findings():
                kinds[finding.is_damage] += 1
                if len(listed) < _MOST:
                    listed.append(finding)
                    if not as_json:
                        _print(screen, finding)
    except CorruptStore as error:
        verdict, why = "damaged", str(error)
    except WeftError as error:
        verdict, why = "unreadable", str(error)
    if kinds[True] and verdict == "fine":
        verdict = "damaged"
    unlisted = kinds.total() - len(listed)
    if as_json:
        screen.json(_data(file, verdict, why, checkup, listed, unlisted), indent=2)
    else:
        _conclude(screen, file, verdict, checkup, kinds[True], unlisted)
    if why:
        screen.complain(why)
    if verdict != "fine":
        raise typer.Exit(_DAMAGED if verdict == "damaged" else _UNREADABLE)


def _file(store: str | None) -> Path:
    url = located(store)
    if url.file is None:
        raise CommandError(
            f"weft doctor checks the file of a SQLite store; for a run in {url.shown} use weft verify ID"
        )
    return url.file


class _Progress:
    """A progress line, on a terminal."""

    def __init__(self, screen: Screen, *, is_silent: bool) -> None:
        self._status: Status | None = screen.status() if screen.shows_progress and not is_silent else None

    @property
    def line(self) -> AbstractContextManager[object]:
        return nullcontext() if self._status is None else self._status

    def tell(self, what: str, done: int, total: int) -> None:
        if self._status is not None:
            far = f": {done:,} of {total:,}" if total else ""
            self._status.update(Text(plain(f"checking {what}{far}")))


def _print(screen: Screen, finding: Finding) -> None:
    kind = f"damaged ({finding.certainty})" if finding.is_damage else "remark"
    screen.line(f"{kind}: {finding.where}: {finding.what}", style="red" if finding.is_damage else "yellow")
    screen.line(f"    {finding.next}")


def _conclude(screen: Screen, file: Path, verdict: str, checkup: Checkup | None, damages: int, unlisted: int) -> None:
    if unlisted:
        screen.line(f"and {count(unlisted, 'finding')} more")
    if checkup is None or verdict == "unreadable":
        return
    looked = f"{count(checkup.runs, 'run')} checked, {count(checkup.events, 'event')} as they were written"
    screen.line(f"{looked}, no damage found" if verdict == "fine" else looked)
    if damages:
        screen.complain(f"{file} is damaged: {count(damages, 'finding')} above, each with what to do about it")


def _data(
    file: Path, verdict: str, why: str, checkup: Checkup | None, listed: list[Finding], unlisted: int
) -> dict[str, Any]:
    return {
        "file": str(file),
        "verdict": verdict,
        "reason": why,
        "runs": 0 if checkup is None else checkup.runs,
        "events": 0 if checkup is None else checkup.events,
        "findings": [msgspec.to_builtins(each) for each in listed],
        "more_findings": unlisted,
    }

"""``weft doctor``: finds what is wrong with a store, a fleet or an installation, and repairs what it can."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.status import Status
from rich.text import Text

from weft.cli.installation import installation
from weft.cli.options import Schema
from weft.cli.repair import repair as mend
from weft.cli.screen import Screen, errors_in_one_line, text_of
from weft.cli.source import FileSource
from weft.cli.store_option import StoreOption, StoreUrl, located
from weft.cli.undriven_runs import remarks
from weft.errors import CommandError, CorruptStore, InvalidStoreOption, StoreNotFound, StoreNotNamed, WeftError
from weft.ports.checkup import Finding
from weft.stores.sqlite.checkup import Checkup
from weft.views.text import count, plain

if TYPE_CHECKING:
    from weft.stores.postgres.checkup import Checkup as FleetCheckup

_MOST = 1_000  # findings that are listed
_DAMAGED, _UNREADABLE = 1, 2


def doctor(
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out what takes longest: indexes of a file, every run of a database.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair what can be repaired without losing anything, and check again.")
    ] = False,
    store: StoreOption = None,
    schema: Schema = "public",
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Find what is wrong with a store, a fleet or this installation.  It says how sure that is, and can repair."""
    screen = Screen()
    with errors_in_one_line(screen, code=_UNREADABLE):
        try:
            url = located(store)
        except StoreNotNamed:
            _installation(screen, as_json=as_json)
            return
        if url.file is None:
            _database(screen, url, schema, quick=quick, repair=repair, as_json=as_json)
            return
    _check_file(screen, url.file, url.option, quick=quick, repair=repair, as_json=as_json)


# -- an installation -----------------------------------------------------------------------------


def _installation(screen: Screen, *, as_json: bool) -> None:
    parts, findings = installation()
    verdict = "damaged" if any(each.is_damage for each in findings) else "fine"
    if as_json:
        told = [msgspec.to_builtins(each) for each in findings]
        screen.json({"verdict": verdict, "installation": parts, "findings": told}, indent=2)
    else:
        for finding in findings:
            _print(screen, finding)
        screen.line(", ".join(f"{name} {version}" for name, version in parts.items() if version))
        missing = [name for name, version in parts.items() if not version]
        if missing:
            screen.line(f"not installed: {', '.join(missing)}")
        screen.note("no store is named: only the installation was looked at; weft doctor --store URL looks at a store")
    if verdict != "fine":
        raise typer.Exit(_DAMAGED)


# -- a database ----------------------------------------------------------------------------------


def _database(screen: Screen, url: StoreUrl, schema: str, *, quick: bool, repair: bool, as_json: bool) -> None:
    if url.text == "memory:":
        raise CommandError(
            "memory: is a store inside the process that opened it; name a file or a database, such as --store runs.db"
        )
    from weft.stores.postgres.checkup import Checkup as FleetCheckup

    found, mended = asyncio.run(_looked(FleetCheckup(url.text, schema=schema, is_quick=quick), repair=repair))
    checkup, findings = found
    verdict = "damaged" if any(each.is_damage for each in findings) else "fine"
    if as_json:
        told = {
            "store": url.shown,
            "verdict": verdict,
            "runs": checkup.runs,
            "workers": checkup.workers,
            "repaired": [{"repair": what, "rows": rows} for what, rows in mended],
            "findings": [msgspec.to_builtins(each) for each in findings],
        }
        screen.json(told, indent=2)
    else:
        for what, rows in mended:
            screen.line(f"repaired: {what}: {count(rows, 'row')}", style="green")
        for finding in findings:
            _print(screen, finding)
        looked = f"{count(checkup.runs, 'run')} and {count(checkup.workers, 'worker')} looked at"
        screen.line(f"{looked}, nothing is wrong" if verdict == "fine" else looked)
        if any(each.repair for each in findings) and not repair:
            screen.note("weft doctor --repair fixes what says so above")
    if verdict != "fine":
        raise typer.Exit(_DAMAGED)


async def _looked(
    checkup: FleetCheckup, *, repair: bool
) -> tuple[tuple[FleetCheckup, list[Finding]], list[tuple[str, int]]]:
    """Look, repair what can be repaired if asked, and look again; return what is left and what was repaired."""
    mended: list[tuple[str, int]] = []
    findings = [finding async for finding in checkup.findings()]
    offered = [each for each in findings if each.repair]
    if repair and offered:
        mended = [(finding.repair, await checkup.repair(finding)) for finding in offered]
        findings = [finding async for finding in checkup.findings()]
    return (checkup, findings), mended


# -- a file --------------------------------------------------------------------------------------


def _check_file(screen: Screen, file: Path, option: str, *, quick: bool, repair: bool, as_json: bool) -> None:
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
        verdict, why = "unreadable", text_of(error)
    if kinds[True] and verdict == "fine":
        verdict = "damaged"
    mended: list[tuple[str, int]] = []
    if verdict == "fine":
        with errors_in_one_line(screen, code=_UNREADABLE):
            if repair:
                mended = mend(file)
            try:
                with FileSource(file) as source:
                    for finding in remarks(source, option):
                        listed.append(finding)
                        if not as_json:
                            _print(screen, finding)
            except (InvalidStoreOption, StoreNotFound) as error:  # of an older version, or empty
                screen.note(f"runs without a process were not looked for: {error}")
    unlisted = max(0, kinds.total() - len(listed))
    if as_json:
        told = [{"repair": what, "number": number} for what, number in mended]
        screen.json(
            _data(file, verdict, why, checkup, listed, unlisted) | ({"repaired": told} if repair else {}), indent=2
        )
    else:
        for what, number in mended:
            screen.line(f"repaired: {what}: {number:,}", style="green")
        if repair and verdict == "fine" and not mended:
            screen.note("there was nothing to repair")
        _conclude(screen, file, verdict, checkup, kinds[True], unlisted)
    if why:
        screen.complain(why)
    if repair and verdict == "damaged":
        screen.complain(
            "nothing was repaired: what is damaged is lost here, and to remove the rest of it would only hide that; "
            "keep a copy of all files of the store, and do what the findings say"
        )
    if verdict != "fine":
        raise typer.Exit(_DAMAGED if verdict == "damaged" else _UNREADABLE)


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

"""
``weft resume``: continues runs that were interrupted.

A run is resumed only if all of its code is here: a step whose function cannot be found would fail, and that
failure would stay in its log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

import msgspec
import typer

from weft.cli.changing import check_code
from weft.cli.live import awaited
from weft.cli.logged import logged
from weft.cli.modules import context as context_at
from weft.cli.modules import imported
from weft.cli.options import Context, Modules, RunIds
from weft.cli.progress import Progress
from weft.cli.report import report
from weft.cli.screen import Screen, errors_in_one_line, text_of
from weft.cli.source import FileSource, Source, opened
from weft.cli.stopping import Stopped, run_until_stopped
from weft.cli.store_option import StoreOption, StoreUrl, located
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import DamagedRow, RunClosed, RunOwned, WeftError
from weft.ports.store import DUE, FINISHED, RunRecord
from weft.runner import AsyncRunner, WorkerHooks
from weft.typing import RunId
from weft.views.text import count, word

_AT_ONCE = 1_000  # runs that are in memory


class Candidate(msgspec.Struct, frozen=True, eq=False):
    """A run that can continue, and the definition to use, if the one in the file is not enough."""

    id: RunId
    workflow: Workflow | None
    changed: tuple[str, ...]
    """The components whose code has changed since the run was written."""


def resume(
    runs: RunIds = None,
    store: StoreOption = None,
    modules: Modules = None,
    context: Context = None,
    every: Annotated[bool, typer.Option("--all", help="Every run with work left and no living owner.")] = False,
    parked: Annotated[bool, typer.Option("--parked", help="With --all: runs that were set aside, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each run, with its results.")] = False,
) -> None:
    """Continue runs that were interrupted, and wait for them.  It ends when they have nothing left to do."""
    screen = Screen(goes_on=True)
    if bool(runs) == every:
        raise typer.BadParameter(f"name the runs, or say --all{', not both' if runs else ''}", param_hint="ID")
    if parked and not every:
        raise typer.BadParameter(
            "use it with --all; a parked run that is named is resumed anyway", param_hint="--parked"
        )
    told = partial(report, screen, as_json=as_json)
    with errors_in_one_line(screen):
        workflows = imported(modules or ())
        given = {} if context is None else context_at(context)
        url = located(store)
        with opened(url) as view:
            if isinstance(view, FileSource):
                view.check_commits()  # a requested run may be missing because of it
            asked, damaged = _due(view, screen, parked=parked) if every else (list(dict.fromkeys(runs or ())), 0)
            asked, refused = _left(view, asked, screen, told)
            candidates, more = _candidates(view, asked, workflows, screen, has_imported=bool(modules))
            refused += more
        resumption = Resumption(url, screen, Progress(screen, len(candidates), is_silent=as_json), told)
        with logged(screen):
            failed = resumption.drive(candidates, given) if candidates else 0
    if failed or refused or damaged:
        raise typer.Exit(1)


def _due(view: Source, screen: Screen, *, parked: bool) -> tuple[list[RunId], int]:
    """Return the runs with work left and no living owner, oldest first, and how many were reported as damaged."""
    owners = view.owners()
    found: list[RunRecord] = []
    damaged: dict[str, DamagedRow] = {}
    while page := view.list(
        statuses={*DUE, "parked"} if parked else DUE,
        after=found[-1] if found else None,
        limit=1_000,
        damaged=lambda error: damaged.setdefault(str(error), error),
    ):
        found += page
    for problem in damaged:
        screen.complain(problem)
    held = [record.id for record in found if record.id in owners]
    if held:
        screen.note(f"{count(len(held), 'run')} with living owners: skipped")
    if len(held) == len(found):
        screen.note("nothing to resume")
    return [record.id for record in reversed(found) if record.id not in owners], len(damaged)


def _left(view: Source, asked: Iterable[RunId], screen: Screen, told: Callable[[Run], None]) -> tuple[list[RunId], int]:
    """Print the outcomes of those that have finished; return the others, and how many of the finished have failed."""
    left: list[RunId] = []
    failed = 0
    for run in asked:
        try:
            status = view.find(run).status
            if status not in ("completed", "failed"):
                left.append(run)
                continue
            told(view.read(run).run())
        except WeftError as error:
            screen.complain(text_of(error))
            status = "failed"
        failed += status == "failed"
    return left, failed


def _candidates(
    view: Source, asked: Iterable[RunId], workflows: list[Workflow], screen: Screen, *, has_imported: bool
) -> tuple[list[Candidate], int]:
    """Return those of the runs *asked* for that can continue, and how many were reported as refused."""
    known = {(each.name, each.version): each for each in workflows}
    found: list[Candidate] = []
    refused = 0
    for run in asked:
        try:
            found.append(_candidate(view, run, known, has_imported=has_imported))
        except WeftError as error:
            screen.complain(text_of(error))
            refused += 1
    return found, refused


def _candidate(view: Source, run: RunId, known: dict[tuple[str, str], Workflow], *, has_imported: bool) -> Candidate:
    owner = view.owners(run).get(run)
    if owner is not None:
        raise RunOwned(run, owner)
    record = view.find(run)
    if record.status in FINISHED:
        raise RunClosed(run, record.reason, status=record.status)
    live = known.get((record.workflow, record.version))
    found = view.read(run, live).run()
    check_code(found, has_imported=has_imported)
    return Candidate(run, live, found.workflow.changed)


# -- continuing ----------------------------------------------------------------------------------


class Resumption:
    """Drives candidates here, and tells what comes of them: *told* is called with each run that has ended."""

    def __init__(self, url: StoreUrl, screen: Screen, progress: Progress, told: Callable[[Run], None]) -> None:
        self._url, self._screen, self._progress, self._told = url, screen, progress, told

    def drive(self, candidates: list[Candidate], context: dict[str, Any]) -> int:
        """Drive all *candidates*; return how many failed or were refused."""
        try:
            return run_until_stopped(self._go_on(candidates, context))
        except Stopped as stopped:
            self._screen.complain("stopped; what was done is kept, and the same command goes on with the rest")
            raise typer.Exit(stopped.code) from None

    async def _go_on(self, candidates: list[Candidate], context: dict[str, Any]) -> int:
        """Resume all *candidates* and wait for them; return how many failed or were refused."""
        turns = asyncio.Semaphore(_AT_ONCE)
        async with AsyncRunner(self._url.text, context=context) as runner:
            with self._progress:
                went_well = await asyncio.gather(*(self._take(runner, candidate, turns) for candidate in candidates))
        return went_well.count(False)

    async def _take(self, runner: AsyncRunner, candidate: Candidate, turns: asyncio.Semaphore) -> bool:
        run_id, progress = candidate.id, self._progress
        hooks = WorkerHooks(
            on_complete=lambda runnable, _: progress.step(run_id, runnable.component),
            on_failed=lambda runnable, error: progress.failed(run_id, runnable.component, error),
        )
        async with turns:
            progress.begun(run_id, candidate.changed)
            try:
                handle = await runner.resume(run_id, workflow=candidate.workflow, hooks=hooks)
                telling = asyncio.ensure_future(_tell_waits(runner, run_id, self._screen, self._url.option))
                try:
                    run: Run = await handle.wait()
                finally:
                    telling.cancel()
                await runner.stop(run_id)
            except WeftError as error:
                progress.ended()
                self._screen.complain(text_of(error))
                return False
            progress.ended()
            self._told(run)
            return not run.failed


async def _tell_waits(runner: AsyncRunner, run_id: RunId, screen: Screen, option: str) -> None:
    """Print what the run waits for whenever that changes, and the command that answers."""
    told: list[str] = []

    def untold(run: Run) -> list[str]:
        return [name for name in awaited(run) if name not in told]

    with suppress(WeftError):  # it has ended, which its own wait reports
        while True:
            run: Run = await runner.wait_until(run_id, lambda run: bool(untold(run)))
            for name in untold(run):
                screen.note(f"{run_id}: waits for the signal {name!r}; Ctrl-C ends this, and it goes on waiting")
                screen.note(f"{run_id}: to answer: weft signal {word(run_id)} {word(name)} VALUE{option}")
                told.append(name)

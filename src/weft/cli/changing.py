"""
Changes stored runs: through the inbox if another process drives the run, or in this process, which then drives it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from weft.cli.live import RunView, view_for
from weft.cli.log import event_data
from weft.cli.logged import logged
from weft.cli.report import report
from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.source import FileSource, Source, opened
from weft.cli.stopping import Stopped, run_until_stopped
from weft.cli.store_option import StoreUrl, located
from weft.core.functions.unresolved import ONLY_HANDED_OVER
from weft.core.workflow import Workflow
from weft.errors import CodeNotImported
from weft.ports.store import FINISHED
from weft.views import importing
from weft.views.code import modules_of
from weft.views.text import word

if TYPE_CHECKING:
    from weft.core.run.run import Run
    from weft.runner import AsyncRunner, Runner
    from weft.runner.handle import AsyncHandle

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0


@contextmanager
def changing(url: StoreUrl) -> Generator[tuple[Runner, Source], None, None]:
    """
    Yield a runner on the store at *url* that drives nothing, and the same store for reading.

    Raises:
        StoreError: it is not there, or committed work is missing from it.
    """
    from weft.runner import Runner

    with opened(url) as source:
        if isinstance(source, FileSource):
            source.check_commits()
        with Runner(url.text) as runner:
            yield runner, source


def print_stored(screen: Screen, url: StoreUrl, source: Source, run: str, what: str, *, as_json: bool) -> None:
    """Print that *what* was left for *run*, and which process takes it up."""
    owner = source.find(run).owner
    if as_json:
        screen.json({"id": run, "stored": True, "owner": owner}, indent=2)
        return
    screen.line(f"{run}: {what}")
    if owner:
        screen.note(f"{owner} drives it, and takes it up")
    elif source.workers():
        screen.note("the next worker that claims it takes it up")
    else:
        command = f"weft resume {word(run)}{importing(modules_of(source.read(run).run().workflow))}{url.option}"
        screen.note(f"no process drives it; to go on: {command}")


@contextmanager
def leaving(
    screen: Screen, store: str | None, run: str, what: str, *, as_json: bool
) -> Generator[tuple[Runner, Source], None, None]:
    """
    Yield a runner for a message to the inbox of *run*; then print that *what* is stored, and which process takes it.

    An error of Weft is reported in one line, and ends the command with 1.
    """
    with errors_in_one_line(screen):
        url = located(store)
        with changing(url) as (runner, source):
            yield runner, source
            print_stored(screen, url, source, run, f"{what} is stored", as_json=as_json)


def check_code(run: Run, *, has_imported: bool) -> None:
    """
    Check that all code that *run* needs is here.

    Raises:
        CodeNotImported: it is not; nothing was changed.
    """
    missing = run.workflow.missing
    if missing:
        is_imported = has_imported and all(reason in ONLY_HANDED_OVER for _, reason in missing.values())
        functions = {name: function for name, (function, _) in missing.items()}
        modules = [each for each in modules_of(run.workflow) if each not in sys.modules]
        raise CodeNotImported(run.id, functions, modules, needs_workflow=is_imported)


def with_code(source: Source, run: str, workflows: list[Workflow], *, has_imported: bool) -> Run:
    """Return *run*, whose code is here, or raise CodeNotImported."""
    record = source.find(run)
    live = next((each for each in workflows if (each.name, each.version) == (record.workflow, record.version)), None)
    found = source.read(run, live).run()
    check_code(found, has_imported=has_imported)
    return found


Begin = Callable[["AsyncRunner"], Awaitable["AsyncHandle[Any]"]]
"""Starts or continues a run in a runner."""


def drive(
    screen: Screen,
    url: StoreUrl,
    begin: Begin,
    *,
    workflows: list[Workflow],
    context: dict[str, Any],
    goes_on_with: str,
    as_json: bool = False,
) -> None:
    """
    Drive a run here until it has nothing left to do, show it meanwhile, and print its results.

    Ends with 1 if it has failed, and with 130 after Ctrl-C or 143 after SIGTERM: these wait for steps in flight, and
    what was kept is said.

    Args:
        goes_on_with: the options of ``weft resume`` that name the code of the run.
    """
    view = view_for(screen, (lambda event: screen.json(event_data(event))) if as_json else None, option=url.option)
    driven = _Driven(screen, url, begin, workflows, context, view)
    try:
        with logged(screen):
            run = run_until_stopped(driven.main())
    except Stopped as stopped:
        _interrupted(screen, url, driven.run_id, goes_on_with)
        raise typer.Exit(stopped.code) from None
    report(screen, run, as_json=as_json)
    if run.failed:
        raise typer.Exit(1)


class _Driven:
    """One run that is driven here."""

    def __init__(
        self,
        screen: Screen,
        url: StoreUrl,
        begin: Begin,
        workflows: list[Workflow],
        context: dict[str, Any],
        view: RunView,
    ) -> None:
        self._screen, self._url, self._begin, self._view = screen, url, begin, view
        self._workflows, self._context = workflows, context
        self.run_id: str | None = None

    async def main(self) -> Run:
        from weft.runner import AsyncRunner

        async with AsyncRunner(self._url.text, context=self._context) as runner:
            for workflow in self._workflows:
                runner.register(workflow)
            handle = await self._begin(runner)
            self.run_id = handle.id
            try:
                return await self._shown(runner, handle)
            except asyncio.CancelledError:
                self._screen.note("stopping: steps in flight may end first; a second signal abandons them")
                raise

    async def _shown(self, runner: AsyncRunner, handle: AsyncHandle[Any]) -> Run:
        """Show the run until it has nothing left to do, and once more then."""
        waiting = asyncio.ensure_future(handle.wait())
        try:
            with self._view.screen:
                while True:
                    is_over = waiting.done()
                    run = waiting.result() if is_over else await runner.get(handle.id)
                    pause = self._show(run)
                    if is_over:
                        return run
                    await asyncio.wait([waiting], timeout=pause)
        finally:
            waiting.cancel()

    def _show(self, run: Run) -> float:
        """Show *run*; return how long to wait before the next time, so that showing takes a small part of it."""
        began = time.perf_counter()
        self._view.show(run, run.status, time.time())
        return min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, 9 * (time.perf_counter() - began)))


def _interrupted(screen: Screen, url: StoreUrl, run: str | None, goes_on_with: str) -> None:
    """Say what was kept of *run*, and the command that goes on."""
    if run is None:
        screen.complain("stopped before the run was started; nothing was changed")
        return
    if url.is_memory:
        screen.complain(f"stopped; nothing of {run} was kept: --store runs.db keeps it")
        return
    with opened(url) as source:
        record = source.find(run)
    if record.status in FINISHED:
        screen.complain(f"stopped; {run} has {record.status} and is kept in {url.shown}")
        return
    events = f"{record.head:,} event{'' if record.head == 1 else 's'}"
    command = f"weft resume {word(run)}{goes_on_with}{url.option}"
    screen.complain(f"stopped; {events} of {run} are kept in {url.shown}; to go on: {command}")

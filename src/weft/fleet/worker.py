"""
A worker: claims runs from one PostgreSQL and drives them, until it is told to stop.

    new ──► opening ──► working ──stop──► closing ──► stopped
              │  ▲        │  ▲               │
              └──┘        └──┘               └── a second stop: what is in flight is abandoned
           not there   anything fails: tried again, later each time

Nothing that fails ends a worker, except a schema that is newer than this Weft, and options that cannot be used.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from weft.core.workflow import Workflow
from weft.errors import (
    InvalidOption,
    InvalidStoreOption,
    NewerStore,
    ReadOnlyStore,
    RunnerClosed,
    StoreUnavailable,
    UnwrittenEvents,
)
from weft.fleet import decisions
from weft.fleet import registry as known_workflows
from weft.fleet.runner import FleetRunner
from weft.ports.queue import QUEUE
from weft.stores.postgres import PostgresStore

_log = logging.getLogger("weft.fleet")

CONCURRENCY = 256
"""How many runs of a worker are active at once, unless it is told another number."""
_FOR_GOOD = (NewerStore, InvalidStoreOption, InvalidOption, ReadOnlyStore)
"""Errors that trying again does not cure."""

State = Literal["new", "opening", "working", "closing", "stopped"]


class FleetWorker:
    """
    Claims and drives runs of *workflows*, by default all that were added to ``weft.registry``.

    Args:
        dsn: ``postgresql://user:password@host:port/database``.
        queues: where it claims.
        concurrency: how many runs are active at once; those that wait do not count.
        lease: after how many seconds without a sign of life its runs are free for others.
        schema: where the tables are.
        listen_dsn: a direct way to the same server, if *dsn* goes through a pooler of transactions.
        prepared: False if that pooler does not keep prepared statements.
        context: values for parameters that read ``context(key)``.
        grace: how many seconds steps in flight get to end when it is stopped.
        threads: how many threads there are at most.
        health: a file that says every few seconds what it does; removed at its end.
        is_orphan: asked at each look; True stops the worker, since the process that supervises it is gone.
    """

    def __init__(
        self,
        dsn: str,
        workflows: Iterable[Workflow[Any, Any]] | None = None,
        *,
        queues: Collection[str] = (QUEUE,),
        concurrency: int = CONCURRENCY,
        lease: float = 10.0,
        schema: str = "public",
        listen_dsn: str | None = None,
        prepared: bool = True,
        context: Mapping[str, Any] | None = None,
        grace: float = 10.0,
        threads: int | None = None,
        health: Path | None = None,
        is_orphan: Callable[[], bool] = lambda: False,
    ) -> None:
        self._workflows = list(known_workflows.workflows() if workflows is None else workflows)
        if not self._workflows:
            raise InvalidOption("a worker needs workflows: import a module that adds some to weft.registry")
        if concurrency < 1:
            raise InvalidOption(f"concurrency={concurrency!r}: use a number of runs, 1 or more")
        if not queues:
            raise InvalidOption("queues=[]: a worker claims from one queue or more")
        self._make_store: Callable[[], PostgresStore] = lambda: PostgresStore(
            dsn, schema=schema, lease=lease, listen_dsn=listen_dsn, prepared=prepared
        )
        self._make_runner: Callable[[PostgresStore], FleetRunner] = lambda store: FleetRunner(
            store,
            self._workflows,
            queues=queues,
            concurrency=concurrency,
            left=self._wake,
            context=context,
            grace=grace,
            threads=threads,
        )
        self._make_store()  # options that cannot be used are told at once
        self._lease, self._grace, self._health, self._is_orphan = lease, grace, health, is_orphan
        self._bell = asyncio.Event()
        self._is_rung = self._is_stopping = False
        self._hurries = asyncio.Event()
        self._runner: FleetRunner | None = None
        self._problem = ""
        self.state: State = "new"
        """The step of its life that it is in."""

    # -- what it is told -------------------------------------------------------------------------

    def stop(self) -> None:
        """Claim nothing more, let steps in flight end, release all runs; a second call abandons what is in flight."""
        if self._is_stopping:
            self._hurries.set()
        self._is_stopping = True
        self._bell.set()

    def _ring(self) -> None:
        """A run may be due and free."""
        self._is_rung = True
        self._bell.set()

    def _wake(self) -> None:
        """There may be room for another run."""
        self._bell.set()

    # -- working ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """
        Work until :meth:`stop` is called.

        Raises:
            NewerStore: a newer Weft has migrated the database.
            InvalidStoreOption: the database cannot be used with these options.
        """
        failures = 0
        try:
            while not self._is_stopping:
                begun = time.monotonic()
                try:
                    await self._work()
                except _FOR_GOOD:
                    raise
                except Exception as error:  # noqa: BLE001 - a worker goes on, whatever happens
                    failures = decisions.failures_after(failures, time.monotonic() - begun)
                    known = isinstance(error, StoreUnavailable | UnwrittenEvents)
                    _log.error("the worker starts again: %s", error, exc_info=None if known else error)
                    self._problem = str(error)
                    await self._pause(decisions.backoff(failures, random.random()))  # noqa: S311 - not a secret
        finally:
            self.state = "stopped"
            if self._health is not None:
                self._health.unlink(missing_ok=True)

    async def _work(self) -> None:
        """Open a store and a runner, claim until it is told to stop, and close them."""
        self.state = "opening"
        self._tell_health()
        store = self._make_store()
        runner = self._runner = self._make_runner(store)
        try:
            await runner.open()
            await store.watch_queue(self._ring)
            await store.expire_dead_neighbours()
            self.state = "working"
            _log.info("the worker is ready")
            await self._claim_all(store, runner)
        finally:
            self.state = "closing"
            self._tell_health()
            await self._close(runner)
            self._runner = None

    async def _claim_all(self, store: PostgresStore, runner: FleetRunner) -> None:
        failures, is_time = 0, True
        may_have_more = True
        """Whether runs may be due for which there was no room: then the end of a run is a reason to look."""
        while not self._is_stopping:
            self._bell.clear()
            is_asked, self._is_rung = is_time or self._is_rung, False
            wait = decisions.poll(self._lease)
            try:
                if store.is_sure and (is_asked or may_have_more):
                    answer = await runner.claim(is_asked=is_asked)
                    may_have_more = answer is not False
                    wait = 0.0 if answer else wait
                failures, self._problem = 0, ""
            except RunnerClosed:
                raise
            except Exception as error:  # noqa: BLE001 - the runs that are here go on, and claiming is tried again
                failures += 1
                known = isinstance(error, StoreUnavailable)
                if not known or failures == 1:
                    _log.warning(
                        "runs cannot be claimed now, trying again: %s", error, exc_info=None if known else error
                    )
                wait = decisions.backoff(failures, random.random())  # noqa: S311 - not a secret
                self._problem = str(error)
            if store.is_sure:  # it may not have been for a moment since the last look
                runner.go_on()
            self._tell_health()
            if self._is_orphan():
                self.stop()
            is_time = await self._pause(wait, until_rung=not failures) and wait > 0

    async def _pause(self, seconds: float, *, until_rung: bool = False) -> bool:
        """Wait for so many seconds, or for a reason to look sooner; return whether the time was up."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not self._is_stopping and (left := end - loop.time()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._bell.wait()
            if self._bell.is_set() and until_rung:
                return False
            self._bell.clear()
        return True

    async def _close(self, runner: FleetRunner) -> None:
        closing = asyncio.ensure_future(runner.close(grace=self._grace))
        hurried = asyncio.ensure_future(self._hurries.wait())
        try:
            await asyncio.wait([closing, hurried], return_when=asyncio.FIRST_COMPLETED)
            if not closing.done():
                with suppress(Exception):  # told by the first call
                    await runner.close(grace=0.0)
            await closing
        finally:
            hurried.cancel()

    # -- health ----------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return what it does, as plain data."""
        runner = self._runner
        return {
            "state": self.state,
            "at": time.time(),
            "pid": os.getpid(),
            "active": 0 if runner is None else runner.active,
            "held": 0 if runner is None else len(runner.held),
            "problem": self._problem,
        }

    def _tell_health(self) -> None:
        path = self._health
        if path is None:
            return
        new = path.with_name(f"{path.name}.{os.getpid()}.new")
        try:
            new.write_text(json.dumps(self.status()) + "\n", encoding="utf-8")
            new.replace(path)
        except OSError as error:
            _log.warning("the health file cannot be written: %s", error)

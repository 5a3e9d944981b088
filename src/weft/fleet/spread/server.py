"""
Runs steps of other workers: claims those of its queues, executes them, and stores their outcomes.

    claimed ──► executing ──► ended ──► stored
                    │
                    └──► not wanted any more, or the worker stops ──► put back, or dropped

A task makes all statements: it stores what has ended, claims as many steps as it has room for, and checks now and
then whether those that it executes are still wanted.  It claims nothing that it cannot begin at once.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from time import perf_counter_ns
from typing import Any, Final

from weft.core.plan.node import FunctionNode
from weft.core.run.runnable import Outcome
from weft.core.workflow import Workflow
from weft.errors import ExecutorError, NoStreams, NotTransferable, StoreClosed, StoreError, StoreUnavailable
from weft.fleet import decisions
from weft.fleet.spread.frames import Kinds, Unpacked, pack_outcome, pack_report
from weft.log.known_types import known_types
from weft.ports.executor import Executor
from weft.ports.tasks import ClaimedTask, TaskStore
from weft.runner import defaults
from weft.runner.deadline import Deadline
from weft.shield import shielded
from weft.typing import RunId

_log = logging.getLogger("weft.fleet")

DEATHS: Final = 3
"""How many workers may die with one attempt before it has failed."""
REPORT: Final = 1.0
"""Seconds between two looks for how far steps have come: the last report of each is stored, by one statement."""
SWEEP: Final = 60.0
"""Seconds between two looks for rows that were left behind."""
LEFT_BEHIND: Final = 3600.0
"""Seconds after which a row that no owner has asked for is removed."""
_CACHED: Final = 64
"""How many large values are kept for the next steps that share them."""


class _Reports:
    """Takes what the step of one *claim* reports; called on any thread."""

    keeps_streams = False

    def __init__(self, claim: tuple[int, int], report: Callable[[tuple[int, int], bytes], None]) -> None:
        self._claim, self._report = claim, report

    def report(self, runnable: Any, done: float, total: float | None, note: str) -> None:  # noqa: ARG002
        """Keep how far it has come, for its owner."""
        self._report(self._claim, pack_report(done, total, note))

    def answer(self, run: RunId, question: bytes) -> None:
        """Do nothing: only the owner is asked."""

    def stream(self, runnable: Any, name: str) -> Any:
        """
        Refuse.

        Raises:
            NoStreams: only the worker that has the run writes its streams.
        """
        raise NoStreams(f"the worker that runs {runnable.component!r} for another one (stream {name!r}, queue=)")


class _Running:
    """A step that was claimed and is executed here."""

    __slots__ = ("claim", "executor", "ticket")

    def __init__(self, claim: ClaimedTask, executor: str, ticket: int) -> None:
        self.claim, self.executor, self.ticket = claim, executor, ticket


class TaskServer:
    """
    Executes steps of *workflows* that owners have sent to *queues*.

    Args:
        slots: how many steps are executed at once.
        context: values for parameters that read ``context(key)``.
        is_sure: whether this worker is certain of its lease; otherwise nothing is claimed.
        lease: seconds of the lease.
    """

    def __init__(
        self,
        store: TaskStore,
        workflows: Iterable[Workflow[Any, Any]],
        *,
        queues: Collection[str],
        slots: int,
        context: Mapping[str, Any] | None = None,
        is_sure: Callable[[], bool] = lambda: True,
        lease: float = 10.0,
    ) -> None:
        self._store, self._queues, self._slots, self._is_sure = store, tuple(queues), slots, is_sure
        self._workflows = {(each.name, each.version): each for each in workflows}
        self._kinds: dict[tuple[str, str], Kinds] = {}
        self._context = dict(context or {})
        # New tasks are notified: a look finds those of workers that died, and an idle worker hardly asks.
        self._poll, self._look_every = 4 * decisions.poll(lease), max(lease / 3, 0.1)
        self._executors: dict[str, Executor] = dict(defaults.executors(threads=slots))
        self._opened: dict[str, Executor] = {}
        self._tickets = itertools.count(1)
        self._running: dict[int, _Running] = {}
        """By ticket."""
        self._ended: list[tuple[int, int, bytes]] = []
        """Outcomes that are not stored: key, fence, bytes."""
        self._reports: dict[tuple[int, int], bytes] = {}
        """How far steps have come, by key and fence, that is not stored; changed on any thread."""
        self._back: list[tuple[int, int]] = []
        """Steps that are to be put back."""
        self._values: dict[tuple[RunId, bytes], bytes] = {}
        self._bell = asyncio.Event()
        self._is_rung = self._is_closing = False
        self._may_have_more = True
        self._must_look = False
        self._deadline: Deadline | None = None
        self._over: asyncio.Future[None] | None = None

    @property
    def running(self) -> int:
        """How many steps of other workers are executed now."""
        return len(self._running)

    async def run(self) -> None:
        """Claim and execute steps until :meth:`close`."""
        loop = asyncio.get_running_loop()
        self._over = loop.create_future()
        ends: list[Callable[[], None]] = []
        try:
            await self._serve(ends)
        except (StoreClosed, asyncio.CancelledError):
            pass
        finally:
            for end in ends:
                end()
            await asyncio.gather(*(executor.close(0.0) for executor in self._opened.values()))
            self._over.set_result(None)

    async def close(self, grace: float) -> None:
        """Claim nothing more, let steps end within *grace* seconds, put the rest back; a shorter grace hurries."""
        if self._over is None:
            return
        if self._deadline is None:
            self._deadline = Deadline(grace)
        else:
            self._deadline.hurry(grace)
        self._is_closing = True
        self._bell.set()
        await shielded(self._over)

    # -- the task ----------------------------------------------------------------------------------

    async def _serve(self, ends: list[Callable[[], None]]) -> None:
        loop, failures = asyncio.get_running_loop(), 0
        asked_at = looked_at = swept_at = told_at = -1e9
        while True:
            if self._deadline is not None and (self._deadline.is_past or not (self._running or self._ended)):
                await self._leave()
                return
            self._bell.clear()
            try:
                if not ends:
                    ends.append(await self._store.watch_tasks(self._ring))
                    ends.append(await self._store.watch_dropped(self._look))
                self._collect()
                now = loop.time()
                if now - asked_at >= self._poll or self._is_rung or self._may_have_more:
                    asked_at = now
                    await self._claim()
                await self._report()
                if self._reports and now - told_at >= REPORT:
                    told_at = now
                    await self._tell()
                if self._must_look or (self._running and now - looked_at >= self._look_every):
                    self._must_look, looked_at = False, now
                    await self._check()
                if now - swept_at >= SWEEP:
                    swept_at = now
                    await self._store.sweep_tasks(LEFT_BEHIND)
                failures = 0
            except StoreClosed:
                raise
            except Exception as error:  # noqa: BLE001 - what is executed here goes on, and all else is tried again
                failures += 1
                self._must_look = True
                known = isinstance(error, StoreUnavailable)
                if not known or failures == 1:
                    _log.warning(
                        "steps of other workers cannot be claimed or answered now, trying again: %s",
                        error,
                        exc_info=None if known else error,
                    )
                await self._pause(decisions.backoff(failures, random.random()), until_rung=False)  # noqa: S311
                continue
            has_ended = self._deadline is not None and not (self._running or self._ended)
            if not (self._bell.is_set() or has_ended):
                until = [asked_at + self._poll, swept_at + SWEEP]
                until += [looked_at + self._look_every] if self._running else []
                until += [told_at + REPORT] if self._reports else []
                await self._pause(min(until) - loop.time())

    async def _pause(self, seconds: float, *, until_rung: bool = True) -> None:
        left = seconds if self._deadline is None else min(seconds, self._deadline.left)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(left, 0)):
                if until_rung:
                    await self._bell.wait()
                else:
                    await asyncio.sleep(seconds)

    def _ring(self) -> None:
        """A step may wait."""
        self._is_rung = True
        self._bell.set()

    def _look(self) -> None:
        """A step that is executed here may not be wanted any more."""
        self._must_look = True
        self._bell.set()

    async def _claim(self) -> None:
        """
        Claim as many steps as there is room for, if it is certain of its lease, and store what has ended.

        One statement does both, so a place is free for the time of one.
        """
        room = self._slots - len(self._running)
        if self._is_closing:
            return
        if room <= 0 or not self._is_sure():
            self._may_have_more = True
            return
        self._is_rung = False
        ended = self._ended[:]
        claims = await self._store.claim_tasks(
            room, queues=self._queues, workflows=self._workflows, deaths=DEATHS, outcomes=ended
        )
        del self._ended[: len(ended)]
        self._may_have_more = len(claims) == room
        if claims:
            await self._start(claims)

    async def _start(self, claims: Iterable[ClaimedTask]) -> None:
        read = [(claim, _read(claim)) for claim in claims]
        try:
            await self._load({(claim.run, content) for claim, task in read for content in _large(task)})
        except StoreError:
            await self._store.put_back_tasks([(claim.key, claim.fence) for claim, _ in read])
            raise
        for claim, task in read:
            began = perf_counter_ns()
            try:
                self._execute(claim, task)
            except ExecutorError:
                self._back.append((claim.key, claim.fence))
                self._bell.set()
            except Exception as error:  # noqa: BLE001 - what cannot be run here is a failed attempt
                outcome = Outcome("", (), "failed", None, error, 1, perf_counter_ns() - began)
                self._ended.append((claim.key, claim.fence, pack_outcome(outcome)))
                self._bell.set()

    def _execute(self, claim: ClaimedTask, task: Unpacked | Exception) -> None:
        if isinstance(task, Exception):
            raise task
        known = claim.workflow, claim.version
        workflow = self._workflows[known]
        node = workflow.compiled.nodes.get(task.node)
        if not isinstance(node, FunctionNode):
            raise NotTransferable(task.component, "it", f"{claim.workflow!r} has no such step here", "deploy it here")
        kinds = self._kinds.get(known)
        if kinds is None:
            kinds = self._kinds[known] = known_types([workflow])

        def load(content: bytes) -> bytes:
            body = self._values.get((claim.run, content))
            if body is None:
                raise NotTransferable(task.component, "a large argument", "it was removed", "let the policy retry it")
            return body

        runnable = task.runnable(node, self._context, kinds, load)
        runnable.reporter = _Reports((claim.key, claim.fence), self._keep)
        name = "async" if node.is_async else task.executor
        executor = self._executor(task, name)
        ticket = next(self._tickets)
        executor.submit(ticket, runnable)
        self._running[ticket] = _Running(claim, name, ticket)

    def _executor(self, task: Unpacked, name: str) -> Executor:
        executor = self._opened.get(name)
        if executor is None:
            executor = self._executors.get(name)
            if executor is None:
                hint = f"use one of {', '.join(map(repr, self._executors))} with queue="
                raise NotTransferable(task.component, "it", f"this worker has no executor {name!r}", hint)
            executor.open(self._wake)
            self._opened[name] = executor
        return executor

    def _wake(self) -> None:
        """Something has ended; called from any thread."""
        assert self._over is not None  # noqa: S101
        with suppress(RuntimeError):  # the loop is closed
            self._over.get_loop().call_soon_threadsafe(self._bell.set)

    async def _load(self, asked: Collection[tuple[RunId, bytes]]) -> None:
        missing = [each for each in asked if each not in self._values]
        if not missing:
            return
        found = await self._store.task_values(missing)
        kept = list(self._values.items())[-_CACHED:]
        wanted = {each: self._values[each] for each in asked if each in self._values}
        self._values = {**dict(kept), **wanted, **found}

    def _collect(self) -> None:
        """Take the outcomes of the steps that have ended."""
        for executor in self._opened.values():
            for ticket, outcome in executor.collect():
                running = self._running.pop(ticket, None)
                if running is not None:
                    key, fence = running.claim.key, running.claim.fence
                    self._ended.append((key, fence, pack_outcome(outcome)))
                    self._reports.pop((key, fence), None)

    async def _report(self) -> None:
        """Store what has ended and is not stored, and put back what cannot be executed."""
        if self._ended:
            stored = self._ended[:]
            await self._store.finish_tasks(stored)
            del self._ended[: len(stored)]
        if self._back:
            back = self._back[:]
            await self._store.put_back_tasks(back)
            del self._back[: len(back)]

    def _keep(self, claim: tuple[int, int], report: bytes) -> None:
        """Keep the *report* of a step, to store it soon; called on any thread."""
        is_first = not self._reports
        self._reports[claim] = report
        if is_first:
            self._wake()

    async def _tell(self) -> None:
        """Store how far the steps have come that have reported it."""
        taken = [(*claim, self._reports.pop(claim)) for claim in list(self._reports)]
        try:
            await self._store.report_tasks(taken)
        except StoreError:
            for key, fence, report in taken:
                self._reports.setdefault((key, fence), report)
            raise

    async def _check(self) -> None:
        """Cancel steps that are not wanted any more."""
        mine = {running.claim.key: running for running in self._running.values()}
        gone = await self._store.check_tasks([(each.claim.key, each.claim.fence) for each in mine.values()])
        for key in gone:
            running = mine[key]
            if self._running.pop(running.ticket, None) is not None:
                self._opened[running.executor].cancel(running.ticket)

    async def _leave(self) -> None:
        """Put back what is still executed: other workers run it."""
        left = list(self._running.values())
        for running in left:
            self._opened[running.executor].cancel(running.ticket)
        self._running.clear()
        claims = [(each.claim.key, each.claim.fence) for each in left] + self._back
        with suppress(StoreError):  # then the end of the lease does it
            if self._ended:
                await self._store.finish_tasks(self._ended)
            if claims:
                await self._store.put_back_tasks(claims)


def _read(claim: ClaimedTask) -> Unpacked | Exception:
    """Return the step, or why it cannot be read."""
    try:
        return Unpacked(claim.body)
    except Exception as error:  # noqa: BLE001 - one row that cannot be read stops no other
        return error


def _large(task: Unpacked | Exception) -> list[bytes]:
    return [] if isinstance(task, Exception) else task.large

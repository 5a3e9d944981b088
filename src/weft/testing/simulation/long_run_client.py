"""
The client of a long-lived run: it does one thing after the other, and repeats what was not acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any, Final, Literal, TypeVar

from weft.core import events as ev
from weft.core.run.external import parse_token
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import (
    HistoryTruncated,
    InvalidArgument,
    NoSnapshot,
    RunBusy,
    RunClosed,
    RunExists,
    StoreError,
    Stuck,
    TokenExpired,
)
from weft.policy.policy import Policy
from weft.ports.store import FINISHED, RunRecord
from weft.runner import AsyncRunner
from weft.runner.durability.unsaved import CONTINUED
from weft.runner.registry.continuation import next_id
from weft.testing.simulation.long_run_course import Action, Course, LongRunReport
from weft.testing.simulation.long_run_workflow import NAP, VERSIONS

T = TypeVar("T")

EDITED: Final = 1_000
"""The value of a fork, without its number."""
_LONG: Final = 100.0
"""Seconds that a client waits for a fork."""
_ROUNDS: Final = 300
"""How often a client looks until it says that a run does not come to its end."""


class LongRunClient:
    """The client, and its knowledge, which outlives the processes."""

    def __init__(
        self,
        dice: Random,
        course: Course,
        report: LongRunReport,
        tell: Callable[[str], None],
        set_clock: Callable[[float], None],
    ) -> None:
        self.dice, self.course, self.report, self.tell, self.set_clock = dice, course, report, tell, set_clock
        self.id = "run"
        """The run that the others were continued as, as far as is known."""
        self.at = 0
        """The number of the next action."""
        self.broken: set[int] = set()
        """The inputs for which a step fails."""
        self.sent: list[int] = []
        self.signals: list[int] = []
        self.outside: dict[str, None] = {}
        """The tokens that steps have handed out."""
        self.answers: dict[str, int] = {}
        """By token: with what it was tried to be completed."""
        self.refused: set[str] = set()
        """The tokens of attempts that were tried to be failed."""
        self.sure: set[int] = set()
        """The answers that were acknowledged."""
        self.token: str | None = None
        """The token that is being used."""
        self.target: Workflow | None = None
        """The version to which the run is being upgraded."""
        self.upgrades = self.rules = 0
        self.forks: list[int] = []
        self.read: dict[str, list[tuple[int, Any, str]]] = {}
        """By run: offset, value and execution of the items that a reader has had."""
        self.seen: dict[str, int] = {}
        """By run: the last event that a reader has had."""
        self.is_told = False
        """Whether the run was told to finish."""

    # -- one process -----------------------------------------------------------------------------

    async def use(self, runner: AsyncRunner, other: AsyncRunner) -> None:
        """Do what is left to do, in this process."""
        await again(lambda: runner.start(VERSIONS[0], id="run", if_exists="return"))
        await self._follow(runner)
        followers = [asyncio.ensure_future(self._read_on(other)), asyncio.ensure_future(self._see_on(other))]
        actions = self.course.actions
        while self.at < len(actions):
            action = actions[self.at]
            await getattr(self, f"_{action}")(runner, other)
            self.at += 1
            if self.dice.random() < 0.4:
                await asyncio.sleep(self.dice.choice((0.0, 0.1, 3.0)))
        await self._end(runner, other)
        for follower in followers:
            await follower

    async def _follow(self, runner: AsyncRunner) -> None:
        """Resume the last one of the runs that were continued."""
        while (await find(runner, self.id)).reason.startswith(CONTINUED):
            self.id = next_id(self.id)
        rehydration: Any = self.dice.choice(("full", "hybrid", "lazy"))
        await runner.resume(self.id, rehydration=rehydration)
        if await runner.status(self.id) == "parked":  # its processes have died without progress
            await runner.resume(self.id, rehydration=rehydration)

    async def _current(self, runner: AsyncRunner) -> Run:
        """Return the run as it is, the one that has taken its place if it was continued meanwhile."""
        while True:
            run = await again(lambda: runner.get(self.id))
            if run.memory.successor is None:
                return run
            self.id = run.memory.successor
            self.tell(f"it was continued as {self.id}")

    def _via(self, runner: AsyncRunner, other: AsyncRunner) -> AsyncRunner:
        return other if self.dice.random() < self.course.remote else runner

    async def _read_on(self, other: AsyncRunner) -> None:
        """Read the stream of every run of the chain, as it grows."""
        name = "run"
        while True:
            items = self.read.setdefault(name, [])
            async for item in other.stream(name, "words", len(items)):
                items.append((item.offset, item.value, item.execution))
            if (await find(other, name)).reason.startswith(CONTINUED):
                name = next_id(name)
            else:
                return

    async def _see_on(self, other: AsyncRunner) -> None:
        """Read the events of every run of the chain, as it grows."""
        name = "run"
        while True:
            async for event in other.events(name, self.seen.get(name, 0) + 1):
                if event.seq != self.seen.get(name, 0) + 1 and not isinstance(event, ev.LogTruncated):
                    self.report.problems.append(f"{name}: event {event.seq} came after {self.seen.get(name, 0)}")
                self.seen[name] = event.seq
            if (await find(other, name)).reason.startswith(CONTINUED):
                name = next_id(name)
            else:
                return

    def _has_done(self, action: Action, line: str) -> None:
        self.report.done[action] += 1
        self.tell(line)

    # -- messages --------------------------------------------------------------------------------

    async def _send(self, runner: AsyncRunner, other: AsyncRunner) -> None:
        number = len(self.sent) + 1
        if self.course.breaks and number % 3 == 0:
            self.broken.add(number)
        await again(lambda: self._via(runner, other).send(self.id, number, key=f"input {number}"))
        self.sent.append(number)
        self._has_done("send", f"input {number} is sent")

    async def _signal(self, runner: AsyncRunner, other: AsyncRunner) -> None:
        number = len(self.signals) + 1
        await again(lambda: self._via(runner, other).signal(self.id, "go", number, key=f"signal {number}"))
        self.signals.append(number)
        self._has_done("signal", f"signal {number} is sent")

    async def _answer(self, runner: AsyncRunner, other: AsyncRunner) -> None:
        await self._use_token(runner, other, "answer")

    async def _refuse(self, runner: AsyncRunner, other: AsyncRunner) -> None:
        await self._use_token(runner, other, "refuse")

    async def _use_token(self, runner: AsyncRunner, other: AsyncRunner, action: Literal["answer", "refuse"]) -> bool:
        """Use one of the tokens that are in force; return whether there is one.  Each is used for one purpose."""
        token = self.token
        if token is None:
            known = {*self.answers, *self.refused}
            tokens = [each for each in self.outside if each not in known and not _is_of_a_fork(each)]
            if not tokens:
                return False
            token = self.dice.choice(tokens)
        is_first, self.token = self.token is None, token
        if token not in self.refused and (action == "answer" or token in self.answers):
            number = self.answers.setdefault(token, len(self.answers) + 1)
            call: Callable[[AsyncRunner], Awaitable[None]] = lambda via: via.complete(token, number)  # noqa: E731
        else:
            self.refused.add(token)
            call = lambda via: via.fail(token, "not now")  # noqa: E731
        try:
            await again(lambda: call(self._via(runner, other)))
        except TokenExpired as expired:  # a call has used it whose process died, or that has had an error
            if is_first and not (self.course.weather.lies or self.course.weather.fails):
                self.report.problems.append(f"a token that nothing had used is refused: {expired}")
        else:
            if token in self.answers:
                self.sure.add(self.answers[token])
        self.token = None
        self._has_done(action, f"a token is used to {action}")
        return True

    # -- what changes the run --------------------------------------------------------------------

    async def _continue(self, runner: AsyncRunner, other: AsyncRunner) -> None:
        for seconds in (
            0.0,
            self.dice.choice((0.0, 10.0, 10.0, NAP)),
        ):  # so that nothing is in flight, or a timer is up
            await asyncio.sleep(seconds)
            while await self._use_token(runner, other, "answer"):
                pass
        run = await self._current(runner)
        if (await run.load()).failures:  # a failure would be left behind
            return
        try:
            handle = await runner.continue_as_new(self.id)
        except (RunBusy, HistoryTruncated) as refused:
            self.tell(f"it is not continued: {refused}")
        except RunClosed:
            await self._current(runner)
        else:
            self.id = handle.id
            self._has_done("continue", f"it is continued as {handle.id}")

    async def _upgrade(self, runner: AsyncRunner, _: AsyncRunner) -> None:
        await self._current(runner)
        version = (await find(runner, self.id)).version
        if self.target is None:
            self.target = VERSIONS[0] if version == VERSIONS[1].version else VERSIONS[1]
        if version != self.target.version:
            target = self.target
            while True:
                try:
                    await runner.upgrade(self.id, target)
                    break
                except RunClosed:  # it was continued at this moment
                    await self._current(runner)
                except HistoryTruncated as refused:
                    self.target = None
                    self.tell(f"it is not upgraded: {refused}")
                    return
        self.target = None
        self.upgrades += 1
        self._has_done("upgrade", "it is upgraded")

    async def _fork(self, runner: AsyncRunner, _: AsyncRunner) -> None:
        await self._current(runner)
        number = self.at
        try:
            await runner.fork(self.id, f"fork {number}", at="speak", value=EDITED + number)
        except (InvalidArgument, HistoryTruncated) as refused:  # it has not spoken yet, perhaps
            self.tell(f"it is not forked: {refused}")
            return
        except RunExists:  # a process that died has made it
            await runner.resume(f"fork {number}")

        def is_edited(run: Run) -> bool:
            return EDITED + number in run.state_of("spoken")

        with suppress(RunClosed):
            run = await runner.wait_until(f"fork {number}", is_edited, _LONG)
            spoken = run.state_of("spoken")
            if len({*spoken}) < len(spoken) or not {*spoken} - {EDITED + number} < {*range(len(self.sent) + 1)}:
                self.report.problems.append(f"fork {number} has spoken {spoken}")
        await runner.cancel(f"fork {number}", "seen")
        self.forks.append(number)
        self._has_done("fork", f"fork {number} is made and cancelled")

    async def _retry(self, runner: AsyncRunner, other: AsyncRunner) -> None:
        run = await self._current(runner)
        if run.failures:
            self.broken.clear()
            await again(lambda: self._via(runner, other).retry(self.id))
            self._has_done("retry", "what failed is tried again")

    async def _policies(self, runner: AsyncRunner, other: AsyncRunner) -> None:
        await self._current(runner)
        self.rules += 1
        policy = Policy(max_retries=0, priority=self.rules, delay=self.dice.choice((0.0, 0.5)))
        rules, via = [("speak", policy)], self._via(runner, other)
        try:
            await again(lambda: via.set_policies(self.id, rules, mode="merge"))
        except RunClosed:  # it was continued at this moment
            await self._current(runner)
        else:
            self._has_done("policies", f"policies number {self.rules} are set")

    # -- what the run should not notice ----------------------------------------------------------

    async def _truncate(self, runner: AsyncRunner, _: AsyncRunner) -> None:
        await self._current(runner)
        try:
            removed = await runner.truncate(self.id)
        except (NoSnapshot, RunBusy, RunClosed) as refused:
            self.tell(f"it is not truncated: {refused}")
        else:
            self._has_done("truncate", f"{removed} events are removed")

    async def _compact(self, runner: AsyncRunner, _: AsyncRunner) -> None:
        self._has_done("compact", f"{await runner.compact(self.id)} segments are moved")

    async def _evict(self, runner: AsyncRunner, _: AsyncRunner) -> None:
        evicted = await runner.evict()
        self._has_done("evict", f"{evicted.facts} facts are evicted")

    async def _stop(self, runner: AsyncRunner, _: AsyncRunner) -> None:
        await runner.stop(self.id)
        await self._follow(runner)
        self._has_done("stop", "it is stopped and resumed")

    async def _clock(self, *_: AsyncRunner) -> None:
        by = self.dice.choice((-1_000.0, -10.0, 10.0, 1_000.0))
        self.set_clock(by)
        self._has_done("clock", f"the clock is set by {by:g} seconds")

    async def _pass(self, *_: AsyncRunner) -> None:
        seconds = self.dice.choice((0.5, 10.0, NAP, 100.0))
        await asyncio.sleep(seconds)
        self._has_done("pass", f"{seconds:g} seconds pass")

    # -- the end ---------------------------------------------------------------------------------

    async def _end(self, runner: AsyncRunner, other: AsyncRunner) -> None:
        """Give the run everything that it waits for, and let it finish."""
        for _ in range(_ROUNDS):
            await self._current(runner)
            record = await find(runner, self.id)
            if record.status in FINISHED and not record.reason.startswith(CONTINUED):
                return
            if not self.is_told:
                while len(self.signals) < len(self.sent):
                    await self._signal(runner, other)
                await self._retry(runner, other)
                if not await self._use_token(runner, other, "answer") and await self._has_all(runner):
                    await again(lambda: self._via(runner, other).finish(self.id))
                    self.is_told = True
            await asyncio.sleep(5.0)
        raise Stuck(f"{self.id} does not come to its end: {await runner.status(self.id)}")

    async def _has_all(self, runner: AsyncRunner) -> bool:
        """Return whether the run has done everything that it was given, so that it only has to be told to finish."""
        run = await (await self._current(runner)).load()
        return run.status == "idle" and len(run.state_of("inputs")) == len(self.sent) and not run.failures


def _is_of_a_fork(token: str) -> bool:
    run, _ = parse_token(token)
    return run.startswith("fork")


async def again(call: Callable[[], Awaitable[T]]) -> T:
    """Return what *call* returns, which a program repeats when its store is unavailable."""
    while True:
        try:
            return await call()
        except StoreError:
            await asyncio.sleep(1.0)


async def find(runner: AsyncRunner, name: str) -> RunRecord:
    """Return the record of a run."""
    return await again(lambda: runner.find(name))

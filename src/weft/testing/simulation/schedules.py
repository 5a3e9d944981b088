"""
Simulates schedules: processes that fire one, crash, are down for a while and come back, on virtual time, from a seed.

    >>> simulate_schedule(1).problems
    []

What must hold at the end, whatever happened:

- a nominal time has at most one run, which was created once, and none but nominal times have one;
- a firing that the schedule counts has its run, and the other way round;
- a time that could be fired while a process was up, or soon after, was; of those that were missed, the last ones;
- none was decided to start before its time, by the clock as it was then; it may be set back until the run is created;
- unless they may overlap, a run was created only when the one before had finished;
- the steps of all runs together never exceeded the limits that they share.

Where the clock of the system is set, the third is not checked: it is not clear then which times have passed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from datetime import datetime
from random import Random
from typing import Final, TypeVar

import msgspec

from weft.core.components.step import step
from weft.core.run.runnable import Runnable
from weft.core.workflow import Workflow
from weft.errors import StoreError
from weft.local.counters import LocalCounters
from weft.policy import ConcurrencyLimit, RateLimit
from weft.policy.policy import Policy
from weft.ports.schedules import DueSchedules, ScheduleStore, StoredSchedule
from weft.ports.store import FINISHED, Append
from weft.runner import AsyncRunner
from weft.runner.schedules import rows
from weft.runner.schedules.decision import RETRY, Overlap, ScheduleState
from weft.stores import MemoryStore
from weft.testing.faults import Crash
from weft.testing.loop import VirtualLoop
from weft.testing.simulation.committed import Committed
from weft.testing.simulation.executor import Ending, SimulatedExecutor
from weft.testing.simulation.limit_checks import LimitChecks
from weft.testing.simulation.process import Connection, Weather
from weft.testing.simulation.scenario import Jump, Scenario
from weft.testing.simulation.wall_clock import ProcessClock, WallClock

T = TypeVar("T")

START: Final = 1_700_000_400.0
"""When a simulation begins, in seconds since the epoch: a multiple of all intervals."""
NAME: Final = "tick"
_SLACK: Final = 30.0
"""How many seconds a process may take until it looks, with a store that is slow, fails and is asked again."""
_ROUNDS: Final = 200
"""Intervals that it waits for the end of all runs."""
_PERIODS: Final = 12
"""Fewest intervals of a simulation."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """The schedule, what its runs do, and what happens to the processes that fire it."""

    every: float = 60.0
    overlap: Overlap = "skip"
    catch_up: int = 1
    tolerance: float = 60.0
    jitter: float = 0.0
    lasts: tuple[float, ...] = (1.0,)
    """How many seconds a step takes, one of these."""
    runners: int = 1
    """How many runners fire it at once."""
    lives: tuple[tuple[float, float], ...] = ()
    """Seconds that each process but the last is up, and then down."""
    weather: Weather = Weather()
    jumps: tuple[Jump, ...] = ()
    places: int = 2
    """How many steps run at once in a process."""
    rate: RateLimit | None = None


class ScheduleReport:
    """The result of a simulation."""

    def __init__(self, seed: int, rule: Rule) -> None:
        self.seed, self.rule = seed, rule
        self.problems: list[str] = []
        self.story: list[str] = []
        self.fired: list[float] = []
        """The nominal times that have a run."""

    def __str__(self) -> str:
        return "\n".join(
            [f"seed {self.seed}: {self.rule}", *self.story, *(f"PROBLEM: {each}" for each in self.problems)]
        )


def draw_rule(dice: Random) -> Rule:
    """Return what happens in a simulation."""
    every = dice.choice((60.0, 600.0))
    ups, downs = (0.3, 20.0, 45.0, 0.9 * every, 3 * every), (0.001, 40.0, 1.5 * every, 7 * every)
    is_stormy = dice.random() < 0.4
    overlap: Overlap = dice.choice(("skip", "queue", "allow", "cancel"))
    long = (2.5 * every, 1.0) if overlap == "allow" else (1.5 * every, 4.0 * every, 1.0)  # it does not keep up then
    return Rule(
        every=every,
        overlap=overlap,
        catch_up=dice.choice((0, 1, 3)),
        tolerance=dice.choice((1.0, 60.0, 2 * every)),
        jitter=dice.choice((0.0, 0.0, 10.0)),
        lasts=dice.choice(((1.0,), (1.0, 0.5 * every), long)),
        runners=dice.choice((1, 2)),
        lives=tuple((dice.choice(ups), dice.choice(downs)) for _ in range(dice.choice((0, 1, 2, 4)))),
        weather=Weather(0.1, 0.1, 0.3) if is_stormy else Weather(dawdles=dice.choice((0.0, 0.2))),
        jumps=tuple(Jump(dice.choice((10.0, every)), dice.choice((-3 * every, -5.0, 100.0))) for _ in range(2))
        if dice.random() < 0.3
        else (),
        places=dice.choice((1, 2)),
        rate=dice.choice((None, RateLimit("rate", 1, 20.0, burst=2))),
    )


def simulate_schedule(seed: int, rule: Rule | None = None) -> ScheduleReport:
    """Run the simulation number *seed*, with this *rule* or one that is drawn, and return its report."""
    dice = Random(seed)  # noqa: S311 - it should be the same every time
    return _Simulation(seed, dice, rule or draw_rule(dice)).run()


class ScheduleConnection(Connection):
    """The connection of a simulated process, with schedules."""

    on_put: Callable[[StoredSchedule], object]
    """Called with a row that was written."""

    @property
    def _rows(self) -> ScheduleStore:
        assert isinstance(self.inner, ScheduleStore)  # noqa: S101
        return self.inner

    async def put_schedule(self, row: StoredSchedule) -> bool:
        """Write a row."""

        async def act() -> bool:
            is_written = await self._rows.put_schedule(row)
            if is_written:
                self.on_put(row)
            return is_written

        return await self.around("put_schedule", act)

    async def list_schedules(self, name: str | None = None) -> Sequence[StoredSchedule]:
        """Return rows."""
        return await self.around("list_schedules", lambda: self._rows.list_schedules(name))

    async def due_schedules(self, workflows: Collection[str], now: float, *, limit: int = 100) -> DueSchedules:
        """Return rows that are due."""
        return await self.around("due_schedules", lambda: self._rows.due_schedules(workflows, now, limit=limit))

    async def delete_schedule(self, name: str) -> bool:
        """Delete a row."""
        return await self.around("delete_schedule", lambda: self._rows.delete_schedule(name))


class _Firings(Committed):
    """The runs of the schedule, as they are created and end in the store."""

    def __init__(self, *, may_overlap: bool) -> None:
        super().__init__()
        self._may_overlap = may_overlap
        self.created: dict[str, bytes] = {}
        """By run, in order: the chain that it began with."""
        self.problems: list[str] = []

    def written(self, batch: Sequence[Append], results: Sequence[StoreError | None]) -> None:
        """Note what a store has written."""
        for append, refused in zip(batch, results, strict=True):
            if refused is None and append.create:
                self._create(append)
            if refused is None and append.status is not None:  # in the order of the batch
                self.statuses[append.run] = append.status
        super().written(batch, results)

    def _create(self, append: Append) -> None:
        chain = self.created.setdefault(append.run, append.chain)
        if chain != append.chain:
            self.problems.append(f"{append.run} was created twice")
        others = (run for run in self.created if run != append.run)
        if not self._may_overlap and (open_ := [run for run in others if self.statuses[run] not in FINISHED]):
            self.problems.append(f"{append.run} was created, and {open_[0]} has not finished")


def _work(at: datetime) -> datetime:
    """Return the nominal time that a run was started for."""
    return at


class _Attempts:
    """Watches the steps of all runs of one process."""

    def __init__(self, checks: LimitChecks, problems: list[str]) -> None:
        self._checks, self._problems = checks, problems

    def begins(self, runnable: Runnable) -> None:
        """Note that an attempt begins."""
        now = asyncio.get_running_loop().time()
        self._problems += self._checks.begins(runnable.run_id, runnable.component, now)

    def ends(self, runnable: Runnable, ending: Ending) -> None:
        """Note that an attempt has ended."""
        self._checks.ends(runnable.component, ending, asyncio.get_running_loop().time())


class _Simulation:
    def __init__(self, seed: int, dice: Random, rule: Rule) -> None:
        self.dice, self.rule, self.report = dice, rule, ScheduleReport(seed, rule)
        self.store, self.clock, self.now, self.life = MemoryStore(), WallClock(), START, 0
        self.firings = _Firings(may_overlap=rule.overlap == "allow")
        policy = Policy(concurrency_limit=ConcurrencyLimit("places", rule.places), rate_limit=rule.rate)
        self.workflow = Workflow("job", step(_work, name="work"), policies=[("work", policy)])
        limited = Scenario(rules=(("work", policy),), others=(("work", policy),), components=frozenset({"work"}))
        self.limits = LimitChecks(limited, but=())
        self.begun: float | None = None
        """When the schedule was stored."""
        self.decided: dict[float, float] = {}
        """By nominal time: the time, by the clock of a process, at which its start was decided."""
        self.ends = math.inf
        """When it was paused for good."""
        self.ups: list[tuple[float, float]] = []
        """When processes were up, by the time of the loop."""

    def tell(self, line: str) -> None:
        self.report.story.append(f"life {self.life}: {line}")

    def run(self) -> ScheduleReport:
        rule, report = self.rule, self.report
        for up, down in rule.lives:
            self._live(up)
            self.now += down
        self._live(None)
        report.problems += self.firings.problems
        if not report.problems:
            report.problems += self._examined()
        return report

    def _live(self, up: float | None) -> None:
        """Let a process be up for *seconds* and crash; the last one stays until everything is done."""
        self.life += 1
        self.firings.life = self.life
        self.limits.begin_life(self.now)
        began = self.now
        connection = ScheduleConnection(self.store, self.dice, self.rule.weather, self.tell, self.firings)
        connection.on_put = self._stored
        ends = math.inf if up is None else self.now + up

        def before_turn(_: int) -> None:
            if loop.time() >= ends:
                raise Crash

        loop = VirtualLoop(self.now, before_turn=before_turn)
        if up is not None:
            loop.call_at(ends, int)  # so that there is a turn at that time
        try:
            loop.run_until_complete(self._process(connection))
        except Crash:
            self.tell("crash")
        finally:
            connection.die()
            self.now = loop.time()  # deaths are not counted: a run that is parked would hold up the others
            loop.kill()
            self.ups.append((began, min(self.now, self.ends)))

    async def _process(self, connection: ScheduleConnection) -> None:
        rule, loop, counters, clock = self.rule, asyncio.get_running_loop(), LocalCounters(), ProcessClock(self.clock)
        for jump in rule.jumps:
            loop.call_later(jump.after, self._set_clock, jump.by)
        watcher = _Attempts(self.limits, self.report.problems)
        runners: list[AsyncRunner] = []
        for _ in range(rule.runners):
            executor = SimulatedExecutor(lambda _: self.dice.choice(rule.lasts), max_workers=4, watcher=watcher)
            runner = AsyncRunner(
                connection, executors={"thread": executor}, executor="thread", clock=clock, counters=counters
            )
            runner._runtime.dispatcher.draw = self.dice.random  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            runners.append(runner)
        await connection.open()
        await asyncio.gather(*(self._fire(runner) for runner in runners))
        await asyncio.sleep(self.rule.every * _PERIODS)
        for runner in runners:
            for record in await runner.runs(status=["running", "waiting"], limit=1_000):
                if record.id in runner:  # else the other one waits for it, and this one would ask the store for hours
                    await runner.wait(record.id)
        await self._settled(runners[0])
        for runner in runners:
            await runner.close()
        await connection.close()

    async def _fire(self, runner: AsyncRunner) -> None:
        """Do what a program does when it begins: declare the schedule, and continue what was left."""
        rule = self.rule
        await runner.open()
        runner.register(self.workflow)
        await _again(runner.resume_all)
        await _again(
            lambda: runner.schedule(
                NAME,
                self.workflow,
                every=rule.every,
                overlap=rule.overlap,
                catch_up=rule.catch_up,
                tolerance=rule.tolerance,
                jitter=rule.jitter,
            )
        )

    async def _settled(self, runner: AsyncRunner) -> None:
        """Let the schedule end, with what it has decided."""
        await runner.pause(NAME)
        self.ends = asyncio.get_running_loop().time()
        for _ in range(_ROUNDS):
            (status,) = await runner.schedules()
            known = await _again(lambda: runner.runs(limit=10_000))
            if status.fired == len(known) and all(record.status in FINISHED for record in known):
                return
            await asyncio.sleep(self.rule.every)

    def _stored(self, row: StoredSchedule) -> None:
        if self.begun is None:
            self.begun = asyncio.get_running_loop().time()
        for at in rows.kept(row).state.starting:
            self.decided.setdefault(at, row.look_at - RETRY)

    def _set_clock(self, by: float) -> None:
        self.clock.set(at=asyncio.get_running_loop().time(), by=by)
        self.tell(f"the clock is set by {by:g} seconds")

    # -- what has become of it -------------------------------------------------------------------

    def _examined(self) -> Iterator[str]:
        rule = self.rule
        nominal = {run: _nominal(run) for run in self.firings.created}
        self.report.fired = sorted(nominal.values())
        for run in self.firings.created:
            if nominal[run] % rule.every:
                yield f"{run} is not at a multiple of {rule.every:g} seconds"
            if (decided := self.decided.get(nominal[run])) is None:
                yield f"{run} was created, and nothing had decided that"
            elif decided < nominal[run] - 1e-3:
                yield f"{run} was started {nominal[run] - decided:.3f} seconds before its time"
            if self.firings.statuses[run] not in FINISHED:
                yield f"{run} is {self.firings.statuses[run]} in the end"
        state = asyncio.run(_state(self.store))
        if state.fired != len(nominal):
            yield f"the schedule says that it has fired {state.fired} times, and {len(nominal)} runs were created"
        if rule.overlap in ("queue", "allow") and not rule.jumps:
            yield from self._complete({*nominal.values(), *state.pending})

    def _complete(self, fired: set[float]) -> Iterator[str]:
        """Yield the times that should have been fired and were not, and those that were missed and were fired."""
        rule = self.rule
        looked = [(began, ended) for began, ended in self.ups if ended - began >= _SLACK]
        assert self.begun is not None  # noqa: S101 - it was declared by the last process, at the latest
        at = START + rule.every * (1 + (self.begun - START) // rule.every)
        late: dict[float, list[float]] = {}
        while looked and at + rule.jitter + _SLACK < looked[-1][1]:
            seen = next(began for began, ended in looked if at + rule.jitter + _SLACK <= ended)
            short = any(began < seen and ended > at for began, ended in self.ups)  # one that may have looked, or not
            bound = at + rule.tolerance + rule.jitter
            is_on_time = max(seen, at) + _SLACK <= bound
            if is_on_time and at not in fired:
                yield f"{_shown(at)} was not fired, and a process was up from {_shown(seen)} on"
            if seen > bound + _SLACK and not short:
                late.setdefault(seen, []).append(at)
            at += rule.every
        for seen, times in late.items():
            for number, missed in enumerate(reversed(times), start=1):
                if (missed in fired) and number > rule.catch_up:
                    yield f"{_shown(missed)} was fired at {_shown(seen)}, and {number - 1} later ones were missed too"


async def _again(call: Callable[[], Awaitable[T]]) -> T:
    """Return what *call* returns, which a program repeats when its store is unavailable."""
    while True:
        try:
            return await call()
        except StoreError:
            await asyncio.sleep(1.0)


async def _state(store: MemoryStore) -> ScheduleState:
    """Return how far the schedule says that it has come."""
    async with store:
        (row,) = await store.list_schedules(NAME)
        return rows.kept(row).state


def _nominal(run: str) -> float:
    return datetime.fromisoformat(run.removeprefix(f"{NAME}@")).timestamp()


def _shown(at: float) -> str:
    return f"{at - START:+g} s"

"""
Simulates a long-lived run, on virtual time, from a seed: it waits for people and for other systems, is continued as
a new run, upgraded, forked, retried and shortened, and its policies change, while its processes crash, its store
fails, and the clock is set.

    >>> simulate_long_run(1).problems
    []

A client does one thing after the other, and repeats what was not acknowledged when a process died.  What must hold at
the end, whatever happened:

- every input, signal and completion has had its effect once, through the chain of runs that continue each other;
- every step has one result for each input, a failed one after its retry;
- a large value, which inputs share, is there for the step that takes it when it has waited;
- every upgrade is in the log once, and what it adds runs at most once for an input;
- a fork has the edited value once, and the original does not have it;
- the items of a stream have offsets without a gap, those of an execution are in order, one execution for each input is
  complete, and a reader that followed them has read the same;
- a reader of the events has had each of them once, in order, but for those that were truncated before;
- no message is left in an inbox, and the run has completed.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from weft.errors import Stuck
from weft.runner import AsyncRunner
from weft.runner.registry.sleepers import RESIDENT
from weft.stores import MemoryStore
from weft.testing.faults import Crash
from weft.testing.loop import VirtualLoop
from weft.testing.simulation.committed import Committed
from weft.testing.simulation.executor import SimulatedExecutor
from weft.testing.simulation.long_run_checks import examine
from weft.testing.simulation.long_run_client import LongRunClient
from weft.testing.simulation.long_run_course import Course, LongRunReport, draw_course
from weft.testing.simulation.long_run_workflow import VERSIONS
from weft.testing.simulation.process import Connection
from weft.testing.simulation.storage import InMemory, OnFile, Storage
from weft.testing.simulation.wall_clock import ProcessClock, WallClock

START: Final = 1_700_000_000.0
"""When a simulation begins, in seconds since the epoch."""


def simulate_long_run(seed: int, course: Course | None = None) -> LongRunReport:
    """Run the simulation number *seed*, with this *course* or one that is drawn, and return its report."""
    dice = Random(seed)  # noqa: S311 - it should be the same every time
    course = course or draw_course(dice)
    storage = OnFile() if course.store == "file" else InMemory(MemoryStore())
    try:
        return _Simulation(seed, dice, course, storage).run()
    finally:
        storage.clean()


class _Simulation:
    def __init__(self, seed: int, dice: Random, course: Course, storage: Storage) -> None:
        self.dice, self.course, self.storage, self.report = dice, course, storage, LongRunReport(seed, course)
        self.clock, self.committed, self.now, self.life = WallClock(), Committed(), START, 0
        self.client = LongRunClient(dice, course, self.report, self.tell, self.set_clock)

    def tell(self, line: str) -> None:
        self.report.story.append(f"life {self.life}: {line}")

    def set_clock(self, by: float) -> None:
        self.clock.set(at=asyncio.get_running_loop().time(), by=by)

    def run(self) -> LongRunReport:
        try:
            while not self._live():
                self.now += self.dice.choice((0.001, 0.5, 100.0))
        except Stuck as stuck:
            self.report.problems.append(str(stuck))
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - each that a runner should not raise
            self.report.problems.append(f"{type(error).__name__}: {error}")
        return self.report

    def _live(self) -> bool:
        """Live until the crash or the end; return whether everything is done."""
        crashes = self.course.crashes
        end = crashes[self.life] if self.life < len(crashes) else None
        self.life += 1
        self.committed.life = self.life
        dies = self.course.dies if self.life == 1 else None
        connection = Connection(self.storage.connect(), self.dice, self.course.weather, self.tell, self.committed, dies)

        def before_turn(number: int) -> None:
            if number == end or connection.is_dying:
                raise Crash

        loop = VirtualLoop(self.now, before_turn=before_turn)
        has_crashed = False
        try:
            loop.run_until_complete(self._process(connection))
        except Crash:
            self.tell(f"crash at turn {loop.turns}")
            has_crashed = True
        finally:
            connection.die()
            self.report.writes += connection.writes
            self.storage.lose(counts=True)
            self.now = loop.time()
            loop.kill()
            if not has_crashed:
                self.report.problems += [str(each) for each in loop.problems]
        return not has_crashed

    async def _process(self, connection: Connection) -> None:
        course, clock = self.course, ProcessClock(self.clock)
        runner = AsyncRunner(
            connection,
            executors={"thread": self._executor(), "async": self._executor(), "inline": self._executor()},
            clock=clock,
            context={"broken": self.client.broken, "outside": self.client.outside},
            checkpoint=course.strategy,
            snapshot_every=course.snapshot_every,
            continue_after=course.continue_after,
            memory_budget=course.memory_budget,
            keep_values_for=course.keep_values_for,
            resident=RESIDENT if course.resident is None else course.resident,
        )
        await runner.open()
        other = AsyncRunner(connection, clock=clock, executors={"thread": self._executor()}, blocking_threshold=None)
        await other.open()
        for each in (runner, other):
            dispatcher = each._runtime.dispatcher  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            dispatcher.draw = self.dice.random
            if "clock" in course.actions:  # else it is never set, and nothing has to look at it
                dispatcher.timers.nap = 1.0
            each.register(*VERSIONS)
        await self.client.use(runner, other)
        self.report.problems += await examine(self.client, runner)
        await other.close()
        await runner.close()

    def _executor(self) -> SimulatedExecutor:
        return SimulatedExecutor(lambda _: self.dice.choice((0.0, 0.3, 2.0)), max_workers=4)

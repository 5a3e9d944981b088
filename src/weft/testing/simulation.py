"""
One life of a runner after another, on virtual time, all drawn from one seed.

A simulation starts runs of a workflow in a process that crashes at a moment that a die has chosen: between any two
turns of its event loop, so also inside of an append, before or after the commit.  What the store has committed stays,
all else is lost; a new process resumes, and so on until everything is settled.  Meanwhile the store fails, lies and
dawdles, steps fail and hang, and everything takes as long as it likes.  In the end the runs must be what they would
have been without any of this, and nothing that had completed in the log may have been executed again.

    >>> from weft import Workflow, step
    >>> double = Workflow("double", step(lambda x: x * 2, name="double"))
    >>> def draw(dice):
    ...     return Trial(double, (dice.randrange(100),))
    >>> simulate(7, draw).problems
    []

The same seed gives the same simulation, event by event: ``simulate(seed, draw).story`` tells it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from weft.core.run import Run
from weft.errors import RunClosed, Stuck, WorkflowAlreadyStarted
from weft.local.counters import LocalCounters
from weft.policy.limits import UseState
from weft.runner import AsyncRunner
from weft.stores import MemoryStore
from weft.testing.executor import Lasts, SimulatedExecutor
from weft.testing.faults import Crash
from weft.testing.loop import VirtualLoop
from weft.testing.plot import Plot, Trial, draw_plot
from weft.testing.process import Connection
from weft.testing.verdict import Witness, examine

START = 1_700_000_000.0
"""When a simulation begins, in seconds since the epoch."""


class Report:
    """What came of a simulation."""

    def __init__(self, seed: int, plot: Plot) -> None:
        self.seed, self.plot = seed, plot
        self.problems: list[str] = []
        """What is wrong; nothing, if all is well."""
        self.story: list[str] = []
        """What happened, line by line."""
        self.lives = 0
        self.turns = 0
        """How many turns of an event loop it took."""
        self.executions = 0
        self.events = 0
        self.appends = 0

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.plot}", *self.story, *(f"PROBLEM: {each}" for each in self.problems)]
        return "\n".join(lines)


def simulate(
    seed: int, draw: Callable[[Random], Trial], *, plot: Plot | None = None, store: MemoryStore | None = None
) -> Report:
    """
    Return what came of the simulation number *seed*, of what *draw* makes of a die.

    Args:
        plot: what happens, if that is not to be drawn as well.
        store: what outlives the processes.
    """
    dice = Random(seed)  # noqa: S311 - it should be the same every time
    trial = draw(dice)
    return _Simulation(seed, dice, trial, plot or draw_plot(dice, trial), store or MemoryStore()).run()


class _Simulation:
    def __init__(self, seed: int, dice: Random, trial: Trial, plot: Plot, store: MemoryStore) -> None:
        self.dice, self.trial, self.plot = dice, trial, plot
        self.report = Report(seed, plot)
        self.store = store
        self.witness = Witness(dice, plot, self.store, self.tell)
        self.workflow = trial.workflow.with_policies(plot.rules) if plot.rules else trial.workflow
        self.now = START
        self.life = 0
        self.begun: set[str] = set()
        """The runs whose creation was acknowledged."""
        self.taken: set[tuple[str, int]] = set()
        """The inputs that were acknowledged for good."""
        self.unwanted: set[str] = set()
        """The runs that somebody has tried to cancel."""
        self.told: dict[str, Run] = {}
        """What on_complete was last called with, by run."""

    def tell(self, line: str) -> None:
        self.report.story.append(f"{self.now_or_then() - START:10.3f} life {self.life}: {line}")

    def now_or_then(self) -> float:
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return self.now

    # -- lives -----------------------------------------------------------------------------------

    def run(self) -> Report:
        report = self.report
        try:
            while not self._live():
                self.now += self.dice.choice((0.0, 0.5, 100.0))
        except Stuck as error:
            report.problems.append(str(error))
        except Exception as error:  # noqa: BLE001 - whatever a runner raises where it should not is a finding
            report.problems += [f"{type(each).__name__}: {each}" for each in getattr(error, "exceptions", (error,))]
        report.lives, report.executions = self.life, len(self.witness.executions)
        report.problems += self.witness.problems
        if not report.problems:
            report.problems += self._virtually(self._examine())
        return report

    def _live(self) -> bool:
        """Live until the crash or the end; return whether everything is done."""
        crash_at = self.plot.crashes[self.life] if self.life < len(self.plot.crashes) else None
        self.life += 1
        self.witness.new_life()

        dies = self.plot.dies if self.life == 1 else None
        connection = Connection(self.store, self.dice, self.plot.weather, self.tell, dies)

        def before_turn(number: int) -> None:
            if number == crash_at or connection.is_dying:
                raise Crash

        loop = VirtualLoop(self.now, before_turn=before_turn)
        try:
            loop.run_until_complete(self._process(connection))
        except Crash:
            self.tell(f"crash at turn {loop.turns}")
            self.now = loop.time()
            return False
        finally:
            connection.die()
            self.now = loop.time()
            loop.kill()
            self.report.turns += loop.turns
            self.report.appends += connection.appends
            self.report.problems += [str(problem) for problem in loop.problems]
        return True

    def _virtually(self, main: Coroutine[Any, Any, Any]) -> Any:
        loop = VirtualLoop(self.now)
        try:
            return loop.run_until_complete(main)
        finally:
            loop.kill()

    async def _process(self, connection: Connection) -> None:
        """What one process does."""
        counters, plot = LocalCounters(), self.plot
        runner = AsyncRunner(
            connection,
            executor="thread",
            max_concurrency=plot.max_concurrency,
            checkpoint=plot.strategy,
            context=self.trial.context,
            grace=plot.grace,
            executors={
                "inline": self._executor(lambda _: 0.0, 1_000),
                "async": self._executor(self.witness.lasts, plot.workers),
                "thread": self._executor(self.witness.lasts, plot.workers),
            },
            clock=_LoopClock(),
            counters=counters,
        )
        await runner.open()
        runner.register(self.workflow)
        if plot.resumes_all:
            await runner.resume_all(**self._options())
        async with asyncio.TaskGroup() as clients:
            for run in plot.runs:
                clients.create_task(self._client(runner, run), name=f"the client of {run}")
        self.report.problems += _left_over(runner, counters)
        await runner.close()
        self.tell("closed")

    def _executor(self, lasts: Lasts, workers: int) -> SimulatedExecutor:
        refuses = self.witness.refuses if self.plot.refusals else None
        return SimulatedExecutor(lasts, max_workers=workers, watcher=self.witness, refuses=refuses)

    def _options(self) -> dict[str, Any]:
        if not self.plot.notices:
            return {}

        async def on_complete(run: str, seen: Run) -> None:
            self.tell(f"on_complete of {run}")
            await asyncio.sleep(self.dice.choice((0.0, 0.3)))
            self.told[run] = seen

        return {"on_complete": on_complete}

    # -- clients ---------------------------------------------------------------------------------

    async def _client(self, runner: AsyncRunner, run: str) -> None:
        """Start or resume a run, give it its inputs, and wait for what comes of them."""
        if run in self.witness.cancelled:
            return
        await asyncio.gather(*(self._begin(runner, run) for _ in range(1 + self.plot.is_wanted_twice)))
        try:
            for number, value in enumerate(self.trial.inputs):
                if (run, number) not in self.taken:
                    await self._give(runner, run, number, value)
        except RunClosed:
            if run not in self.unwanted:
                raise
            self.witness.cancelled.add(run)
        if run in self.unwanted and await runner.status(run) == "cancelled":
            self.witness.cancelled.add(run)
        if run not in self.witness.cancelled:
            await self._wait(runner, run)

    async def _give(self, runner: AsyncRunner, run: str, number: int, value: Any) -> None:
        """Give a run an input, and perhaps something else to do."""
        dice, plot = self.dice, self.plot
        await asyncio.sleep(dice.choice((0.0, 0.0, 0.1, 2.0)))
        await runner.run(run, value, key=f"input {number}")
        self.tell(f"input {number} of {run} taken")
        if plot.strategy.takes_input_first:
            self.taken.add((run, number))
        if dice.random() < plot.checkpoints:
            await runner.checkpoint(run)
        if plot.rules and dice.random() < plot.rulings:
            await runner.set_policies(run, plot.rules)
        if dice.random() < plot.stops:
            await asyncio.sleep(dice.choice((0.0, 0.1, 0.5)))
            await self._stop_and_go(runner, run)
        if dice.random() < plot.cancels:
            await asyncio.sleep(dice.choice((0.0, 0.1, 0.5)))
            self.unwanted.add(run)
            await runner.cancel(run, "enough")
            self.witness.cancelled.add(run)
            self.tell(f"{run} cancelled")
            await runner.run(run, value)  # it is closed, and says so

    async def _wait(self, runner: AsyncRunner, run: str) -> None:
        """Wait until a run is idle, and see whether that is so."""
        seen = await runner.wait(run)
        if self.trial.then is not None:
            await self.trial.then(runner, run)
            seen = await runner.wait(run)
        if not self.plot.strategy.at_idle:
            await runner.checkpoint(run)
        await self._check_durable(run, seen)
        self.tell(f"{run} is idle after {len(seen.log())} events")

    async def _begin(self, runner: AsyncRunner, run: str) -> None:
        if run in self.begun:
            await runner.resume(run, workflow=self.workflow, **self._options())
        elif self.plot.starts_whole:
            await runner.start(self.workflow, self.trial.inputs[0], id=run, **self._options())
            self.taken.add((run, 0))
        else:
            try:
                await runner.start_workflow(run, self.workflow, **self._options())
            except WorkflowAlreadyStarted:
                await runner.resume(run, workflow=self.workflow, **self._options())
        self.begun.add(run)
        self.tell(f"{run} has begun")

    async def _stop_and_go(self, runner: AsyncRunner, run: str) -> None:
        await runner.stop(run)
        self.tell(f"{run} stopped")
        await runner.resume(run, workflow=self.workflow, **self._options())
        self.tell(f"{run} goes on")

    async def _check_durable(self, run: str, seen: Run) -> None:
        """What a wait reports must be in the store."""
        stored = await self.store.find(run)
        if stored.head < len(seen.log()):
            self.report.problems.append(
                f"{run}: reported with {len(seen.log())} events when only {stored.head} were durable"
            )
        if seen.is_runnable:
            self.report.problems.append(f"{run}: reported idle with something left to do")

    # -- the end ---------------------------------------------------------------------------------

    async def _examine(self) -> list[str]:
        await self.store.open()
        problems: list[str] = []
        for run in self.plot.runs:
            found, wrong = await examine(self.store, run, self.workflow, self.trial, self.plot, self.witness)
            self.report.events += found
            problems += [f"{run}: {each}" for each in wrong]
            if self.plot.notices and run not in self.witness.cancelled:
                problems += self._examine_notice(run)
        return problems

    def _examine_notice(self, run: str) -> list[str]:
        seen = self.told.get(run)
        if seen is None:
            return [f"{run}: on_complete was never called"]
        if seen.memory.received != len(self.trial.inputs):
            return [f"{run}: on_complete last saw {seen.memory.received} of {len(self.trial.inputs)} inputs"]
        return []


class _LoopClock:
    """The time of day is that of the running loop."""

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    def sleep(self, seconds: float) -> None:
        raise NotImplementedError(f"nobody may block for {seconds} seconds in virtual time; await it")

    async def asleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _left_over(runner: AsyncRunner, counters: LocalCounters) -> list[str]:
    """Return what a runner that has nothing to do still holds."""
    office = runner._office  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    assert office is not None  # noqa: S101
    used = [key for key, state in counters.states().items() if isinstance(state, UseState) and state.used]
    problems = [f"places of {key} are still taken" for key in used]
    if office.is_busy:
        problems.append("flights are left in the air when every run is idle")
    return problems

"""
Simulates one life of a runner after another, on virtual time, all drawn from one seed.

A simulation starts runs of a workflow in a process that crashes at a random moment: between any two turns of its event
loop, so also inside an append, before or after the commit.  Everything that the store has committed stays, all else is
lost; a new process resumes, and so on until everything is settled.  Meanwhile the store fails, reports false failures
and is slow, steps fail and hang, and everything takes a random time.  In the end the runs must be what they would
have been without any of this, and nothing that had completed in the log may have been executed again.  A run that is
parked because its owners have died is resumed by hand: no run may be started more than three times without progress.

Some processes do not crash: their runner is closed while it is used, and the store may be unavailable just then, for
less or for longer than the grace time.  Either everything is written, and nothing that had completed is executed again,
or the runner reports unwritten events.  Callers are cancelled in the middle of their calls, including stop and close,
and several of them use one run at once.

    >>> from weft import Workflow, step
    >>> double = Workflow("double", step(lambda x: x * 2, name="double"))
    >>> def draw(dice):
    ...     return Trial(double, (dice.randrange(100),))
    >>> simulate(7, draw).problems
    []

The same seed repeats the same simulation, event by event: ``simulate(seed, draw).story`` describes it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, cast

from msgspec.structs import replace

from weft.core.run.runnable import Runnable
from weft.errors import RunnerClosed, StoreUnavailable, Stuck, UnwrittenEvents
from weft.executors import InlineExecutor
from weft.local.counters import LocalCounters
from weft.policy.limits import UseState
from weft.runner import AsyncRunner
from weft.runner.execution.policy_call import PolicyCall
from weft.runner.registry.sleepers import RESIDENT
from weft.stores import MemoryStore
from weft.testing.faults import Crash
from weft.testing.loop import VirtualLoop
from weft.testing.simulation.attempt_log import AttemptLog
from weft.testing.simulation.children import family
from weft.testing.simulation.clients import Clients
from weft.testing.simulation.committed import Committed
from weft.testing.simulation.executor import ImmediateSimulatedExecutor, Lasts, SimulatedExecutor
from weft.testing.simulation.message_ledger import MessageLedger
from weft.testing.simulation.process import Connection
from weft.testing.simulation.run_creation_check import RunCreationCheck
from weft.testing.simulation.scenario import Closing, Scenario, Trial
from weft.testing.simulation.scenario_draw import draw_scenario
from weft.testing.simulation.storage import InMemory, OnFile, Storage
from weft.testing.simulation.verify import examine_family
from weft.testing.simulation.wait_checks import WaitChecks
from weft.testing.simulation.wall_clock import ProcessClock, WallClock

START = 1_700_000_000.0
"""When a simulation begins, in seconds since the epoch."""
_AN_HOUR = 3_600.0
"""Within how many seconds every client of a closed runner must have returned."""
_ENOUGH = 50
"""Number of problems that ends a simulation early."""
_RESTART = 1e-3
"""Seconds: no process starts at the very moment at which another one died, so no two runs begin at the same time."""
_AN_AGE = 1e7
"""How many seconds a simulation may take; a longer one waits for a timer that it should not wait for."""


class Report:
    """The result of a simulation."""

    def __init__(self, seed: int, scenario: Scenario) -> None:
        self.seed, self.scenario = seed, scenario
        self.problems: list[str] = []
        """The problems that were found; empty if all is well."""
        self.story: list[str] = []
        """The events of the simulation, line by line."""
        self.lives = 0
        self.turns = 0
        """How many turns of an event loop it took."""
        self.executions = 0
        self.events = 0
        self.writes = 0
        """How many appends, truncations and compactions there were."""

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.scenario}", *self.story, *(f"PROBLEM: {each}" for each in self.problems)]
        return "\n".join(lines)


def simulate(
    seed: int, draw: Callable[[Random], Trial], *, scenario: Scenario | None = None, store: MemoryStore | None = None
) -> Report:
    """
    Run the simulation number *seed* of the trial that *draw* returns, and return its report.

    Args:
        scenario: what happens, if it is not to be drawn as well.
        store: the store, if it is neither of those that a scenario names.
    """
    dice = Random(seed)  # noqa: S311 - it should be the same every time
    trial = draw(dice)
    scenario = scenario or draw_scenario(dice, trial)
    trial = _ruled(trial, scenario)
    storage = OnFile() if store is None and scenario.store == "file" else InMemory(store or MemoryStore())
    try:
        return _Simulation(seed, dice, trial, scenario, storage).run()
    finally:
        storage.clean()


class _Simulation:
    def __init__(self, seed: int, dice: Random, trial: Trial, scenario: Scenario, storage: Storage) -> None:
        self.dice, self.trial, self.scenario, self.storage = dice, trial, scenario, storage
        self.report = Report(seed, scenario)
        self.committed = Committed()
        self.attempts = AttemptLog(dice, trial, scenario, self.committed, self.tell)
        self.creations = RunCreationCheck(scenario.runs, self.attempts.cancelled)
        self.messages = MessageLedger(lies=bool(scenario.weather.lies or scenario.impatience))
        self.clients = Clients(
            dice, trial, scenario, self.attempts, self.messages, self.tell, self.interrupt, self.committed.removed
        )
        self.committed.watchers += (self.creations, self.attempts, self.clients, self.messages)
        self.now = START
        self.clock = WallClock()
        self.life = 0
        self.loop: VirtualLoop | None = None
        self.end: int | None = None
        """At which turn the present process dies."""
        self.is_interrupted = False

    def tell(self, line: str) -> None:
        self.report.story.append(f"{self.now_or_then() - START:10.3f} life {self.life}: {line}")

    def now_or_then(self) -> float:
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return self.now

    def interrupt(self) -> None:
        """Note that a client begins to cancel a run: if the scenario says so, let the process die soon, once."""
        if self.scenario.interrupts is not None and not self.is_interrupted:
            assert self.loop is not None  # noqa: S101
            self.is_interrupted, self.end = True, self.loop.turns + self.scenario.interrupts

    # -- lives -----------------------------------------------------------------------------------

    def run(self) -> Report:
        report = self.report
        try:
            while not self._live():
                self.now += self.dice.choice((_RESTART, 0.5, 100.0))
        except Stuck as error:
            report.problems.append(str(error))
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - each that a runner should not raise
            report.problems += [f"{type(each).__name__}: {each}" for each in _leaves(error)]
        report.lives, report.executions = self.life, len(self.attempts.executions)
        report.problems += self.attempts.problems + self.clients.problems + self.creations.problems
        report.problems += self.clients.outcomes.problems
        if self.now - START > _AN_AGE:
            report.problems.append(f"it took {self.now - START:,.0f} seconds")
        if not report.problems:
            report.problems += self._virtually(self._examine())
        return report

    def _live(self) -> bool:
        """Live until the crash or the end; return whether everything is done."""
        self.end = self.scenario.crashes[self.life] if self.life < len(self.scenario.crashes) else None
        self.life += 1
        self.committed.life = self.life
        self.attempts.new_life(self.now)

        dies = self.scenario.dies if self.life == 1 else None
        store = self.storage.connect()
        connection = Connection(store, self.dice, self.scenario.weather, self.tell, self.committed, dies)

        def before_turn(number: int) -> None:
            if len(self.attempts.problems) > _ENOUGH:
                raise Stuck("there are so many problems that it may never end")
            if number == self.end or connection.is_dying:
                raise Crash

        has_crashed = False
        loop = self.loop = VirtualLoop(self.now, before_turn=before_turn)
        try:
            return loop.run_until_complete(self._process(connection))
        except Crash:
            self.now = loop.time()
            self.tell(f"crash at turn {loop.turns}")
            has_crashed = True
            return False
        finally:
            connection.die()
            # A child that is parked would fail the step that waits for it, and its parent would have another result.
            self.storage.lose(counts=not self.trial.children)
            self.attempts.ended(has_crashed=has_crashed)
            self.now = loop.time()
            loop.kill()
            self.report.turns += loop.turns
            self.report.writes += connection.writes
            heard = [each for each in loop.problems if not (has_crashed and _is_unheard(each))]
            self.report.problems += [str(problem) for problem in heard]

    def _virtually(self, main: Coroutine[Any, Any, Any]) -> Any:
        loop = VirtualLoop(self.now)
        try:
            return loop.run_until_complete(main)
        finally:
            loop.kill()

    async def _process(self, connection: Connection) -> bool:
        """Do what one process does; return whether everything is done."""
        counters, scenario = LocalCounters(), self.scenario
        clock = ProcessClock(self.clock)
        runner = AsyncRunner(
            connection,
            executor=scenario.executor,
            max_concurrency=scenario.max_concurrency,
            checkpoint=scenario.strategy,
            snapshot_every=scenario.snapshot_every,
            memory_budget=scenario.memory_budget,
            keep_values_for=scenario.keep_values_for,
            context=self.trial.context,
            grace=scenario.grace,
            executors={
                "inline": self._executor(ImmediateSimulatedExecutor, lambda _: 0.0, 1_000),
                "async": self._executor(SimulatedExecutor, self.attempts.lasts, scenario.workers),
                "thread": self._executor(SimulatedExecutor, self.attempts.lasts, scenario.workers),
            },
            clock=clock,
            counters=counters,
            resident=RESIDENT if scenario.resident is None else scenario.resident,
        )
        await runner.open()
        other = await self._open_another(connection, clock)
        dispatcher = runner._runtime.dispatcher  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        dispatcher.draw = self.dice.random  # otherwise jitter would be different every time
        dispatcher.timers.nap = 1.0 if scenario.jumps else math.inf
        runner.register(self.trial.workflow, *self.trial.children.values())
        loop = asyncio.get_running_loop()
        for jump in scenario.jumps:
            loop.call_later(jump.after, self._set_clock, jump.by)
        if self.life <= len(scenario.closings):
            return await self._cut_short(runner, other, connection, scenario.closings[self.life - 1])
        await self.clients.use(runner, other, connection.inner)
        self.report.problems += _left_over(runner, counters)
        if other is not None:
            await other.close()
        await self.clients.close(runner)
        self.tell("closed")
        return True

    async def _open_another(self, connection: Connection, clock: ProcessClock) -> AsyncRunner | None:
        """Return another runner on the same store, which holds no run; None if it is not needed."""
        if not self.scenario.remote:
            return None
        executors = {name: InlineExecutor() for name in ("inline", "thread", "process")}
        other = AsyncRunner(connection, clock=clock, executors=executors, blocking_threshold=None)
        await other.open()
        return other

    def _set_clock(self, by: float) -> None:
        self.clock.set(at=asyncio.get_running_loop().time(), by=by)
        self.tell(f"the clock is set by {by:g} seconds")

    async def _cut_short(
        self, runner: AsyncRunner, other: AsyncRunner | None, connection: Connection, closing: Closing
    ) -> bool:
        """Close the runner although its clients may not be done; return whether they were."""
        using = asyncio.ensure_future(self.clients.use(runner, other, connection.inner))
        await asyncio.wait([using], timeout=closing.after)
        is_done = using.done() and using.exception() is None
        if other is not None:
            await other.close()
        connection.lose(closing.outage)
        self.tell(f"closing, with the store unavailable for {closing.outage} seconds")
        is_calm = not (self.scenario.weather.fails or self.scenario.weather.lies)
        is_short = closing.outage == 0.0 or closing.outage < self.scenario.grace
        try:
            is_told = await self.clients.close(runner)
        except UnwrittenEvents as error:
            self.tell(f"closed: {error}")
            is_done = False
            if is_calm and is_short:
                self.report.problems.append(f"there was time to write everything, and close() raised: {error}")
        else:
            self.tell("closed")
            if is_told or (is_calm and is_short):
                self.attempts.closed()
                self.clients.closed()
            else:
                is_done = False
        await asyncio.wait([using], timeout=_AN_HOUR)
        if not using.done():
            self.report.problems.append("a client still waits for a runner that is closed")
        elif (raised := using.exception()) is not None:
            self.report.problems += [f"{type(each).__name__}: {each}" for each in _unexpected(raised)]
        return is_done

    def _executor(self, kind: type[SimulatedExecutor], lasts: Lasts, workers: int) -> SimulatedExecutor:
        refuses = self.attempts.refuses if self.scenario.refusals else None
        return kind(
            lasts,
            max_workers=workers,
            watcher=self.attempts,
            refuses=refuses,
            beats=self.attempts.beats,
            blocks=self._blocks if self.trial.patient else None,
        )

    def _blocks(self, runnable: Runnable) -> bool:
        """Return whether an attempt waits for children."""
        return runnable.component in self.trial.patient and not isinstance(runnable, PolicyCall)

    async def _examine(self) -> list[str]:
        store = self.storage.connect()
        await store.open()
        problems: list[str] = []
        known: set[str] = set()
        waits = WaitChecks(self.scenario, self.committed, self.clock)
        for run in self.scenario.runs:
            members = await family(store, run, self.trial, self.committed.removed)
            known.update(members)
            self.report.events += sum(len(member.run.log()) for member in members.values())
            problems += examine_family(members, run, self.trial, self.scenario, self.attempts)
            problems += self.clients.unnoticed(run)
            problems += [f"{run}: {each}" for each in self.clients.outcomes.examine(members[run].record)]
            left = await store.messages([run])
            problems += [f"{run}: {each}" for each in self.messages.examine(members[run].run, left)]
            problems += [f"{run}: {each}" for each in waits.examine(members[run].run)]
        problems += [f"{each.id} has no parent" for each in await store.list(limit=1_000) if each.id not in known]
        await store.close()
        return problems


def _ruled(trial: Trial, scenario: Scenario) -> Trial:
    """Return *trial* with the policies of *scenario*, and its children where its steps look for them."""
    workflow, children = trial.workflow, trial.children
    if scenario.rules:
        workflow = workflow.with_policies(scenario.rules)
        children = {name: child.with_policies(scenario.rules) for name, child in children.items()}
    context = {**trial.context, "children": children} if children else trial.context
    return replace(trial, workflow=workflow, children=children, context=context)


def _is_unheard(problem: dict[str, Any]) -> bool:
    """Return whether *context* is about a result for callers whose process died before they got it."""
    is_lost = str(problem.get("message")).endswith("exception was never retrieved")
    return is_lost and isinstance(problem.get("exception"), RunnerClosed | StoreUnavailable | UnwrittenEvents)


def _leaves(error: BaseException) -> list[BaseException]:
    """Return the errors in *error*, which may be a group of groups."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return [each for part in group.exceptions for each in _leaves(part)]
    return [error]


def _unexpected(error: BaseException) -> list[BaseException]:
    """Return the errors of clients, except that their runner is closed or that the store is unavailable."""
    return [each for each in _leaves(error) if not isinstance(each, RunnerClosed | StoreUnavailable)]


def _left_over(runner: AsyncRunner, counters: LocalCounters) -> list[str]:
    """Return descriptions of what an idle runner still holds."""
    dispatcher = runner._runtime.dispatcher  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    used = [key for key, state in counters.states().items() if isinstance(state, UseState) and state.used]
    problems = [f"places of {key} are still taken" for key in used]
    if dispatcher.is_busy:
        problems.append("attempts are in flight when every run is idle")
    for name, queue in dispatcher.queues.items():
        if queue.places_used:
            problems.append(f"{queue.places_used} places of executor {name!r} are taken when every run is idle")
    registry = runner._runtime.registry  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    counted = sum(worker.values.bytes for worker in (*registry, *registry.recent) if worker.values is not None)
    if dispatcher.residency.bytes != counted:
        problems.append(f"{dispatcher.residency.bytes} bytes of values are counted, and the runs have {counted}")
    return problems

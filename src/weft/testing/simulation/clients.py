"""
The clients of a simulated runner: they start runs, send inputs, cancel, change policies, finish runs, and wait.

A client of a process that has died, or was closed, comes back in the next one, and continues with what was not
acknowledged.  If a runner was closed without reporting unwritten events, everything that its clients were told counts
as acknowledged, whatever the strategy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from random import Random
from typing import Any, TypeVar

from weft.core.run.run import Run
from weft.errors import RunClosed, RunExists, RunnerClosed, RunNotFound, RunNotHeld, RunParked, StoreClosed
from weft.policy.policy import Policy
from weft.runner import AsyncRunner
from weft.testing.simulation.attempt_log import AttemptLog
from weft.testing.simulation.callers import Callers
from weft.testing.simulation.children import doomed, family
from weft.testing.simulation.outcomes import REACHED, OutcomeChecks
from weft.testing.simulation.scenario import TIGHT, Scenario, Trial
from weft.testing.wrapping import FullStore

T = TypeVar("T")

_PATIENCE = 1_000
"""How many seconds, at most, it takes to finish cancelling a family of runs."""


class Clients:
    """The clients of all runs, and their knowledge, which outlives the processes."""

    def __init__(
        self,
        dice: Random,
        trial: Trial,
        scenario: Scenario,
        attempts: AttemptLog,
        tell: Callable[[str], None],
        interrupt: Callable[[], None],
    ) -> None:
        self._dice, self._trial, self._scenario, self._workflow = dice, trial, scenario, trial.workflow
        self._attempts, self._tell, self._interrupt = attempts, tell, interrupt
        self._callers = Callers(dice, trial, scenario, tell)
        self.close = self._callers.close
        self.problems: list[str] = []
        self._begun: set[str] = set()
        """The runs whose creation was acknowledged."""
        self._taken: set[tuple[str, int]] = set()
        """The inputs that were acknowledged for good."""
        self._told_so: set[tuple[str, int]] = set()
        """The inputs of this process that a runner has accepted, and may not have written yet."""
        self._ended: set[str] = set()
        """The runs that were told to finish, which was acknowledged for good."""
        self._ended_so: set[str] = set()
        """The runs of this process that were told to finish, which may not be written yet."""
        self._closing: set[str] = set()
        """The runs that a client has tried to finish."""
        self._restarted: set[str] = set()
        self.outcomes = OutcomeChecks()
        self._unwanted: set[str] = set()
        """The runs that a client has tried to cancel."""
        self._told: dict[str, Run] = {}
        """The run with which on_complete was last called, by id."""

    async def use(self, runner: AsyncRunner, store: FullStore) -> None:
        """Do everything that can be done in this process, with runs in *store*."""
        self._told_so.clear()
        self._ended_so.clear()
        if self._scenario.resumes_all:
            await self._callers.made(lambda: runner.resume_all(**self._options()))
        if self._scenario.ends == "input" and self._scenario.starts_together:
            await asyncio.gather(*(self._begin_together(runner) for _ in range(1 + self._scenario.is_wanted_twice)))
        async with asyncio.TaskGroup() as clients:
            for run in self._scenario.runs:
                clients.create_task(self._client(runner, store, run), name=f"the client of {run}")
        if self._trial.children:
            await self._finish(runner, store)

    def closed(self) -> None:
        """Note that the runner of this process was closed, and reported that everything is written."""
        self._taken |= self._told_so
        self._ended |= self._ended_so

    def deleted(self, run: str) -> None:
        """Note that a run was deleted: of one that has its id later nothing was told yet."""
        self._told.pop(run, None)

    def unnoticed(self, run: str) -> list[str]:
        """Return what is wrong with the calls of on_complete for *run*."""
        if not self._scenario.notices or run in self._attempts.cancelled:
            return []
        seen, inputs = self._told.get(run), len(self._trial.inputs)
        if seen is None:
            return [f"{run}: on_complete was never called"]
        if seen.memory.received != inputs:
            return [f"{run}: on_complete last saw {seen.memory.received} of {inputs} inputs"]
        return []

    def _options(self) -> dict[str, Any]:
        if not self._scenario.notices:
            return {}

        async def on_complete(run: str, seen: Run) -> None:
            self._tell(f"on_complete of {run}")
            await asyncio.sleep(self._dice.choice((0.0, 0.3)))
            self._told[run] = seen

        return {"on_complete": on_complete}

    def _may_have_finished(self, run: str) -> bool:
        """Return whether a run may refuse to be changed, since it finishes or has been told to."""
        return self._scenario.ends == "input" or run in self._closing

    # -- one client ------------------------------------------------------------------------------

    async def _client(self, runner: AsyncRunner, store: FullStore, run: str) -> None:
        """Start or resume a run, send its inputs, and wait for their results."""
        if run in self._attempts.cancelled:
            return
        await asyncio.gather(*(self._begin(runner, run) for _ in range(1 + self._scenario.is_wanted_twice)))
        try:
            for number, value in enumerate(self._trial.inputs):
                if self._scenario.is_patient:
                    await self._idle(runner, run)
                if (run, number) not in self._taken:
                    await self._give(runner, store, run, number, value)
                elif self._scenario.ends == "input":
                    await self._disturb(runner, store, run, number, value)
            if self._scenario.ends == "told":
                await self._end(runner, run)
        except RunClosed:
            if run not in self._unwanted:
                raise
        is_unwanted = run in self._unwanted and run not in self._attempts.cancelled
        if is_unwanted and await runner.status(run) == "cancelled":
            await self._gone(runner, store, run)
            await self._cancelled(store, run)
        if run not in self._attempts.cancelled:
            await self._wait(runner, store, run)
        if run not in self._attempts.cancelled:
            await self._restart(runner, store, run)

    async def _begin(self, runner: AsyncRunner, run: str) -> None:
        scenario = self._scenario
        if run in self._begun:
            await self._callers.made(lambda: runner.resume(run, workflow=self._workflow, **self._options()))
        elif scenario.starts_whole or scenario.ends == "input":
            options, is_open = self._first_options(), scenario.ends != "input"
            await self._callers.made(
                lambda: runner.start(self._workflow, self._trial.inputs[0], id=run, open=is_open, **options)
            )
            self._taken.add((run, 0))
        else:
            try:
                await self._callers.made(
                    lambda: runner.start(self._workflow, id=run, if_exists="error", **self._options())
                )
            except RunExists:
                await self._callers.made(lambda: runner.resume(run, workflow=self._workflow, **self._options()))
        self._begun.add(run)
        self._tell(f"{run} has begun")

    async def _begin_together(self, runner: AsyncRunner) -> None:
        """Start all runs with their first input in one call; those of another life are found."""
        runs = [run for run in self._scenario.runs if run not in self._attempts.cancelled]
        inputs, options = [self._trial.inputs[0]] * len(runs), self._first_options()
        await self._callers.made(lambda: runner.start_many(self._workflow, inputs, ids=runs, **options))
        self._taken |= {(run, 0) for run in runs}
        self._begun |= {*runs}
        self._tell(f"{', '.join(runs)} have begun together")

    def _first_options(self) -> dict[str, Any]:
        """Return the options of a run that is started with its first input."""
        deadline = self._scenario.deadline
        return self._options() if deadline is None else {**self._options(), "deadline": deadline}

    async def _give(self, runner: AsyncRunner, store: FullStore, run: str, number: int, value: Any) -> None:
        """Send a run an input, and perhaps do something else with it."""
        dice, scenario = self._dice, self._scenario
        await asyncio.sleep(dice.choice((0.0, 0.0, 0.1, 2.0)))
        await self._take(runner, run, number, value)
        self._tell(f"input {number} of {run} accepted")
        self._told_so.add((run, number))
        if scenario.strategy.takes_input_first:
            self._taken.add((run, number))
        if dice.random() < scenario.repeats:
            await self._take(runner, run, number, value)
        await self._disturb(runner, store, run, number, value)

    async def _disturb(self, runner: AsyncRunner, store: FullStore, run: str, number: int, value: Any) -> None:
        """Perhaps do something with a run that has an input; one that finishes with it may refuse that by now."""
        dice, scenario = self._dice, self._scenario
        if dice.random() < scenario.checkpoints:
            await self._callers.made(lambda: runner.checkpoint(run))
        if scenario.crowds and dice.random() < scenario.crowds:
            closes = self._may_have_finished(run)
            await self._callers.use(runner, run, number, value, self._options(), may_have_finished=closes)
        if scenario.rules and dice.random() < scenario.rulings:
            await asyncio.sleep(dice.choice((0.0, 0.1, 0.5)))
            with suppress(RunClosed) if self._may_have_finished(run) else nullcontext():
                await runner.set_policies(run, dice.choice((scenario.rules, scenario.others or scenario.rules)))
                self._tell(f"{run} has other policies")
        if dice.random() < scenario.stops:
            await asyncio.sleep(dice.choice((0.0, 0.1, 0.5)))
            await self._stop_and_go(runner, run)
        if dice.random() < scenario.cancels:
            await asyncio.sleep(dice.choice((0.0, 0.1, 0.5)))
            try:
                await self._cancel(runner, store, run)
            except RunClosed as closed:
                if not self._may_have_finished(run) or closed.status == "cancelled":
                    raise
                self._unwanted.discard(run)  # it had finished before
            else:
                await runner.send(run, value)  # it is closed, and reports that

    async def _end(self, runner: AsyncRunner, run: str) -> None:
        """Tell a run to finish, unless that was acknowledged; if a stuck saga prevents that, resolve it first."""
        while run not in self._ended | self._ended_so:
            await asyncio.sleep(self._dice.choice((0.0, 0.0, 0.1, 2.0)))
            self._closing.add(run)
            try:
                await self._callers.made(lambda: runner.finish(run, by="a client"))
            except RunParked:
                await self._idle(runner, run)
                continue
            self._tell(f"{run} is told to finish")
            self._ended_so.add(run)
            if self._scenario.strategy.takes_input_first:
                self._ended.add(run)

    async def _restart(self, runner: AsyncRunner, store: FullStore, run: str) -> None:
        """Perhaps start a run that has finished with its input again, in place of the old one."""
        scenario = self._scenario
        if scenario.ends != "input" or run in self._restarted or self._dice.random() >= scenario.restarts:
            return
        self._restarted.add(run)
        self._begun.discard(run)
        self._taken.discard((run, 0))
        self.outcomes.reopened(run)
        self._tell(f"{run} is started again")
        await runner.start(self._workflow, self._trial.inputs[0], id=run, if_exists="restart", **self._first_options())
        self._begun.add(run)
        self._taken.add((run, 0))
        await self._wait(runner, store, run)

    async def _cancel(self, runner: AsyncRunner, store: FullStore, run: str) -> None:
        """Cancel a run, and check that its children are cancelled when that is acknowledged."""
        self._unwanted.add(run)
        self._interrupt()
        await self._callers.made(lambda: runner.cancel(run, "enough"))
        self._tell(f"{run} cancelled")
        await self._cancelled(store, run)

    async def _cancelled(self, store: FullStore, run: str) -> None:
        """Record that a run is cancelled with its children, and check that all of them are."""
        self._attempts.cancelled.add(run)
        if self._trial.children:
            members = await _seen(family(store, run, self._trial))
            closed = doomed(members, run, is_cancelled=True, with_root=True)
            self._attempts.cancelled |= closed
            for name in sorted(closed & members.keys()):
                if (status := members[name].record.status) != "cancelled":
                    self.problems.append(f"{name} is {status} when {run}, its parent, is reported as cancelled")

    async def _gone(self, runner: AsyncRunner, store: FullStore, run: str) -> None:
        """Wait until a run is cancelled that another process had begun to cancel, or cancel it."""
        if self._dice.random() < 0.5:
            await runner.cancel(run)
        for _ in range(_PATIENCE):
            if (await _seen(store.find(run))).status == "cancelled":
                return
            await asyncio.sleep(1.0)
        self.problems.append(f"{run}: it was cancelled, and the cancelling of its children does not continue")

    async def _take(self, runner: AsyncRunner, run: str, number: int, value: Any) -> None:
        """Send a run an input; if a stuck saga prevents that, resolve it first."""
        while True:
            try:
                await self._callers.made(
                    lambda: runner.send(run, value, key=f"input {number}", deadline=self._scenario.deadline)
                )
            except RunParked:
                if not (await (await runner.get(run)).load()).dead_letters:
                    raise
                await self._idle(runner, run)
            except RunClosed:  # in another life it had the input, and was told to finish
                if run not in self._closing or (await runner.get(run)).memory.received <= number:
                    raise
                return
            else:
                return

    async def _stop_and_go(self, runner: AsyncRunner, run: str) -> None:
        await self._callers.stop(runner, run)
        self._tell(f"{run} stopped")
        await self._callers.made(lambda: runner.resume(run, workflow=self._workflow, **self._options()))
        self._tell(f"{run} continues")

    # -- until nothing is left to do -------------------------------------------------------------

    async def _wait(self, runner: AsyncRunner, store: FullStore, run: str) -> None:
        """Wait until a run is idle, and check that it is."""
        seen = await self._idle(runner, run)
        if self._trial.then is not None:
            self._attempts.reopen(run)
            self.outcomes.reopened(run)
            await self._trial.then(runner, run)
            seen = await self._idle(runner, run)
        if not self._scenario.strategy.at_idle:
            await runner.checkpoint(run)
        await self._leave(runner, run)
        stored = await _seen(store.find(run))
        if stored.head < len(seen.log()):
            self.problems.append(f"{run}: reported with {len(seen.log())} events when only {stored.head} were durable")
        if seen.is_runnable:
            self.problems.append(f"{run}: reported idle with something left to do")
        self._tell(f"{run} is {seen.status} after {len(seen.log())} events")
        if self._scenario.ends != "open":
            if seen.status not in REACHED:
                self.problems.append(f"{run}: reported as {seen.status} when it should have finished")
            await self.outcomes.reported(runner, stored, seen)

    async def _leave(self, runner: AsyncRunner, run: str) -> None:
        """Wait until a run that has finished is not held any more: its status may be written after its events."""
        for _ in range(_PATIENCE if self._scenario.ends != "open" else 0):
            if run not in runner:
                return
            await asyncio.sleep(1.0)

    async def _finish(self, runner: AsyncRunner, store: FullStore) -> None:
        """Wait for child runs, including those of other lives, that no step waits for."""
        if not self._scenario.resumes_all:
            await runner.resume_all(**self._options())
        done: set[str] = set()
        while left := [run for run in runner.held if run not in done]:
            for run in left:
                try:
                    if await runner.status(run) == "cancelled":
                        await self._gone(runner, store, run)
                    elif (await (await runner.wait(run)).load()).is_runnable:
                        self.problems.append(f"{run}: reported idle with something left to do")
                    await runner.checkpoint(run)
                    done.add(run)
                except (RunNotFound, RunNotHeld):  # it existed before, and is just being loaded
                    await asyncio.sleep(0.1)

    async def _idle(self, runner: AsyncRunner, run: str) -> Run:
        """Wait until a run has nothing left to do and no dead letters that could be repaired."""
        while True:
            try:
                seen = await self._callers.made(lambda: runner.wait(run))
                await seen.load()
            except RunParked:
                seen = await (await runner.get(run)).load()
                if not seen.dead_letters:
                    raise
            letters = [letter for letter in seen.dead_letters if letter.component in self._trial.repairable]
            if not letters:
                return seen
            await self._settle(runner, seen, letters)

    async def _settle(self, runner: AsyncRunner, seen: Run, letters: list[Any]) -> None:
        """Retry or discard one of the dead letters."""
        letter, run = self._dice.choice(letters), seen.id
        self._attempts.reopen(run)
        self.outcomes.reopened(run)
        if self._scenario.deadline == TIGHT or self._dice.random() < self._scenario.discards:
            await runner.discard(run, letter)
            self._tell(f"{run} discards {letter.component}{letter.inputs}")
            return
        self._attempts.mend(run, letter.component, letter.inputs)
        policy = self._dice.choice((None, Policy(max_retries=self._scenario.retries)))
        amend = self._trial.amends.get(letter.component)
        if amend is None or self._dice.random() >= self._scenario.amends:
            await runner.retry(run, letter, policy=policy)
            self._tell(f"{run} tries {letter.component}{letter.inputs} again")
            return
        given = amend(seen.memory.lineage.fact(letter.inputs[0]).value)
        await runner.retry(run, letter, policy=policy, input=given)
        if self._scenario.strategy.takes_input_first:
            self._attempts.amended[run] += 1
        self._tell(f"{run} tries {letter.component}{letter.inputs} again with {given}")


async def _seen(look: Awaitable[T]) -> T:
    """Return the records in the store itself, which is closed with its runner."""
    try:
        return await look
    except StoreClosed:
        raise RunnerClosed from None

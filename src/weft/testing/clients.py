"""
What those do who use a simulated runner: start runs, give them inputs, change their minds, and wait.

A client of a process that has died comes again in the next one, and goes on with what was not acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from weft.core.run import Run
from weft.errors import RunClosed, RunParked, WorkflowAlreadyStarted, WorkflowNotFound
from weft.policy.policy import Policy
from weft.runner import AsyncRunner
from weft.testing.kin import doomed, family
from weft.testing.plot import TIGHT, Plot, Trial
from weft.testing.witness import Witness
from weft.testing.wrapping import FullStore

_PATIENCE = 1_000
"""How many seconds it takes at most to cancel a family that somebody has begun to cancel."""


class Clients:
    """The clients of all runs, and what they know: it outlives the processes."""

    def __init__(
        self,
        dice: Random,
        trial: Trial,
        plot: Plot,
        witness: Witness,
        tell: Callable[[str], None],
        interrupt: Callable[[], None],
    ) -> None:
        self._dice, self._trial, self._plot, self._workflow = dice, trial, plot, trial.workflow
        self._witness, self._tell, self._interrupt = witness, tell, interrupt
        self.problems: list[str] = []
        self._begun: set[str] = set()
        """The runs whose creation was acknowledged."""
        self._taken: set[tuple[str, int]] = set()
        """The inputs that were acknowledged for good."""
        self._unwanted: set[str] = set()
        """The runs that somebody has tried to cancel."""
        self._told: dict[str, Run] = {}
        """What on_complete was last called with, by run."""

    async def use(self, runner: AsyncRunner, store: FullStore) -> None:
        """Have everything done in this process; *store* is where it ends up."""
        if self._plot.resumes_all:
            await runner.resume_all(**self._options())
        async with asyncio.TaskGroup() as clients:
            for run in self._plot.runs:
                clients.create_task(self._client(runner, store, run), name=f"the client of {run}")
        if self._trial.kin:
            await self._see_off(runner, store)

    def unnoticed(self, run: str) -> list[str]:
        """Return what on_complete should have told of *run* and has not."""
        if not self._plot.notices or run in self._witness.cancelled:
            return []
        seen, inputs = self._told.get(run), len(self._trial.inputs)
        if seen is None:
            return [f"{run}: on_complete was never called"]
        if seen.memory.received != inputs:
            return [f"{run}: on_complete last saw {seen.memory.received} of {inputs} inputs"]
        return []

    def _options(self) -> dict[str, Any]:
        if not self._plot.notices:
            return {}

        async def on_complete(run: str, seen: Run) -> None:
            self._tell(f"on_complete of {run}")
            await asyncio.sleep(self._dice.choice((0.0, 0.3)))
            self._told[run] = seen

        return {"on_complete": on_complete}

    # -- one client ------------------------------------------------------------------------------

    async def _client(self, runner: AsyncRunner, store: FullStore, run: str) -> None:
        """Start or resume a run, give it its inputs, and wait for what comes of them."""
        if run in self._witness.cancelled:
            return
        await asyncio.gather(*(self._begin(runner, run) for _ in range(1 + self._plot.is_wanted_twice)))
        try:
            for number, value in enumerate(self._trial.inputs):
                if self._plot.is_patient:
                    await self._idle(runner, run)
                if (run, number) not in self._taken:
                    await self._give(runner, store, run, number, value)
        except RunClosed:
            if run not in self._unwanted:
                raise
        is_unwanted = run in self._unwanted and run not in self._witness.cancelled
        if is_unwanted and await runner.status(run) == "cancelled":
            await self._gone(runner, store, run)
            await self._cancelled(store, run)
        if run not in self._witness.cancelled:
            await self._wait(runner, store, run)

    async def _begin(self, runner: AsyncRunner, run: str) -> None:
        plot = self._plot
        if run in self._begun:
            await runner.resume(run, workflow=self._workflow, **self._options())
        elif plot.starts_whole:
            options = self._options() if plot.deadline is None else {**self._options(), "deadline": plot.deadline}
            await runner.start(self._workflow, self._trial.inputs[0], id=run, **options)
            self._taken.add((run, 0))
        else:
            try:
                await runner.start_workflow(run, self._workflow, **self._options())
            except WorkflowAlreadyStarted:
                await runner.resume(run, workflow=self._workflow, **self._options())
        self._begun.add(run)
        self._tell(f"{run} has begun")

    async def _give(self, runner: AsyncRunner, store: FullStore, run: str, number: int, value: Any) -> None:
        """Give a run an input, and perhaps something else to do."""
        dice, plot = self._dice, self._plot
        await asyncio.sleep(dice.choice((0.0, 0.0, 0.1, 2.0)))
        await self._take(runner, run, number, value)
        self._tell(f"input {number} of {run} taken")
        if plot.strategy.takes_input_first:
            self._taken.add((run, number))
        if dice.random() < plot.repeats:
            await self._take(runner, run, number, value)
        if dice.random() < plot.checkpoints:
            await runner.checkpoint(run)
        if plot.rules and dice.random() < plot.rulings:
            await asyncio.sleep(dice.choice((0.0, 0.1, 0.5)))
            await runner.set_policies(run, dice.choice((plot.rules, plot.others or plot.rules)))
            self._tell(f"{run} has other policies")
        if dice.random() < plot.stops:
            await asyncio.sleep(dice.choice((0.0, 0.1, 0.5)))
            await self._stop_and_go(runner, run)
        if dice.random() < plot.cancels:
            await asyncio.sleep(dice.choice((0.0, 0.1, 0.5)))
            await self._cancel(runner, store, run)
            await runner.run(run, value)  # it is closed, and says so

    async def _cancel(self, runner: AsyncRunner, store: FullStore, run: str) -> None:
        """Cancel a run, and see that all who go with it are cancelled when that is acknowledged."""
        self._unwanted.add(run)
        self._interrupt()
        await runner.cancel(run, "enough")
        self._tell(f"{run} cancelled")
        await self._cancelled(store, run)

    async def _cancelled(self, store: FullStore, run: str) -> None:
        """Keep in mind that a run is cancelled, and who goes with it; see that all of them are."""
        self._witness.cancelled.add(run)
        if self._trial.kin:
            members = await family(store, run, self._trial)
            closed = doomed(members, run, is_cancelled=True, with_root=True)
            self._witness.cancelled |= closed
            for name in sorted(closed & members.keys()):
                if (status := members[name].record.status) != "cancelled":
                    self.problems.append(f"{name} is {status} when {run}, with which it goes, is said to be cancelled")

    async def _gone(self, runner: AsyncRunner, store: FullStore, run: str) -> None:
        """Wait until a run is cancelled that another process had begun to cancel, or see to it."""
        if self._dice.random() < 0.5:
            await runner.cancel(run)
        for _ in range(_PATIENCE):
            if (await store.find(run)).status == "cancelled":
                return
            await asyncio.sleep(1.0)
        self.problems.append(f"{run}: it was cancelled, and nobody goes on with cancelling those who go with it")

    async def _take(self, runner: AsyncRunner, run: str, number: int, value: Any) -> None:
        """Give a run an input; if a saga keeps it from taking any, see to that first."""
        while True:
            try:
                await runner.run(run, value, key=f"input {number}", deadline=self._plot.deadline)
            except RunParked:
                if not (await runner.get_workflow(run)).dead_letters:
                    raise
                await self._idle(runner, run)
            else:
                return

    async def _stop_and_go(self, runner: AsyncRunner, run: str) -> None:
        await runner.stop(run)
        self._tell(f"{run} stopped")
        await runner.resume(run, workflow=self._workflow, **self._options())
        self._tell(f"{run} goes on")

    # -- until nothing is left to do -------------------------------------------------------------

    async def _wait(self, runner: AsyncRunner, store: FullStore, run: str) -> None:
        """Wait until a run is idle, and see whether that is so."""
        seen = await self._idle(runner, run)
        if self._trial.then is not None:
            await self._trial.then(runner, run)
            seen = await self._idle(runner, run)
        if not self._plot.strategy.at_idle:
            await runner.checkpoint(run)
        stored = await store.find(run)
        if stored.head < len(seen.log()):
            self.problems.append(f"{run}: reported with {len(seen.log())} events when only {stored.head} were durable")
        if seen.is_runnable:
            self.problems.append(f"{run}: reported idle with something left to do")
        self._tell(f"{run} is idle after {len(seen.log())} events")

    async def _see_off(self, runner: AsyncRunner, store: FullStore) -> None:
        """Wait for what the runs have started, also in another life, and nobody else waits for."""
        if not self._plot.resumes_all:
            await runner.resume_all(**self._options())
        done: set[str] = set()
        while left := [run for run in await runner.list_workflows() if run not in done]:
            for run in left:
                try:
                    if await runner.status(run) == "cancelled":
                        await self._gone(runner, store, run)
                    elif (await runner.wait(run)).is_runnable:
                        self.problems.append(f"{run}: reported idle with something left to do")
                    await runner.checkpoint(run)
                    done.add(run)
                except WorkflowNotFound:  # it was there before, and is just being brought back
                    await asyncio.sleep(0.1)

    async def _idle(self, runner: AsyncRunner, run: str) -> Run:
        """Wait until a run has nothing left to do and no dead letters that could be mended."""
        while True:
            try:
                seen = await runner.wait(run)
            except RunParked:
                seen = await runner.get_workflow(run)
                if not seen.dead_letters:
                    raise
            letters = [letter for letter in seen.dead_letters if letter.component in self._trial.mendable]
            if not letters:
                return seen
            await self._settle(runner, seen, letters)

    async def _settle(self, runner: AsyncRunner, seen: Run, letters: list[Any]) -> None:
        """Give one of the dead letters another chance, or up."""
        letter, run = self._dice.choice(letters), seen.id
        if self._plot.deadline == TIGHT or self._dice.random() < self._plot.discards:
            await runner.discard(run, letter)
            self._tell(f"{run} gives {letter.component}{letter.inputs} up")
            return
        self._witness.mend(run)
        policy = self._dice.choice((None, Policy(max_retries=self._plot.retries)))
        amend = self._trial.amends.get(letter.component)
        if amend is None or self._dice.random() >= self._plot.amends:
            await runner.retry(run, letter, policy=policy)
            self._tell(f"{run} tries {letter.component}{letter.inputs} again")
            return
        given = amend(seen.memory.lineage.fact(letter.inputs[0]).value)
        await runner.retry(run, letter, policy=policy, input=given)
        if self._plot.strategy.takes_input_first:
            self._witness.amended[run] += 1
        self._tell(f"{run} tries {letter.component}{letter.inputs} again with {given}")

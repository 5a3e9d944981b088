"""
The clients of a simulated runner: they start runs, send inputs, cancel, change policies, finish runs, and wait.

A client of a process that has died, or was closed, comes back in the next one, and continues with what was not
acknowledged.  If a runner was closed without reporting unwritten events, everything that its clients got
an answer for counts as acknowledged, whatever the strategy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext, suppress
from functools import partial
from random import Random
from typing import Any, TypeVar

from weft.core.run.run import Run
from weft.errors import (
    RunClosed,
    RunExists,
    RunnerClosed,
    RunNotFound,
    RunNotHeld,
    RunParked,
    StoreClosed,
    Stuck,
    WaitTimeout,
)
from weft.policy.policy import Policy
from weft.ports.store import FINISHED
from weft.runner import AsyncRunner
from weft.testing.simulation.attempt_log import AttemptLog
from weft.testing.simulation.callers import PATIENCE, Callers
from weft.testing.simulation.children import doomed, family
from weft.testing.simulation.committed import Removed
from weft.testing.simulation.message_ledger import Accepted, Kind, MessageLedger
from weft.testing.simulation.outcomes import REACHED, OutcomeChecks
from weft.testing.simulation.scenario import TIGHT, Scenario, Signal, Trial
from weft.testing.simulation.shortening import Shortening
from weft.testing.wrapping import FullStore

T = TypeVar("T")

_PATIENCE = 1_000
"""How many seconds, at most, it takes to finish cancelling a family of runs."""
_A_MOMENT = 1e-3
"""Seconds: a store that is asked again whether it has created a run tells runs with one id apart by their time."""
_ROUNDS = 50
"""How often a client sends the signals that end a run, before it says that they do not."""


class Clients:
    """The clients of all runs, and their knowledge, which outlives the processes."""

    def __init__(
        self,
        dice: Random,
        trial: Trial,
        scenario: Scenario,
        attempts: AttemptLog,
        messages: MessageLedger,
        tell: Callable[[str], None],
        interrupt: Callable[[], None],
        removed: Mapping[str, Removed],
    ) -> None:
        self._dice, self._trial, self._scenario, self._workflow = dice, trial, scenario, trial.workflow
        self._attempts, self._messages, self._tell, self._interrupt = attempts, messages, tell, interrupt
        self._removed = removed
        self._other: AsyncRunner | None = None
        """A runner that holds no run, so that its calls go through their inboxes."""
        self._posted: set[str] = set()
        """The runs that have had an input or an end through their inbox in this life: others would overtake it."""
        self._signalled: set[tuple[str, str]] = set()
        """The signals of this process that a runner has accepted, and may not have written yet: run and key."""
        self._callers = Callers(dice, trial, scenario, tell)
        self.close = self._callers.close
        self._shortening = Shortening(dice, scenario, self._callers, tell)
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

    async def use(self, runner: AsyncRunner, other: AsyncRunner | None, store: FullStore) -> None:
        """Do everything that can be done in this process, with runs in *store*, which *other* does not hold."""
        self._other = other
        self._posted.clear()
        self._signalled.clear()
        self._told_so.clear()
        self._ended_so.clear()
        if self._scenario.resumes_all:
            await self._callers.made(lambda: runner.resume_all(**self._options()))
        if self._scenario.ends == "input" and self._scenario.starts_together:
            await asyncio.gather(*(self._begin_together(runner, number * _A_MOMENT) for number in self._callings))
        async with asyncio.TaskGroup() as clients:
            for run in self._scenario.runs:
                clients.create_task(self._client(runner, store, run), name=f"the client of {run}")
        if self._trial.children:
            await self._finish(runner, store)

    def closed(self) -> None:
        """Note that the runner of this process was closed, and reported that everything is written."""
        self._taken |= self._told_so
        self._ended |= self._ended_so
        for run, key in self._signalled:
            self._accepted(run, "signal", key, is_remote=False)

    def deleted(self, run: str) -> None:
        """Note that a run was deleted, so that nothing is known yet of a later run of its id."""
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

    @property
    def _callings(self) -> range:
        """The calls that start a run: two of them are a moment apart."""
        return range(1 + self._scenario.is_wanted_twice)

    def _may_have_finished(self, run: str) -> bool:
        """Return whether a run may refuse to be changed, since it finishes or has been told to."""
        return self._scenario.ends == "input" or run in self._closing

    # -- one client ------------------------------------------------------------------------------

    async def _client(self, runner: AsyncRunner, store: FullStore, run: str) -> None:
        """Start or resume a run, send its inputs, and wait for their results."""
        if run in self._attempts.cancelled:
            return
        async with asyncio.TaskGroup() as both:
            signalling = both.create_task(self._signal_all(runner, run), name=f"the one that signals {run}")
            both.create_task(self._live(runner, store, run, signalling), name=f"the client of {run}")

    async def _live(self, runner: AsyncRunner, store: FullStore, run: str, signalling: asyncio.Task[None]) -> None:
        """Start or resume a run, send its inputs, and wait for their results, once it was signalled everything."""
        await asyncio.gather(*(self._begin(runner, run, number * _A_MOMENT) for number in self._callings))
        await self._unpark(runner, run)
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
        while not signalling.done():
            await asyncio.wait([signalling], timeout=5.0)
            if await runner.status(run) == "parked":  # then it takes no signal
                await self._idle(runner, run)
        is_unwanted = run in self._unwanted and run not in self._attempts.cancelled
        if is_unwanted and await runner.status(run) == "cancelled":
            await self._gone(runner, store, run)
            await self._cancelled(store, run)
        if run not in self._attempts.cancelled:
            await self._wait(runner, store, run)
        if run not in self._attempts.cancelled:
            await self._restart(runner, store, run)

    # -- messages --------------------------------------------------------------------------------

    def _via(self, runner: AsyncRunner, run: str = "") -> AsyncRunner:
        """
        Return the runner that a client uses: the one that holds the run, or another one.

        If *run* is given and has had a message through its inbox, it is the other one, so that nothing is overtaken.
        """
        other = self._other
        if run and not self._scenario.strategy.takes_input_first:
            return runner  # a crash may lose the call to the runner, and not the later one in the inbox
        if other is None or not (run in self._posted or self._dice.random() < self._scenario.remote):
            return runner
        return other

    def _accepted(self, run: str, kind: Kind, tag: str, *, is_remote: bool) -> None:
        sender = "the one that signals" if kind == "signal" else "the client"
        self._messages.accepted(run, Accepted(kind, tag, sender, is_remote))

    async def _signal_all(self, runner: AsyncRunner, run: str) -> None:
        """Send a run the signals of the trial, those that were not accepted for good in another life."""
        for number, signal in enumerate(self._trial.signals):
            key = f"signal {number}"
            if self._messages.is_accepted(run, key):
                continue
            await asyncio.sleep(self._dice.choice((0.0, 0.0, 0.1, 2.0, 40.0)))
            if not await self._signalled_with(runner, run, signal, key):
                return
            if self._dice.random() < self._scenario.repeats:
                await self._signalled_with(runner, run, signal, key)

    async def _signalled_with(
        self, runner: AsyncRunner, run: str, signal: Signal, key: str, most: int = _PATIENCE
    ) -> bool:
        """Send a run a *signal*; return False if it has finished.  One that is parked gets it later."""
        for _ in range(most):
            via = self._via(runner)
            if via is runner:
                self._messages.sends_directly(run, key)
            try:
                await self._callers.made(partial(via.signal, run, signal.name, signal.value, key=key))
            except (RunNotFound, RunParked):
                if run in self._attempts.cancelled:
                    return False
                await asyncio.sleep(0.3)
                continue
            except RunClosed as closed:
                if not self._may_have_finished(run) and closed.status != "cancelled":
                    raise
                return False
            self._tell(f"{run} is signalled {signal.name}, {key}{' through its inbox' * (via is not runner)}")
            if via is not runner or self._scenario.strategy.takes_input_first:
                self._accepted(run, "signal", key, is_remote=via is not runner)
            self._signalled.add((run, key))
            return True
        if most > 1:
            self.problems.append(f"{run}: it could not be signalled {signal.name!r}")
        return False

    async def _let_wait(self, runner: AsyncRunner, run: str) -> None:
        """Let a run wait, and be evicted meanwhile, until it does not wait any more; signal it what ends its waits."""
        rounds = 0
        while rounds < _ROUNDS:
            if await runner.status(run) != "waiting":
                return
            await asyncio.sleep(self._dice.choice((0.1, 5.0, 100.0)))
            seen = await runner.get(run)
            if seen.memory.waiting and all(each.due is None for each in seen.memory.waiting.values()):
                rounds += 1
                for place, signal in enumerate(self._trial.ending_signals):
                    key = f"end {self._attempts.life}.{rounds}.{place}"
                    await self._signalled_with(runner, run, signal, key, most=1)
        raise Stuck(f"{run} still waits, and was signalled everything that it waits for")

    # --------------------------------------------------------------------------------------------

    async def _begin(self, runner: AsyncRunner, run: str, after: float) -> None:
        await asyncio.sleep(after)
        scenario = self._scenario
        if run in self._begun:
            if await self._is_poison(runner, run):
                self._resumes_by_hand(run)
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

    async def _unpark(self, runner: AsyncRunner, run: str) -> None:
        """Resume a run by hand that is parked since its owners have died."""
        if await self._is_poison(runner, run):
            self._resumes_by_hand(run)
            await self._callers.made(lambda: runner.resume(run, workflow=self._workflow, **self._options()))

    def _resumes_by_hand(self, run: str) -> None:
        self._attempts.resumed_by_hand(run)
        self._tell(f"{run} is parked, and resumed by hand")

    async def _is_poison(self, runner: AsyncRunner, run: str) -> bool:
        """Return whether a run is parked, and not because of a saga that cannot be undone."""
        return await runner.status(run) == "parked" and not (await runner.get(run)).dead_letters

    async def _begin_together(self, runner: AsyncRunner, after: float) -> None:
        """Start all runs with their first input in one call, *after* seconds; those of another life are found."""
        await asyncio.sleep(after)
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
        is_crowded = scenario.crowds and dice.random() < scenario.crowds
        if (
            is_crowded and run not in self._posted
        ):  # else the run may not have read its first input, by which it is known
            closes = self._may_have_finished(run)
            await self._callers.use(runner, run, number, value, self._options(), may_have_finished=closes)
        if scenario.rules and dice.random() < scenario.rulings:
            await asyncio.sleep(dice.choice((0.0, 0.1, 0.5)))
            with suppress(RunClosed) if self._may_have_finished(run) else nullcontext():
                via, tag = self._via(runner), self._messages.new_tag()
                rules = dice.choice((scenario.rules, scenario.others or scenario.rules))
                await via.set_policies(run, rules, by=tag)
                if via is not runner or scenario.strategy.takes_input_first:
                    self._accepted(run, "policies", tag, is_remote=via is not runner)
                self._tell(f"{run} has other policies")
        await self._shortening.perhaps(runner, run)
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
            via, tag = self._via(runner, run), self._messages.new_tag()
            try:
                await self._callers.made(partial(via.finish, run, by=tag))
            except RunParked:
                await self._idle(runner, run)
                continue
            self._tell(f"{run} is told to finish")
            self._ended_so.add(run)
            if via is not runner or self._scenario.strategy.takes_input_first:
                self._ended.add(run)
                self._accepted(run, "finish", tag, is_remote=via is not runner)

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
        await asyncio.sleep(_A_MOMENT)
        await runner.start(self._workflow, self._trial.inputs[0], id=run, if_exists="restart", **self._first_options())
        self._begun.add(run)
        self._taken.add((run, 0))
        await self._wait(runner, store, run)

    async def _cancel(self, runner: AsyncRunner, store: FullStore, run: str) -> None:
        """Cancel a run, and check that its children are cancelled when that is acknowledged."""
        self._unwanted.add(run)
        self._interrupt()
        via, tag = self._via(runner), self._messages.new_tag()
        await self._callers.made(lambda: via.cancel(run, "enough", by=tag))
        if via is not runner:
            self._accepted(run, "cancel", tag, is_remote=True)
        else:
            self._attempts.undoing.add(run)
        if await self._reaches_its_end(runner, store, run):
            self._tell(f"{run} cancelled")
            await self._cancelled(store, run)

    async def _reaches_its_end(self, runner: AsyncRunner, store: FullStore, run: str) -> bool:
        """
        Wait until a run is cancelled that was told to be, and undone; what is stuck is tried again.

        Return False if it has nothing left to do and is not stored as finished: until it is, it can be cancelled.

        Raises:
            RunClosed: it has finished before.
        """
        for _ in range(_PATIENCE):
            stored = await _seen(store.find(run))
            if stored.status == "cancelled":
                return True
            if stored.status in FINISHED:
                raise RunClosed(run, status=stored.status)
            if await runner.status(run) in FINISHED - {"cancelled"}:
                return False
            if run not in runner:  # another client has stopped it
                await runner.resume(run, workflow=self._workflow, **self._options())
            elif stored.status == "parked" and run in self._attempts.undoing:
                await runner.retry(run)
            await asyncio.sleep(1.0)
        self.problems.append(f"{run}: it was told to be cancelled, and is not")
        return False

    async def _cancelled(self, store: FullStore, run: str) -> None:
        """Record that a run is cancelled with its children, and check that all of them are."""
        self._attempts.cancelled.add(run)
        if self._trial.children:
            members = await _seen(family(store, run, self._trial, self._removed))
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
                via = self._via(runner, run)
                await self._callers.made(
                    partial(via.send, run, value, key=f"input {number}", deadline=self._scenario.deadline)
                )
                if via is not runner:
                    self._posted.add(run)
                    self._taken.add((run, number))
            except RunParked:
                if not (await _seen((await runner.get(run)).load())).dead_letters:
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
        seen = await self._read_and_idle(runner, store, run)
        if run in self._unwanted and seen.status == "cancelled":  # it had done everything, and was not stored yet
            await self._gone(runner, store, run)
            await self._cancelled(store, run)
            return
        if seen.status in FINISHED:
            self._unwanted.discard(run)
        if self._trial.then is not None:
            self._attempts.reopen(run)
            self.outcomes.reopened(run)
            await self._trial.then(runner, run)
            seen = await self._read_and_idle(runner, store, run)
        if not self._scenario.strategy.at_idle:
            await runner.checkpoint(run)
        await self._shortening.perhaps(runner, run)
        await self._leave(runner, run)
        stored = await _seen(store.find(run))
        length = seen.log()[-1].seq
        if stored.head < length:
            self.problems.append(f"{run}: reported with {length} events when only {stored.head} were durable")
        if seen.is_runnable:
            self.problems.append(f"{run}: reported idle with something left to do")
        self._tell(f"{run} is {seen.status} after {length} events")
        if self._scenario.ends != "open":
            if seen.status not in REACHED:
                self.problems.append(f"{run}: reported as {seen.status} when it should have finished")
            await self.outcomes.reported(runner, stored, seen)

    async def _read_and_idle(self, runner: AsyncRunner, store: FullStore, run: str) -> Run:
        """Wait until a run has read all its messages, or has finished, and has nothing left to do."""
        seen = await self._idle(runner, run)
        for _ in range(_PATIENCE):
            is_over = await runner.status(run) in FINISHED
            if self._other is None or is_over or not await _seen(store.messages([run])):
                return seen if self._other is None else await self._idle(runner, run)
            await asyncio.sleep(1.0)
            seen = await self._idle(runner, run)
        self.problems.append(f"{run}: messages are left in its inbox, and are not read")
        return seen

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
                    elif (await _seen((await runner.wait(run)).load())).is_runnable:
                        self.problems.append(f"{run}: reported idle with something left to do")
                    await runner.checkpoint(run)
                    done.add(run)
                except (RunNotFound, RunNotHeld):  # it existed before, and is just being loaded
                    await asyncio.sleep(0.1)

    async def _idle(self, runner: AsyncRunner, run: str) -> Run:
        """Wait until a run has nothing left to do and no dead letters that could be repaired."""
        while True:
            if self._trial.waits:
                await self._let_wait(runner, run)
            try:
                seen = await self._callers.made(lambda: runner.wait(run, PATIENCE if self._trial.waits else None))
                await _seen(seen.load())
            except WaitTimeout:  # it has begun to wait meanwhile
                if not self._trial.waits:
                    raise
                continue
            except RunParked:
                seen = await _seen((await runner.get(run)).load())
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
    """Return what is read from the store itself, also by a run that was returned: it is closed with its runner."""
    try:
        return await look
    except StoreClosed:
        raise RunnerClosed from None

"""A worker takes in what has ended, in order, also while a listener cancels or stops its run before it returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from eager import Eager
from virtual_time import double, rounds_until, runner_on, stored_log, until_nothing_moves, virtually

from weft import AsyncRunner, Policy, Runnable, Workflow, each, step, telemetry
from weft.core.events import AnyEvent, ReactionOccurred, RunCancelled
from weft.core.run.runnable import Outcome
from weft.policy import Value
from weft.runner.options import WorkerHooks
from weft.stores import MemoryStore
from weft.testing.simulation.executor import SimulatedExecutor

# -- listeners that cancel or stop the run ---------------------------------------------------------


def fail(x: int) -> int:
    raise ValueError(x)


def succeed(x: int) -> int:
    return x


@contextmanager
def listening(event: str, listener: Callable[..., object]) -> Iterator[None]:
    """Send this *event* of all runs to *listener*."""
    telemetry.attach("a test", f"weft.runner.runnable.{event}", listener)
    try:
        yield
    finally:
        telemetry.detach("a test")


class Two:
    """Two steps one after the other; a listener to the first one makes a call before it returns."""

    def __init__(
        self,
        call: Callable[[AsyncRunner], Coroutine[Any, Any, Any]],
        function: Callable[[int], int] = succeed,
        policy: Policy | None = None,
    ) -> None:
        self._call, self._eager = call, Eager()
        rules = [] if policy is None else [("first", policy)]
        following = step(lambda x: x + 1, name="second")
        self.workflow = Workflow("two", step(function, name="first") >> following).with_policies(rules)
        self.store = MemoryStore()

    def listen(self, *_: object) -> None:
        """Make the call at the first notification."""
        if not self._eager.task.done():
            self._eager.start(self._call(self._runner))

    async def run(self, hooks: WorkerHooks | None = None) -> tuple[list[AnyEvent], int]:
        """Return the log when the call has ended, and what another run of the same runner makes of 1."""
        async with runner_on(self.store, lasts=1.0) as self._runner:
            await self._runner.start(self.workflow, id="it", hooks=hooks)
            await self._runner.send("it", 1)
            async with asyncio.timeout(20):
                await (await self._eager.task)
            other = await (await self._runner.start(double, 1)).result()
            return await stored_log(self.store, "it", self.workflow), other


def names(log: list[AnyEvent]) -> list[str]:
    """Return what has happened after the input, by kind."""
    return [type(event).__name__ for event in log[2:]]


MOMENTS = {
    "stop": (succeed, Policy(timeout=50.0)),
    "exception": (fail, Policy(max_retries=1)),
    "retry": (fail, Policy(max_retries=1)),
    "timeout": (succeed, Policy(timeout=0.5)),
    "fallback": (fail, Policy(fallback=lambda *_: Value(7))),
    "skip": (fail, Policy(on_failure="skip")),
}
"""By event of a runnable: a function and a policy that lead to it, where an attempt takes a second."""

BEFORE = {"exception": ["AttemptFailed"], "retry": ["AttemptFailed"], "skip": ["RunnableSkipped"]}
"""By event: what the log says when a listener receives it, if anything."""


@pytest.mark.parametrize("event", MOMENTS)
@virtually
async def test_a_run_that_a_listener_cancels_while_an_outcome_is_taken_in_is_left_at_that(
    event: str, caplog: pytest.LogCaptureFixture
) -> None:
    two = Two(lambda runner: runner.cancel("it", "enough"), *MOMENTS[event])

    with listening(event, two.listen):
        log, other = await two.run()

    assert names(log) == [*BEFORE.get(event, []), "RunCancelled"]
    assert other == 2
    assert caplog.messages == []


STOPPED = {
    "stop": ["ReactionOccurred"],
    "exception": ["AttemptFailed"],
    "retry": ["AttemptFailed"],
    "timeout": ["RunnableFailed"],
    "fallback": ["ReactionOccurred"],
    "skip": ["RunnableSkipped"],
}
"""By event: the log of a run that a listener has stopped when it received that."""


@pytest.mark.parametrize("event", MOMENTS)
@virtually
async def test_a_run_that_a_listener_stops_while_an_outcome_is_taken_in_keeps_it_and_starts_nothing_more(
    event: str, caplog: pytest.LogCaptureFixture
) -> None:
    two = Two(lambda runner: runner.stop("it"), *MOMENTS[event])

    with listening(event, two.listen):
        log, other = await two.run()

    assert names(log) == STOPPED[event]
    assert other == 2
    assert [message for message in caplog.messages if "has failed" not in message] == []


@virtually
async def test_a_run_that_a_hook_cancels_when_a_step_has_failed_is_left_at_that(
    caplog: pytest.LogCaptureFixture,
) -> None:
    two = Two(lambda runner: runner.cancel("it", "enough"), fail)

    log, _ = await two.run(WorkerHooks(on_failed=two.listen))

    assert names(log) == ["RunnableFailed", "RunCancelled"]
    assert [message for message in caplog.messages if "has failed" not in message] == []


@virtually
async def test_of_several_outcomes_in_one_turn_those_after_the_one_that_had_the_run_cancelled_are_dropped() -> None:
    two = Two(lambda runner: runner.cancel("it", "enough"))
    two.workflow = Workflow("both", step(succeed, name="left"), step(succeed, name="right"))

    log, _ = await two.run(WorkerHooks(on_complete=two.listen))

    first, last = log[2:]
    assert isinstance(first, ReactionOccurred)
    assert isinstance(last, RunCancelled)


# -- a stop during a stop --------------------------------------------------------------------------


@virtually
async def test_a_listener_that_stops_a_run_that_is_being_stopped_joins_that(caplog: pytest.LogCaptureFixture) -> None:
    store, eager = MemoryStore(), Eager()
    async with runner_on(store, lasts=1.0) as runner:
        hooks = WorkerHooks(on_complete=lambda *_: eager.start(runner.stop("it")))
        await runner.start(double, 1, id="it", hooks=hooks)
        await until_nothing_moves()

        await runner.stop("it")
        await (await eager.task)

        assert runner.held == []
        assert (await store.find("it")).owner is None
        assert names(await stored_log(store, "it")) == ["ReactionOccurred"]
    assert caplog.messages == []


def many(count: int) -> list[int]:
    """Return a value that takes several rounds of the loop to be encoded."""
    return list(range(count))


@pytest.mark.parametrize("elements", [1, 2])
@virtually
async def test_a_listener_that_stops_a_run_whose_large_results_are_just_encoded_by_a_stop_joins_that(
    elements: int, caplog: pytest.LogCaptureFixture
) -> None:
    store, eager = MemoryStore(), Eager()
    workflow = Workflow("large", each(step(many, name="many")))
    async with runner_on(store) as runner:
        again = [runner.stop]

        def stop_again(runnable: Runnable, _: float) -> None:
            if runnable.component == "many" and again:
                eager.start(again.pop()("it"))

        await runner.start(workflow, [100_000] * elements, id="it", hooks=WorkerHooks(on_complete=stop_again))
        worker = runner._runtime.registry.get("it")
        assert worker is not None
        await rounds_until(lambda: len(list(worker.queue.in_state("encoding"))) == elements)

        await runner.stop("it")
        await (await eager.task)

        assert names(await stored_log(store, "it", workflow)) == ["FannedOut", *["ReactionOccurred"] * elements]
    assert caplog.messages == []


# -- several outcomes in one turn ------------------------------------------------------------------


class InOrder(SimulatedExecutor):
    """Every attempt takes a second, and those that end together are collected in the *order* of these inputs."""

    def __init__(self, order: str) -> None:
        super().__init__(lambda _: 1.0, max_workers=len(order))
        self._order, self._inputs = order, dict[int, str]()

    def submit(self, ticket: int, runnable: Runnable) -> None:
        """Run it, and remember which one it is."""
        self._inputs[ticket] = runnable.args[0]
        super().submit(ticket, runnable)

    def collect(self) -> list[tuple[int, Outcome]]:
        """Return what has ended, in that order."""
        return sorted(super().collect(), key=lambda each: self._order.index(self._inputs[each[0]]))


class Taken:
    """Remembers the inputs whose outcomes were taken in, by turn of the loop."""

    def __init__(self) -> None:
        self.turns: list[str] = []
        self._is_new = True

    def take(self, runnable: Runnable, _: float) -> None:
        """Note it, in the turn that the loop is in."""
        if self._is_new:
            self.turns.append("")
            self._is_new = False
            asyncio.get_running_loop().call_soon(self._end)
        self.turns[-1] += runnable.args[0]

    def _end(self) -> None:
        self._is_new = True


letters = Workflow("letters", each(step(lambda letter: letter, name="letter")))


async def taken_in(order: str, *runs: str) -> list[str]:
    """
    Return, by turn of the loop, in which order outcomes are taken in.

    Args:
        order: in which order the steps end.
        runs: the steps of each run, a letter each.
    """
    taken = Taken()
    executors = {"thread": InOrder(order), "inline": SimulatedExecutor(lambda _: 0.0)}
    hooks = WorkerHooks(on_complete=lambda runnable, _: runnable.component == "letter" and taken.take(runnable, _))
    async with AsyncRunner(MemoryStore(), executors=executors) as runner:
        handles = [await runner.start(letters, list(run), hooks=hooks) for run in runs]
        for handle in handles:
            await handle.wait()
    return taken.turns


@pytest.mark.parametrize("order", ["abc", "cab", "bca"])
@virtually
async def test_outcomes_of_several_runs_that_end_together_are_taken_in_as_they_ended_in_one_turn(order: str) -> None:
    assert await taken_in(order, "a", "b", "c") == [order]


@pytest.mark.parametrize(("order", "taken"), [("aBbA", "abBA"), ("BAba", "BAba"), ("AbBa", "ABba")])
@virtually
async def test_a_run_takes_all_its_outcomes_of_a_turn_before_the_next_run_takes_any(order: str, taken: str) -> None:
    assert await taken_in(order, "ab", "AB") == [taken]

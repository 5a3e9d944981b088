"""Steps without a policy that run in the event loop: no ticket, no detour, and no other run waits for them too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from eager import Eager

from weft import AsyncRunner, Policy, Run, Runner, Workflow, each, step, telemetry
from weft.core.events import RunCancelled
from weft.core.run.runnable import Runnable
from weft.executors import InlineExecutor
from weft.runner import every_n, pipelined
from weft.runner.execution.worker import AT_ONCE
from weft.runner.options import WorkerHooks
from weft.stores import MemoryStore


def chain(length: int, function: Callable[[int], int] = lambda x: x + 1) -> Workflow:
    """Return a workflow of so many steps, one after the other."""
    flow: Any = step(function, name="s0")
    for number in range(1, length):
        flow = flow >> step(function, name=f"s{number}")
    return Workflow("chain", flow)


class Ticketed(InlineExecutor):
    """Notes what was given a ticket."""

    def __init__(self) -> None:
        super().__init__()
        self.tickets: list[int] = []

    def submit(self, ticket: int, runnable: Runnable) -> None:
        """Run it."""
        self.tickets.append(ticket)
        super().submit(ticket, runnable)


def test_a_step_without_a_policy_needs_no_ticket_and_one_with_a_policy_has_one() -> None:
    executor = Ticketed()
    workflow = chain(3).with_policies([("s1", Policy(timeout=60.0))])

    with Runner(executors={"inline": executor}, executor="inline") as runner:
        result = runner.start(workflow, 0).result(20)

    assert (result, len(executor.tickets)) == (3, 1)


class Pace:
    """Counts the steps that run between two turns of the event loop."""

    def __init__(self) -> None:
        self.ran = self.most = 0

    def step(self, x: int) -> int:
        """Be one of them."""
        self.ran += 1
        return x + 1

    async def watch(self, waiting: asyncio.Future[Any]) -> int:
        """Return how many ran between two turns at most, until *waiting* is done."""
        while not waiting.done():
            before = self.ran
            await asyncio.sleep(0)
            self.most = max(self.most, self.ran - before)
        await waiting
        return self.most


MOST = 16 * (AT_ONCE + 16)
"""How many steps of a run may go by, however long it is: at once, and in flight, for a few commits in a row."""


async def most_between_turns(workflow: Workflow, value: Any, pace: Pace, strategy: Any) -> int:
    """Return how many steps of a run of *workflow* ran between two turns of the loop at most."""
    async with AsyncRunner(MemoryStore(), executor="inline") as runner:
        await runner.start(workflow, id="it", checkpoint=strategy)

        async def run_to_its_end() -> None:  # also what runs before the input is acknowledged counts
            await runner.send("it", value)
            await runner.wait("it")

        return await pace.watch(asyncio.ensure_future(run_to_its_end()))


STRATEGIES = ["every_cycle", "on_complete", "manual", every_n(10_000), pipelined(10_000)]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_a_long_run_lets_others_have_the_loop(strategy: Any) -> None:
    pace = Pace()
    workflow = chain(4 * MOST, pace.step)

    most = asyncio.run(most_between_turns(workflow, 0, pace, strategy))

    assert pace.ran == 4 * MOST
    assert most <= MOST


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_a_wide_run_lets_others_have_the_loop(strategy: Any) -> None:
    pace = Pace()
    workflow = Workflow("wide", each(step(pace.step, name="s")))

    most = asyncio.run(most_between_turns(workflow, list(range(4 * MOST)), pace, strategy))

    assert pace.ran == 4 * MOST
    assert most <= MOST


def test_hooks_and_telemetry_hear_of_what_runs_at_once() -> None:
    told: list[tuple[Any, ...]] = []

    def broken(x: int) -> int:
        raise OSError("no")

    def listen(event: str, _: Any, about: Any) -> None:
        told.append((event.rpartition(".")[2], about["component"], about["executor"]))

    hooks = WorkerHooks(
        on_dispatch=lambda runnable: told.append(("dispatch", runnable.component)),
        on_complete=lambda runnable, seconds: told.append(("complete", runnable.component, seconds >= 0)),
        on_failed=lambda runnable, error: told.append(("failed", runnable.component, type(error).__name__)),
    )
    names = [f"weft.runner.runnable.{what}" for what in ("start", "stop", "exception")]
    telemetry.attach("at once", names, listen)
    try:
        with Runner(executor="inline") as runner:
            runner.start(Workflow("w", step(lambda x: x, name="fine") >> step(broken)), 5, hooks=hooks).wait(20)
    finally:
        telemetry.detach("at once")

    assert told == [
        ("dispatch", "fine"),
        ("start", "fine", "inline"),
        ("stop", "fine", "inline"),
        ("complete", "fine", True),
        ("dispatch", "broken"),
        ("start", "broken", "inline"),
        ("exception", "broken", "inline"),
        ("failed", "broken", "OSError"),
    ]


# -- calls about its own run meanwhile ----------------------------------------------------------


PLACES = ["step", "on_dispatch", "on_complete"]


class Two:
    """Two steps, of which the first, or a listener to it, calls its runner before it ends."""

    def __init__(self, place: str, tell: Callable[[AsyncRunner], Coroutine[Any, Any, Any]]) -> None:
        self.ran: list[str] = []
        self.store, self._place, self._tell = MemoryStore(), place, [tell]
        self.workflow = Workflow("two", step(self._first, name="first") >> step(self._second, name="second"))

    def _act(self, *_: object) -> None:
        if self._tell:
            self._eager.start(self._tell.pop()(self._runner))

    def _first(self, x: int) -> int:
        self.ran.append("first")
        if self._place == "step":
            self._act()
        return x + 1

    def _second(self, x: int) -> int:
        self.ran.append("second")
        return x * 2

    async def begin(self, executor: str) -> None:
        """Run until the runner has done everything that was asked of it."""
        self._eager = Eager()
        told: dict[str, Any] = {} if self._place == "step" else {self._place: self._act}
        async with AsyncRunner(self.store, executor=executor) as self._runner:
            hooks = WorkerHooks(**told) if told else None
            await self._runner.start(self.workflow, id="it", hooks=hooks)
            await self._runner.send("it", 1)
            async with asyncio.timeout(20):
                await (await self._eager.task)

    async def resume(self) -> Run:
        """Return the run as it is after it was resumed."""
        async with AsyncRunner(self.store) as runner:
            await runner.resume("it", workflow=self.workflow)
            return await runner.wait("it")


@pytest.mark.parametrize(
    ("place", "executor"),
    [*((place, "inline") for place in PLACES), ("on_dispatch", "thread"), ("on_complete", "thread")],
)
def test_a_worker_whose_run_is_cancelled_in_the_middle_of_a_step_leaves_it_at_that(
    place: str, executor: str, caplog: pytest.LogCaptureFixture
) -> None:
    two = Two(place, lambda runner: runner.cancel("it", "enough"))

    asyncio.run(two.begin(executor))

    run = asyncio.run(two.resume())
    assert two.ran == ([] if place == "on_dispatch" else ["first"])
    assert isinstance(run.log()[-1], RunCancelled)
    assert caplog.messages == []


@pytest.mark.parametrize("place", PLACES)
def test_what_a_step_makes_whose_run_is_stopped_in_the_middle_of_it_is_kept(place: str) -> None:
    two = Two(place, lambda runner: runner.stop("it"))

    asyncio.run(two.begin("inline"))

    before = list(two.ran)
    run = asyncio.run(two.resume())
    assert (before, two.ran, run.output) == (["first"], ["first", "second"], 4)

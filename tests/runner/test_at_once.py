"""Steps without a policy that run in the event loop: no ticket, no detour, and nobody waits for them too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from weft import AsyncRunner, Policy, Runner, Workflow, each, step, telemetry
from weft.core.runnable import Runnable
from weft.executors import InlineExecutor
from weft.runner import every_n, pipelined
from weft.runner.options import WorkerHooks
from weft.runner.worker import AT_ONCE
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
"""How many steps of a run may go by, however long it is: at once, and under way, for a few commits in a row."""


async def most_between_turns(workflow: Workflow, value: Any, pace: Pace, strategy: Any) -> int:
    """Return how many steps of a run of *workflow* ran between two turns of the loop at most."""
    async with AsyncRunner(MemoryStore(), executor="inline") as runner:
        await runner.start_workflow("it", workflow, checkpoint=strategy)
        await runner.run("it", value)
        return await pace.watch(asyncio.ensure_future(runner.wait("it")))


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

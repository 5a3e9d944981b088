"""Policies of runs in a runner, and steps that hang."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from small_flows import Gate, chain, double, increment

from weft import AsyncRunner, Policy, Run, Runner, Workflow, step, telemetry
from weft.core.events import PolicyChanged
from weft.errors import (
    InvalidPolicy,
)
from weft.executors import ThreadExecutor
from weft.policy import DEFAULT
from weft.ports.store import LogStore
from weft.stores import MemoryStore
from weft.testing import TestRunner
from weft.testing.contracts import gate as knocked_at
from weft.testing.contracts.gate import knock

# -- policies ------------------------------------------------------------------------------------


def test_policies_of_a_run_survive_a_resume(store: LogStore) -> None:
    def broken(x: int) -> int:
        raise OSError("always")

    workflow = Workflow("w", step(broken))
    with Runner(store) as runner:
        runner.start(workflow, id="a", policies=[("broken", Policy(max_retries=2))])
        runner.stop("a")
        runner.resume("a", workflow=workflow)
        runner.send("a", 1)
        run = runner.wait("a")

    assert run.failures["broken"].attempts == 3
    assert isinstance(run.log()[1], PolicyChanged)


def test_a_change_of_policies_reaches_a_retry_that_waits() -> None:
    calls: list[int] = []

    def broken(x: int) -> int:
        calls.append(x)
        raise OSError("always")

    patient = Policy(max_retries=9, backoff="linear", base_delay=3600.0, max_delay=36_000.0)
    with TestRunner() as runner:
        runner.start(Workflow("w", step(broken)).with_policies([("broken", patient)]), 1, id="a")
        runner.advance(seconds=1.0)
        assert calls == [1]

        runner.set_policies("a", [("broken", Policy(on_failure="skip"))])
        runner.advance(seconds=3600.0)

        assert runner.wait("a").skipped == ["broken"]
        assert calls == [1, 1], "the time that it waits is that of the retry that was noted"


def test_dead_letters_are_kept_and_retried(store: LogStore) -> None:
    is_up = threading.Event()

    def charge(x: int) -> int:
        if not is_up.is_set():
            raise ConnectionError("down")
        return x * 2

    workflow = Workflow("w", step(charge) >> increment).with_policies([(DEFAULT, Policy(on_failure="dead_letter"))])
    with Runner(store) as runner:
        assert len(runner.start(workflow, 5, id="a").wait().dead_letters) == 1
        runner.stop("a")
        is_up.set()
        runner.resume("a", workflow=workflow)
        runner.retry("a")
        assert runner.wait("a", timeout=20).value("increment") == 11


def test_a_step_that_gives_no_sign_of_life_is_timed_out(runner: Runner) -> None:
    gate = Gate()
    workflow = Workflow("w", step(gate, name="silent")).with_policies([("silent", Policy(heartbeat=0.05))])

    run = runner.start(workflow, 1).wait(20)
    gate.opened.set()

    assert "sent no heartbeat" in str(run.failures["silent"].__cause__)


def test_a_silent_step_in_a_process_is_killed_with_it() -> None:
    workflow = Workflow("w", step(knock, name="silent")).with_policies([("silent", Policy(heartbeat=0.05))])

    async def main() -> Run:
        async with knocked_at.Gate() as gate, AsyncRunner(executor="process", processes=1) as runner:
            run = await (await runner.start(workflow, gate.address)).wait(20)
            await gate.until(lambda: gate.went == gate.came)  # though it was not opened
            return run

    run = asyncio.run(main())

    assert "sent no heartbeat" in str(run.failures["silent"].__cause__)


def test_what_waits_too_long_to_be_started_fails(store: LogStore) -> None:
    gate = Gate()
    late = step(lambda x: x, name="late")
    workflow = Workflow("w", step(gate, name="slow"), late).with_policies([("late", Policy(queue_timeout=0.02))])
    with Runner(store) as runner:
        runner.start(workflow, 1, id="a", max_concurrency=1)
        run = runner.wait_until("a", lambda run: run.failed, timeout=20)
        gate.opened.set()
        runner.wait("a", timeout=20)

    assert "queue_timeout" in str(run.failures["late"])


def test_what_is_ready_at_once_is_started_by_priority(store: LogStore) -> None:
    order: list[str] = []
    gate = Gate()
    steps = [step(lambda x, n=n: order.append(n), name=n) for n in ("low", "high", "middle")]
    rules = [(name, Policy(priority=p)) for name, p in (("low", 1), ("high", 9), ("middle", 5))]
    blocker = Workflow("blocker", step(gate, name="blocks"))
    with Runner(store, threads=1) as runner:
        runner.start(blocker, 1)
        assert gate.begun.wait(20)
        handle = runner.start(Workflow("w", *steps).with_policies(rules), 1)
        runner._do(asyncio.sleep(0))  # the loop has had a turn: all three are in line behind the one that blocks
        gate.opened.set()
        handle.wait(20)

    assert order == ["high", "middle", "low"]


@pytest.mark.parametrize("policy", [Policy(heartbeat=1.0, executor="inline"), Policy(executor="nowhere")])
def test_what_this_runner_cannot_keep_is_refused(runner: Runner, policy: Policy) -> None:
    with pytest.raises(InvalidPolicy):
        runner.start(chain.with_policies([("double", policy)]), 1)


# -- what a policy asks of a runner alone --------------------------------------------------------


@pytest.mark.parametrize("checkpoint", ["manual", "on_complete", "every_cycle"])
def test_what_was_made_is_durable_before_anything_else_starts_where_a_policy_asks_for_it(checkpoint: str) -> None:
    store, heads = MemoryStore(), list[int]()
    look = step(lambda x: heads.append(store._runs["a"].record.head), name="look")
    workflow = Workflow("w", double >> look).with_policies([("double", Policy(checkpoint_after=True))])

    with Runner(store, executor="inline") as runner:
        runner.start(workflow, 1, id="a", checkpoint=checkpoint).wait(20)

    assert heads == [3]


def test_a_policy_says_how_loudly_and_under_which_name_its_component_is_told_of(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Any] = []
    policy = Policy(log_level="warning", telemetry_prefix="shop.payments", metadata={"team": "money"})
    telemetry.attach("told", "weft.runner.runnable.stop", lambda *event: told.append(event))
    try:
        runner.start(Workflow("w", double, increment).with_policies([("double", policy)]), 1, id="a").wait(20)
    finally:
        telemetry.detach("told")

    by_component = {metadata["component"]: metadata for _, _, metadata in told}
    assert (by_component["double"]["prefix"], by_component["double"]["metadata"]) == (
        "shop.payments",
        {"team": "money"},
    )
    assert "prefix" not in by_component["increment"]
    [line] = [record for record in caplog.records if record.name == "shop.payments"]
    assert (line.levelname, line.getMessage()[:28]) == ("WARNING", "double of run 'a' completed ")


# -- steps that hang -----------------------------------------------------------------------------


def test_a_run_waits_while_every_thread_hangs_in_what_others_have_left_there(store: LogStore) -> None:
    gate = Gate()
    hanging = Workflow("hangs", step(gate, name="hangs")).add_policy("hangs", Policy(timeout=0.01))
    with Runner(store, executors={"thread": ThreadExecutor(1, max_left=0)}) as runner:
        assert runner.start(hanging, 1).wait(20).failed
        handle = runner.start(chain, 1, id="innocent")
        runner._do(asyncio.sleep(0))

        waiting = runner.status("innocent")
        gate.opened.set()
        run = handle.wait(20)

    assert (waiting, run.failed, run.value("increment")) == ("running", False, 3)

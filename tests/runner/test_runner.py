"""The embedded runner: starting, feeding, waiting, stopping, resuming; CONFORMANCE I."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from weft import AsyncRunner, Policy, Run, Runner, Saga, Workflow, accumulator, each, reduce, step, telemetry
from weft.core.events import Notified, PolicyChanged
from weft.errors import (
    CorruptLog,
    InvalidOption,
    InvalidPolicy,
    MissingContext,
    NothingProduced,
    RunClosed,
    RunnerClosed,
    RunOwned,
    RunParked,
    StepFailed,
    UnencodableValue,
    UnresolvedFunction,
    WaitTimeout,
    WorkflowAlreadyStarted,
    WorkflowNotFound,
)
from weft.executors import ThreadExecutor
from weft.policy import DEFAULT, Value
from weft.ports.store import LogStore
from weft.runner import WorkerHooks, every_n
from weft.stores import MemoryStore, SQLiteStore
from weft.testing.contracts import gate as knocked_at
from weft.testing.contracts.gate import knock

double = step(lambda x: x * 2, name="double")
increment = step(lambda x: x + 1, name="increment")
chain = Workflow("chain", double >> increment)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LogStore:
    return MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")


@pytest.fixture
def runner(store: LogStore) -> Iterator[Runner]:
    with Runner(store) as opened:
        yield opened


class Gate:
    """A step that says when it has begun, and ends when it is let."""

    def __init__(self) -> None:
        self.begun, self.opened = threading.Event(), threading.Event()
        self.calls: list[Any] = []

    def __call__(self, x: Any) -> Any:
        self.calls.append(x)
        self.begun.set()
        assert self.opened.wait(20)
        return x


# -- the two halves, and the whole ---------------------------------------------------------------


def test_a_run_is_created_fed_and_read(runner: Runner) -> None:
    """CONFORMANCE 87."""
    handle = runner.start_workflow("a", chain)

    runner.run("a", 5)

    assert runner.wait("a").value("increment") == 11
    assert runner.get_results("a") == handle.results() == {"increment": 11}
    assert runner.list_workflows() == ["a"]
    assert runner.stored() == ["a"]


def test_the_whole_is_one_call_and_the_same_id_is_the_same_run(runner: Runner) -> None:
    first = runner.start(chain, 5, id="a")
    second = runner.start(chain, 6, id="a")

    assert (first.result(), second.result()) == (11, 11)
    assert runner.wait("a").values("increment") == [11]


def test_an_id_is_made_up_if_none_is_given(runner: Runner) -> None:
    handles = [runner.start(chain, n) for n in range(3)]

    assert len({handle.id for handle in handles}) == 3
    assert [handle.result() for handle in handles] == [1, 3, 5]


def test_an_id_that_is_taken_is_refused(runner: Runner) -> None:
    runner.start_workflow("a", chain)

    with pytest.raises(WorkflowAlreadyStarted, match="'a'"):
        runner.start_workflow("a", chain)


def test_an_id_that_is_taken_in_the_store_is_refused(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, 5, id="a").wait()

    with Runner(store) as runner:
        with pytest.raises(WorkflowAlreadyStarted):
            runner.start_workflow("a", chain)
        assert runner.list_workflows() == []
        assert runner.start(chain, 6, id="a").result() == 11


@pytest.mark.parametrize(
    "call",
    [
        lambda runner: runner.run("nope", 1),
        lambda runner: runner.wait("nope"),
        lambda runner: runner.result("nope"),
        lambda runner: runner.get_results("nope"),
        lambda runner: runner.get_workflow("nope"),
        lambda runner: runner.log("nope"),
        lambda runner: runner.status("nope"),
        lambda runner: runner.stop("nope"),
        lambda runner: runner.resume("nope"),
        lambda runner: runner.cancel("nope"),
        lambda runner: runner.checkpoint("nope"),
        lambda runner: runner.set_policies("nope", []),
        lambda runner: runner.retry("nope"),
    ],
)
def test_an_unknown_id_is_said_so_everywhere(runner: Runner, call: Callable[[Runner], object]) -> None:
    with pytest.raises(WorkflowNotFound, match="'nope'"):
        call(runner)


def test_a_run_that_is_only_stored_is_said_so(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, 5, id="a").wait()

    with Runner(store) as runner, pytest.raises(WorkflowNotFound, match="resume"):
        runner.run("a", 6)


def test_two_inputs_that_are_given_at_once_are_both_run(runner: Runner) -> None:
    """CONFORMANCE 90."""
    runner.start_workflow("a", chain)

    runner.run("a", 3)
    runner.run("a", 7)

    assert sorted(runner.wait("a").values("double")) == [6, 14]
    runner.run("a", 1)
    assert sorted(runner.wait("a").values("double")) == [2, 6, 14]


def test_an_input_with_a_key_is_taken_once(runner: Runner) -> None:
    runner.start_workflow("a", chain)

    for _ in range(3):
        runner.run("a", 5, key="order-1")

    assert runner.wait("a").values("increment") == [11]


def test_state_goes_on_from_input_to_input_and_through_a_resume(store: LogStore) -> None:
    workflow = Workflow("sum", accumulator(lambda so_far, x: so_far + x, init=0, name="total"))
    with Runner(store) as runner:
        runner.start(workflow, 1, id="a")
        runner.run("a", 2)
        runner.wait("a")

    with Runner(store) as runner:
        runner.resume("a", workflow=workflow)
        runner.run("a", 3)
        assert runner.wait("a").state_of("total") == 6


def test_what_could_not_be_stored_is_refused_where_it_is_given(runner: Runner) -> None:
    runner.start_workflow("a", chain)

    with pytest.raises(UnencodableValue, match="INPUT"):
        runner.run("a", object())

    runner.run("a", 5)
    assert runner.wait("a").value("increment") == 11


def test_a_step_whose_value_cannot_be_stored_fails_where_it_is_made(runner: Runner) -> None:
    workflow = Workflow("w", step(lambda x: [x, object()], name="odd") >> step(len, name="after"))

    run = runner.start(workflow, 1).wait()

    assert isinstance(run.failures["odd"].__cause__, UnencodableValue)
    assert run.values("after") == []


# -- failures ------------------------------------------------------------------------------------


def test_a_failure_is_part_of_the_run_and_the_runner_goes_on(runner: Runner) -> None:
    """CONFORMANCE 91."""

    def broken(x: int) -> int:
        raise ValueError(f"bad {x}")

    handle = runner.start(Workflow("w", step(broken)), 1)

    with pytest.raises(StepFailed, match="bad 1"):
        handle.result()
    assert handle.wait().failed
    assert runner.start(chain, 5).result() == 11


def test_retries_are_made_and_counted(runner: Runner) -> None:
    calls: list[int] = []

    def flaky(x: int) -> int:
        calls.append(x)
        if len(calls) < 3:
            raise OSError("not yet")
        return x

    workflow = Workflow("w", step(flaky)).with_policies([("flaky", Policy(max_retries=5))])

    assert runner.start(workflow, 7).result() == 7
    assert calls == [7, 7, 7]


def test_a_timeout_ends_the_attempt_and_its_late_result_is_dropped(runner: Runner) -> None:
    gate = Gate()
    workflow = Workflow("w", step(gate, name="slow")).with_policies([("slow", Policy(timeout=0.05))])

    run = runner.start(workflow, 1, id="a").wait()
    gate.opened.set()

    assert "timeout" in str(run.failures["slow"].__cause__)
    assert runner.wait("a").values("slow") == []


# -- concurrency ---------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_no_more_than_max_concurrency_are_under_way(store: LogStore, limit: int) -> None:
    """CONFORMANCE 91."""
    lock, seen, now = threading.Lock(), [], [0]
    barrier = threading.Barrier(limit)

    def work(x: int) -> int:
        with lock:
            now[0] += 1
            seen.append(now[0])
        barrier.wait(20)
        with lock:
            now[0] -= 1
        return x

    workflow = Workflow("w", [step(work, name=f"w{n}") for n in range(limit * 2)])
    with Runner(store) as runner:
        runner.start(workflow, 1, max_concurrency=limit).wait(30)

    assert max(seen) == limit


def test_a_slow_branch_does_not_hold_the_others_back(runner: Runner) -> None:
    """CONFORMANCE 17."""
    gate = Gate()
    workflow = Workflow(
        "w", [step(gate, name="slow"), double, increment] >> step(lambda a, b, c: a + b + c, name="total")
    )
    runner.start(workflow, 5, id="a")

    early = runner.wait_until("a", lambda run: bool(run.values("double") and run.values("increment")), timeout=20)
    gate.opened.set()

    assert early.values("slow") == []
    assert runner.wait("a").values("total") == [21]


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_a_map_gives_what_it_gives_in_memory(store: LogStore, executor: str) -> None:
    total = reduce(lambda so_far, x: [*so_far, x], init=list, name="total")
    workflow = Workflow("m", each(double) >> total)

    with Runner(store, executor=executor) as runner:
        assert runner.start(workflow, list(range(50))).result() == [2 * n for n in range(50)]


def test_coroutines_run_in_the_loop_of_the_runner(runner: Runner) -> None:
    names: list[str] = []

    async def where(x: int) -> int:
        await asyncio.sleep(0)
        names.append(threading.current_thread().name)
        return x + 1

    assert runner.start(Workflow("w", step(where)), 1).result() == 2
    assert names == ["weft-runner"]


def test_many_threads_share_a_runner(store: LogStore) -> None:
    found: list[int] = []
    with Runner(store) as runner:

        def start(n: int) -> None:
            found.append(runner.start(chain, n, id=f"r{n}").result(30))

        threads = [threading.Thread(target=start, args=(n,)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert sorted(found) == [2 * n + 1 for n in range(20)]


def test_a_blocking_runner_works_inside_of_a_running_loop(store: LogStore) -> None:
    async def main() -> int:
        with Runner(store) as runner:
            result: int = runner.start(chain, 5).result()
            return result

    assert asyncio.run(main()) == 11


def test_several_runners_live_in_one_process() -> None:
    with Runner() as first, Runner() as second:
        assert first.start(chain, 1, id="a").result() == 3
        assert second.start(chain, 2, id="a").result() == 5


# -- waiting -------------------------------------------------------------------------------------


def test_a_wait_ends_when_its_time_is_up(runner: Runner) -> None:
    gate = Gate()
    runner.start(Workflow("w", step(gate, name="slow")), 1, id="a")
    assert gate.begun.wait(20)

    with pytest.raises(WaitTimeout, match="still running"):
        runner.wait("a", timeout=0.01)

    gate.opened.set()
    assert runner.wait("a", timeout=20).value("slow") == 1


def test_what_wait_gives_does_not_change_any_more(runner: Runner) -> None:
    runner.start(chain, 5, id="a")
    before = runner.wait("a")

    runner.run("a", 6)
    runner.wait("a")

    assert before.values("increment") == [11]
    with pytest.raises(NothingProduced):
        runner.start(chain, id="empty").wait().value("increment")


def test_on_complete_is_called_once_for_every_busy_period_before_wait_returns(store: LogStore) -> None:
    """CONFORMANCE 90."""
    told: list[Any] = []

    def note(id: str, run: Run, *more: object) -> None:
        told.append((id, run.values("increment"), *more))

    with Runner(store) as runner:
        runner.start_workflow("a", chain, on_complete=note, on_complete_args=("x",))
        runner.run("a", 5)
        runner.wait("a")
        assert told == [("a", [11], "x")]
        runner.run("a", 6)
        runner.wait("a")
        events = runner.log("a")

    assert told == [("a", [11], "x"), ("a", [11, 13], "x")]
    assert sum(isinstance(event, Notified) for event in events) == 2


def test_a_callback_that_fails_changes_nothing(store: LogStore) -> None:
    def fails(id: str, run: Run) -> None:
        raise RuntimeError("no")

    with Runner(store) as runner:
        assert runner.start(chain, 5, on_complete=fails).wait(20).value("increment") == 11


async def _note_async(told: list[str], id: str) -> None:
    await asyncio.sleep(0)
    told.append(id)


def test_a_callback_may_be_a_coroutine_function(store: LogStore) -> None:
    told: list[str] = []

    async def note(id: str, run: Run) -> None:
        await _note_async(told, id)

    with Runner(store) as runner:
        runner.start(chain, 5, id="a", on_complete=note).wait(20)

    assert told == ["a"]


def test_a_callback_can_be_named_by_its_place(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, 5, id="by-name", on_complete=f"{__name__}:_remember").wait(20)

    assert "by-name" in _REMEMBERED


_REMEMBERED: list[str] = []


def _remember(id: str, run: Run) -> None:
    _REMEMBERED.append(id)


# -- stopping, resuming --------------------------------------------------------------------------


def test_a_stopped_run_is_resumed_where_it_was(store: LogStore) -> None:
    """CONFORMANCE 88."""
    with Runner(store) as runner:
        runner.start(chain, 5, id="a").wait()
        runner.stop("a")
        assert runner.lookup("a") is None

        runner.resume("a", workflow=chain)
        assert runner.get_results("a") == {"increment": 11}
        runner.run("a", 6)
        assert runner.wait("a").values("increment") == [11, 13]


def test_a_run_that_is_stopped_without_persisting_leaves_nothing_behind(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start_workflow("a", chain, checkpoint="manual")
        runner.run("a", 5)
        runner.wait("a")
        runner.stop("a", persist=False)

        runner.resume("a", workflow=chain)
        assert runner.wait("a").values("increment") == []


def test_stopping_waits_for_what_is_under_way_and_burns_no_attempt(store: LogStore) -> None:
    gate = Gate()
    workflow = Workflow("w", step(gate, name="slow") >> increment).with_policies(
        [("slow", Policy(execution_mode="durable"))]
    )
    with Runner(store) as runner:
        runner.start(workflow, 1, id="a")
        assert gate.begun.wait(20)
        runner.stop("a", grace=0.0)
        gate.opened.set()

        runner.resume("a", workflow=workflow)
        run = runner.wait("a", timeout=20)

    assert run.value("increment") == 2
    assert gate.calls == [1, 1]
    assert not run.failed


def test_what_another_runner_holds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path)) as first, Runner(SQLiteStore(path)) as second:
        first.start(chain, 5, id="a").wait()

        with pytest.raises(RunOwned):
            second.resume("a")
        first.stop("a")
        second.resume("a", workflow=chain)
        assert second.get_results("a") == {"increment": 11}


def test_resume_all_brings_back_what_has_something_to_do(store: LogStore) -> None:
    gate = Gate()
    workflow = Workflow("w", step(gate, name="slow") >> increment)
    with Runner(store) as runner:
        runner.start(chain, 5, id="done").wait()
        runner.start(workflow, 1, id="busy")
        assert gate.begun.wait(20)
        runner.close(grace=0.0)
    gate.opened.set()

    with Runner(store) as runner:
        runner.register(workflow)
        handles = runner.resume_all()

        assert [handle.id for handle in handles] == ["busy"]
        assert handles[0].result(20) == 2


def test_a_closed_runner_says_so(store: LogStore) -> None:
    runner = Runner(store)

    with pytest.raises(RunnerClosed, match="with Runner"):
        runner.start(chain, 5)
    with runner:
        runner.start(chain, 5).wait()
    with pytest.raises(RunnerClosed):
        runner.list_workflows()


def test_a_run_that_is_cancelled_takes_nothing_more(store: LogStore) -> None:
    gate = Gate()
    workflow = Workflow("w", step(gate, name="slow") >> increment)
    with Runner(store) as runner:
        handle = runner.start(workflow, 1, id="a")
        assert gate.begun.wait(20)

        handle.cancel("not wanted")
        gate.opened.set()

        assert handle.wait(20).values("increment") == []
        assert handle.status() == "cancelled"
        with pytest.raises(RunClosed, match="not wanted"):
            handle.send(2)
        runner.stop("a")
        runner.resume("a", workflow=workflow)
        with pytest.raises(RunClosed):
            runner.run("a", 2)
        assert [record.status for record in runner.records()] == ["cancelled"]
        assert (runner.count(), runner.count(statuses=["cancelled"]), runner.count(statuses=["idle"])) == (1, 1, 0)


# -- what a crash would find ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("checkpoint", "stored"),
    [("every_cycle", 3), (every_n(2), 2), ("on_complete", None), ("manual", None), ("pipelined", 3)],
)
def test_what_the_store_holds_while_the_last_of_four_runs(checkpoint: Any, stored: int | None) -> None:
    """CONFORMANCE 89."""
    store, gate = MemoryStore(), Gate()
    steps = [step(lambda x: x + 1, name=f"s{n}") for n in range(3)]
    workflow = Workflow("w", steps[0] >> steps[1] >> steps[2] >> step(gate, name="slow"))
    with Runner(store) as runner:
        runner.start_workflow("a", workflow, checkpoint=checkpoint)
        runner.run("a", 0)
        assert gate.begun.wait(20)
        if stored is not None:
            runner.wait_until("a", lambda run: len(run.values()) >= 3, timeout=20)
        held = runner._do(_head(store, "a"))
        gate.opened.set()
        runner.wait("a", timeout=20)
        at_idle = runner._do(_head(store, "a"))
        runner.checkpoint("a")
        after = runner._do(_head(store, "a"))

    assert held == (1 if stored is None else 2 + stored)
    assert at_idle == (1 if checkpoint == "manual" else 6)
    assert after == 6


async def _head(store: MemoryStore, id: str) -> int:
    return (await store.find(id)).head


def test_an_input_is_durable_before_anything_runs_on_it() -> None:
    store = MemoryStore()
    heads: list[int] = []

    with Runner(store, executor="inline") as runner:
        look = step(lambda x: heads.append(store._runs["a"].record.head), name="look")
        runner.start(Workflow("w", look), 1, id="a").wait()

    assert heads == [2]


# -- policies ------------------------------------------------------------------------------------


def test_policies_of_a_run_survive_a_resume(store: LogStore) -> None:
    def broken(x: int) -> int:
        raise OSError("always")

    workflow = Workflow("w", step(broken))
    with Runner(store) as runner:
        runner.start_workflow("a", workflow, policies=[("broken", Policy(max_retries=2))])
        runner.stop("a")
        runner.resume("a", workflow=workflow)
        runner.run("a", 1)
        run = runner.wait("a")

    assert run.failures["broken"].attempts == 3
    assert isinstance(run.log()[1], PolicyChanged)


def test_a_change_of_policies_reaches_a_retry_that_waits(runner: Runner) -> None:
    calls: list[int] = []

    def broken(x: int) -> int:
        calls.append(x)
        raise OSError("always")

    patient = Policy(max_retries=9, backoff="linear", base_delay=0.02)
    runner.start(Workflow("w", step(broken)).with_policies([("broken", patient)]), 1, id="a")
    runner.wait_until("a", lambda run: len(calls) >= 1, timeout=20)

    runner.set_policies("a", [("broken", Policy(on_failure="skip"))])

    assert runner.wait("a", timeout=20).skipped == ["broken"]
    assert len(calls) < 10


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
            await gate.until(lambda: gate.went == gate.came)  # though nobody has opened it
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


@pytest.mark.parametrize("policy", [Policy(execution_mode="external"), Policy(executor="nowhere")])
def test_what_this_runner_cannot_keep_is_refused(runner: Runner, policy: Policy) -> None:
    with pytest.raises(InvalidPolicy):
        runner.start(chain.with_policies([("double", policy)]), 1)


# -- hooks and context ---------------------------------------------------------------------------


def test_hooks_are_told_what_the_worker_does(store: LogStore) -> None:
    """CONFORMANCE 95."""
    told: list[Any] = []

    def broken(x: int) -> int:
        raise OSError("no")

    hooks = WorkerHooks(
        on_dispatch=lambda runnable: told.append(("dispatch", runnable.component)),
        on_complete=lambda runnable, seconds: told.append(("complete", runnable.component, seconds >= 0)),
        on_failed=lambda runnable, error: told.append(("failed", runnable.component, type(error).__name__)),
        on_idle=lambda run: told.append(("idle", run.id)),
    )
    with Runner(store) as runner:
        runner.start(Workflow("w", double >> step(broken)), 5, id="a", hooks=hooks).wait(20)

    assert told == [
        ("dispatch", "double"),
        ("complete", "double", True),
        ("dispatch", "broken"),
        ("failed", "broken", "OSError"),
        ("idle", "a"),
    ]


def test_hooks_that_fail_change_nothing(store: LogStore) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("no")

    hooks = WorkerHooks(on_dispatch=fails, on_complete=fails, on_failed=fails, on_idle=fails, transform=fails)
    with Runner(store) as runner:
        assert runner.start(chain, 5, hooks=hooks).result(20) == 11


def test_a_hook_puts_what_is_ready_into_another_order(store: LogStore) -> None:
    order: list[str] = []
    steps = [step(lambda x, n=n: order.append(n), name=n) for n in ("a", "b", "c")]
    hooks = WorkerHooks(transform=lambda runnables: sorted(runnables, key=lambda r: r.component, reverse=True))
    with Runner(store, executor="inline") as runner:
        runner.start(Workflow("w", *steps), 1, hooks=hooks).wait(20)

    assert order == ["c", "b", "a"]


def test_context_is_given_by_the_runner_or_the_run_and_never_stored(tmp_path: Path) -> None:
    from weft import context

    tell = step(lambda x, who=context("who"), what=context("what"): f"{what} of {who}", name="tell")
    workflow, path = Workflow("w", tell), tmp_path / "runs.db"
    with Runner(SQLiteStore(path), context={"who": "secret-runner"}) as runner:
        with pytest.raises(MissingContext, match="what"):
            runner.start(workflow, 1)
        assert runner.start(workflow, 1, context={"what": "thing"}).result() == "thing of secret-runner"
        runner.start_workflow("later", workflow, context={"what": "secret-thing"})

    with Runner(SQLiteStore(path)) as runner, pytest.raises(MissingContext):
        runner.resume("later", workflow=workflow)
    assert b"secret-thing" not in path.read_bytes()


@pytest.mark.parametrize(
    "options",
    [{"executor": "nowhere"}, {"max_concurrency": 0}, {"checkpoint": "sometimes"}],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        Runner(**options)
    with Runner() as runner, pytest.raises(InvalidOption):
        runner.start_workflow("a", chain, **options)


def test_an_async_runner_has_the_same_methods() -> None:
    names = {name for name in dir(Runner) if not name.startswith("_")}

    assert names == {name for name in dir(AsyncRunner) if not name.startswith("_")}


def run_async(main: Callable[[], Awaitable[Any]]) -> Any:
    async def wrapped() -> Any:
        return await main()

    return asyncio.run(wrapped())


def test_an_async_runner_serves_many_tasks(store: LogStore) -> None:
    async def main() -> list[int]:
        async with AsyncRunner(store) as runner:
            handles = await asyncio.gather(*(runner.start(chain, n, id=f"r{n}") for n in range(100)))
            return list(await asyncio.gather(*(handle.result() for handle in handles)))

    assert run_async(main) == [2 * n + 1 for n in range(100)]


# -- compounds, telemetry, retention -------------------------------------------------------------


def trip(undo: Callable[[], None]) -> Workflow:
    saga = Saga("trip")

    @saga.transaction
    def book(request: dict[str, Any], results: dict[str, Any]) -> str:
        return "seat 5"

    @book.compensate
    def cancel(request: dict[str, Any], results: dict[str, Any]) -> str:
        undo()
        return "free again"

    @saga.transaction(compensate=None)
    def pay(request: dict[str, Any], results: dict[str, Any]) -> str:
        raise ValueError("declined")

    return Workflow("w", saga)


def test_a_saga_is_undone_in_a_runner(store: LogStore) -> None:
    with Runner(store) as runner:
        outcome = runner.start(trip(lambda: None), {"funds": 1}).wait(20).state_of("trip")

    assert (outcome.status, outcome.compensated) == ("aborted", ["book"])


def test_a_saga_that_cannot_be_undone_parks_its_run_until_somebody_retries(store: LogStore) -> None:
    is_up = threading.Event()

    def undo() -> None:
        if not is_up.is_set():
            raise ConnectionError("down")

    workflow = trip(undo)
    with Runner(store) as runner:
        runner.start(workflow, {"funds": 1}, id="a")
        with pytest.raises(RunParked, match=r"'trip\.cancel' failed for good, ConnectionError: down"):
            runner.wait("a", timeout=20)
        assert [(record.status, "cannot be undone" in record.reason) for record in runner.records()] == [
            ("parked", True)
        ]
        with pytest.raises(RunParked):
            runner.run("a", {"funds": 2})

    with Runner(store) as runner:
        assert runner.resume_all() == []
        runner.resume("a", workflow=workflow)
        with pytest.raises(RunParked):
            runner.wait("a", timeout=20)
        is_up.set()
        runner.retry("a")
        assert runner.wait("a", timeout=20).state_of("trip").status == "aborted"
        assert [record.status for record in runner.records()] == ["idle"]


def test_a_fallback_is_told(runner: Runner) -> None:
    def broken(x: int) -> int:
        raise OSError("no")

    told: list[Any] = []
    policy = Policy(max_retries=1, fallback=lambda runnable, error: Value(0))
    telemetry.attach("fallbacks", "weft.runner.runnable.fallback", lambda *event: told.append(event))
    try:
        runner.start(Workflow("w", step(broken)).with_policies([("broken", policy)]), 1, id="a").wait(20)
    finally:
        telemetry.detach("fallbacks")

    [(_, _, metadata)] = told
    assert (metadata["component"], metadata["workflow_id"], str(metadata["error"])) == ("broken", "a", "no")


def test_a_run_can_be_forgotten(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, 1, id="a").wait()
        runner.start(chain, 2, id="b").cancel()
        runner.stop("b")

        runner.delete("a")
        assert runner.purge(before=2e10) == 1

        assert runner.stored() == []
        with pytest.raises(WorkflowNotFound, match="no run 'a' in the store"):
            runner.delete("a")


def test_a_log_that_was_altered_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path)) as runner:
        runner.start(chain, 1, id="a").wait()
        runner.start(chain, 2, id="b").wait()
    with closing(sqlite3.connect(path)) as db, db:
        [(table,)] = db.execute("select name from sqlite_master where type = 'table' and name like '%segment%'")
        rows = db.execute(f"select rowid, body from {table} order by rowid").fetchall()  # noqa: S608
        (first, one), (second, other) = rows[1], rows[-1]
        db.execute(f"update {table} set body = ? where rowid = ?", (other, first))  # noqa: S608
        db.execute(f"update {table} set body = ? where rowid = ?", (one, second))  # noqa: S608

    with Runner(SQLiteStore(path)) as runner, pytest.raises(CorruptLog):
        runner.resume("a", workflow=chain)


def test_a_log_whose_end_was_cut_off_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path)) as runner:
        runner.start(chain, 1, id="a").wait()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("delete from segments where place = (select max(place) from segments)")

    with Runner(SQLiteStore(path)) as runner, pytest.raises(CorruptLog, match="not as far as they did"):
        runner.resume("a", workflow=chain)


def test_a_run_whose_code_is_not_here_is_left_as_it_is(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(Workflow("w", step(lambda x: x + 1, name="hidden")), id="a")

    with Runner(store) as runner:
        with pytest.raises(UnresolvedFunction, match="'hidden'") as unresolved:
            runner.resume("a")
        assert str(unresolved.value).endswith(
            "<lambda> of 'hidden' is a lambda or local function; hand the workflow over: "
            "resume('a', workflow=the_workflow), or register(the_workflow) before resume_all()"
        )
        runner.resume("a", workflow=Workflow("w", step(lambda x: x + 1, name="hidden")))
        runner.run("a", 1)
        assert runner.result("a", 20) == 2


@pytest.mark.parametrize(
    ("other", "wrong"),
    [
        (Workflow("other", step(lambda x: x, name="shown")), "has no such component"),
        (Workflow("other", reduce(lambda x, y: x + y, init=0, name="hidden")), "is another one"),
    ],
)
def test_a_run_that_is_handed_another_workflow_says_so(store: LogStore, other: Workflow, wrong: str) -> None:
    with Runner(store) as runner:
        runner.start(Workflow("w", step(lambda x: x + 1, name="hidden")), id="a")

    with Runner(store) as runner:
        expected = f"is a lambda or local function, and the workflow 'other' that was handed over {wrong}; "
        with pytest.raises(UnresolvedFunction, match=expected):
            runner.resume("a", workflow=other)


def test_a_run_that_is_not_here_is_said_to_be_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path)) as runner, Runner(SQLiteStore(path)) as other:
        runner.start(chain, 1, id="a").wait()
        held = rf"no run 'a' in this runner; it is stored, and .*{os.getpid()}.* owns it: use it there"

        for call in (other.status, other.wait, lambda run: other.run(run, 2)):
            with pytest.raises(WorkflowNotFound, match=held) as refused:
                call("a")
            assert refused.value.owner is not None
        with pytest.raises(WorkflowNotFound, match=r"no run 'nope' in this runner; start_workflow\(\) it first"):
            other.status("nope")
        with pytest.raises(WorkflowNotFound, match=r"no run 'nope' in the store; start_workflow\(\) it first"):
            other.resume("nope")

        runner.stop("a")
        with pytest.raises(WorkflowNotFound, match=r"it is stored: resume\('a'\) it first"):
            other.status("a")


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


# -- names that cannot be written ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "a\udcff", 5, None])
def test_an_id_that_is_no_text_is_refused_before_anything_is_stored(store: LogStore, name: Any) -> None:
    with Runner(store) as runner:
        with pytest.raises(InvalidOption, match="use text"):
            runner.start_workflow(name, chain)

        assert runner.stored() == []


@pytest.mark.parametrize("key", ["", "a\udcff", 5])
def test_a_key_that_cannot_be_written_is_refused_and_the_run_goes_on(store: LogStore, key: Any) -> None:
    with Runner(store) as runner:
        runner.start_workflow("a", chain)

        with pytest.raises(InvalidOption, match="use text"):
            runner.run("a", 1, key=key)

        runner.run("a", 1, key="good")
        assert len(runner.wait("a", 20).values("increment")) == 1


def test_a_forked_process_does_not_wait_for_a_runner_that_it_does_not_have() -> None:
    with Runner(MemoryStore()) as runner:
        child = os.fork()
        if child == 0:  # pragma: no cover - in another process
            try:
                runner.list_workflows()
            except RunnerClosed:
                os._exit(7)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 7

"""The runner, from its start to an output, on both stores."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
from small_flows import Gate, chain, double, increment

from weft import AsyncRunner, Policy, Runner, Workflow, accumulator, each, reduce, step, wait_for
from weft.errors import (
    InvalidOption,
    RunExists,
    RunFailed,
    RunnerClosed,
    RunNotFound,
    RunNotHeld,
    UnencodableValue,
)
from weft.ports.store import LogStore
from weft.stores import MemoryStore

# -- the two halves, and the whole ---------------------------------------------------------------


def test_a_run_is_created_fed_and_read(runner: Runner) -> None:
    """CONFORMANCE 87."""
    handle = runner.start(chain, id="a")

    runner.send("a", 5)

    assert runner.wait("a").value("increment") == 11
    assert runner.results("a") == handle.results() == {"increment": 11}
    assert runner.held == ["a"]
    assert [each.id for each in runner.runs()] == ["a"]


def test_the_whole_is_one_call_and_the_same_id_is_the_same_run(runner: Runner) -> None:
    first = runner.start(chain, 5, id="a")
    second = runner.start(chain, 5, id="a")

    assert (first.result(), second.result()) == (11, 11)
    assert runner.wait("a").values("increment") == [11]


def test_an_id_is_made_up_if_none_is_given(runner: Runner) -> None:
    handles = [runner.start(chain, n) for n in range(3)]

    assert len({handle.id for handle in handles}) == 3
    assert [handle.result() for handle in handles] == [1, 3, 5]


def test_an_id_that_is_taken_is_refused(runner: Runner) -> None:
    runner.start(chain, id="a")

    with pytest.raises(RunExists, match="'a'"):
        runner.start(chain, id="a", if_exists="error")


def test_an_id_that_is_taken_in_the_store_is_refused(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, 5, id="a").wait()

    with Runner(store) as runner:
        with pytest.raises(RunExists):
            runner.start(chain, id="a", if_exists="error")
        assert runner.held == []
        assert runner.start(chain, 6, id="a", if_exists="return").result() == 11


@pytest.mark.parametrize(
    "call",
    [
        lambda runner: runner.send("nope", 1),
        lambda runner: runner.wait("nope"),
        lambda runner: runner.result("nope"),
        lambda runner: runner.results("nope"),
        lambda runner: runner.get("nope"),
        lambda runner: runner.log("nope"),
        lambda runner: runner.status("nope"),
        lambda runner: runner.resume("nope"),
        lambda runner: runner.cancel("nope"),
        lambda runner: runner.checkpoint("nope"),
        lambda runner: runner.set_policies("nope", []),
        lambda runner: runner.retry("nope"),
    ],
)
def test_an_unknown_id_is_said_so_everywhere(runner: Runner, call: Callable[[Runner], object]) -> None:
    with pytest.raises(RunNotFound, match="'nope'"):
        call(runner)


def test_stopping_a_run_that_is_not_here_changes_nothing(runner: Runner) -> None:
    runner.start(chain, 5, id="done").wait()

    runner.stop("done")
    runner.stop("nope")

    assert runner.status("done") == "completed"


def test_a_run_that_is_only_stored_is_said_so(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, 5, id="a", open=True).wait()

    with Runner(store) as runner, pytest.raises(RunNotHeld, match="resume"):
        runner.checkpoint("a")


def test_a_run_that_is_only_stored_keeps_what_it_is_sent_until_it_is_resumed(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, 5, id="a", open=True).wait()

    with Runner(store) as runner:
        sent = runner.send("a", 6)
        assert runner.status("a") == "idle"
        runner.resume("a", workflow=chain)

        assert sent.result(timeout=60) == 13


def test_two_inputs_that_are_given_at_once_are_both_run(runner: Runner) -> None:
    """CONFORMANCE 90."""
    runner.start(chain, id="a")

    runner.send("a", 3)
    runner.send("a", 7)

    assert sorted(runner.wait("a").values("double")) == [6, 14]
    runner.send("a", 1)
    assert sorted(runner.wait("a").values("double")) == [2, 6, 14]


def test_an_input_with_a_key_is_taken_once(runner: Runner) -> None:
    runner.start(chain, id="a")

    for _ in range(3):
        runner.send("a", 5, key="order-1")

    assert runner.wait("a").values("increment") == [11]


def test_state_goes_on_from_input_to_input_and_through_a_resume(store: LogStore) -> None:
    workflow = Workflow("sum", accumulator(lambda so_far, x: so_far + x, init=0, name="total"))
    with Runner(store) as runner:
        runner.start(workflow, 1, id="a", open=True)
        runner.send("a", 2)
        runner.wait("a")

    with Runner(store) as runner:
        runner.resume("a", workflow=workflow)
        runner.send("a", 3)
        assert runner.wait("a").state_of("total") == 6


def test_what_could_not_be_stored_is_refused_where_it_is_given(runner: Runner) -> None:
    runner.start(chain, id="a")

    with pytest.raises(UnencodableValue, match="the input cannot be written"):
        runner.send("a", object())

    runner.send("a", 5)
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

    with pytest.raises(RunFailed, match="bad 1"):
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
def test_no_more_than_max_concurrency_are_in_flight(store: LogStore, limit: int) -> None:
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
            thread.join(60)

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


# -- names that cannot be written ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "a\udcff", 5])
def test_an_id_that_is_not_text_is_refused_before_anything_is_stored(store: LogStore, name: Any) -> None:
    with Runner(store) as runner:
        with pytest.raises(InvalidOption, match="use text"):
            runner.start(chain, id=name)

        assert [each.id for each in runner.runs()] == []


@pytest.mark.parametrize("key", ["", "a\udcff", 5])
def test_a_key_that_cannot_be_written_is_refused_and_the_run_goes_on(store: LogStore, key: Any) -> None:
    with Runner(store) as runner:
        runner.start(chain, id="a")

        with pytest.raises(InvalidOption, match="use text"):
            runner.send("a", 1, key=key)

        runner.send("a", 1, key="good")
        assert len(runner.wait("a", 20).values("increment")) == 1


def test_a_forked_process_does_not_wait_for_a_runner_that_it_does_not_have() -> None:
    with Runner(MemoryStore()) as runner:
        child = os.fork()
        if child == 0:  # pragma: no cover - in another process
            try:
                runner.runs()
            except RunnerClosed:
                os._exit(7)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 7


def test_a_run_that_is_deleted_while_it_is_looked_for_is_started_after_all(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Workflow("waiting", wait_for("go"))

    async def main() -> str:
        async with MemoryStore() as store, AsyncRunner(store) as one, AsyncRunner(store) as other:
            await one.start(waiting, 1, id="a")
            find = other.find

            async def too_late(run: str) -> Any:
                monkeypatch.undo()
                await one.delete("a")
                return await find(run)

            monkeypatch.setattr(other, "find", too_late)
            handle = await other.start(waiting, 2, id="a", if_exists="return")
            assert "a" in other
            return await handle.status()

    assert asyncio.run(main()) == "waiting"

"""External steps in a runner: completed from anywhere, once, also after a restart."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from small_flows import write_token

from weft import AsyncRunner, Policy, Runner, Saga, Workflow, current, step
from weft.core import events as ev
from weft.errors import (
    InvalidToken,
    RunFailed,
    StepTimeout,
    TokenExpired,
    UnencodableValue,
)
from weft.log.messages import encode_message
from weft.policy import Value
from weft.ports.store import LogStore, Message
from weft.runner.checkpoints import every_cycle, manual, on_complete, pipelined
from weft.stores import MemoryStore, SQLiteStore
from weft.testing import TestRunner

EXTERNAL = Policy(execution_mode="external")

tokens: list[str] = []


@pytest.fixture(autouse=True)
def _no_tokens() -> None:
    tokens.clear()


@step
def ask(order: int) -> None:
    tokens.append(current().token)


@step
def ship(answer: Any) -> str:
    return f"shipped: {answer}"


def orders(policy: Policy = EXTERNAL) -> Workflow:
    return Workflow("orders", ask >> ship, policies=[("ask", policy)])


def asynchronously(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 120))


def is_open(run: Any) -> bool:
    return bool(run.status == "waiting")


def _completion(token: str, value: Any) -> Message:
    """Return the message for run ``o`` that completes the step of *token*."""
    message = ev.CompletionReceived(0, "", (), value, token=token.partition(".")[2])
    return Message(run="o", kind="completion", body=encode_message(message), at=0.0)


def test_the_run_waits_and_goes_on_when_the_step_is_completed(runner: Runner) -> None:
    handle = runner.start(orders(), 1)
    run = runner.wait_until(handle.id, is_open)

    assert run.waiting_for == ["ask"]
    runner.complete(tokens[0], "yes", by="Ada")

    assert handle.result() == "shipped: yes"
    (received,) = [event for event in handle.log() if isinstance(event, ev.CompletionReceived)]
    assert (received.by, received.value, received.token) == ("Ada", "yes", "")


@pytest.mark.parametrize("strategy", [every_cycle, on_complete, manual, pipelined()], ids=str)
def test_the_token_is_durable_before_the_function_has_it(strategy: Any, tmp_path: Path) -> None:
    stored: list[bool] = []

    def look(order: int) -> None:
        _, secret = current().token.split(".")
        path = tmp_path / "runs.db"
        stored.append(any(secret.encode() in file.read_bytes() for file in path.parent.glob("runs.db*")))
        tokens.append(current().token)

    workflow = Workflow("w", step(abs, name="first") >> step(look, name="ask"), policies=[("ask", EXTERNAL)])
    with Runner(SQLiteStore(tmp_path / "runs.db"), checkpoint=strategy) as runner:
        handle = runner.start(workflow, 1)
        runner.wait_until(handle.id, is_open)
        runner.complete(tokens[0], 5)

        assert handle.result() == 5
    assert stored == [True]


@pytest.mark.parametrize("strategy", [every_cycle, on_complete, manual, pipelined()], ids=str)
def test_a_step_that_is_open_does_not_run_again_after_a_restart(strategy: Any, store: LogStore) -> None:
    with Runner(store, checkpoint=strategy) as runner:
        handle = runner.start(orders(), 1, id="o")
        runner.wait_until("o", is_open)
    with Runner(store, checkpoint=strategy) as runner:
        runner.register(orders())
        handle = runner.resume("o")
        runner.complete(tokens[0], "yes")

        assert handle.result() == "shipped: yes"
    assert len(tokens) == 1


def test_a_completion_from_another_process_comes_through_the_inbox(tmp_path: Path) -> None:
    async def main() -> None:
        mine, theirs = SQLiteStore(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")
        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            handle = await owner.start(orders(), 1, id="o")
            await owner.wait_until("o", is_open)

            await other.complete(tokens[0], {"by": "Ada"}, by="web")

            assert await handle.result() == "shipped: {'by': 'Ada'}"
            with pytest.raises(TokenExpired, match="completed"):
                await other.complete(tokens[0], 1)

    asynchronously(main)


@pytest.mark.parametrize("is_driven", [True, False], ids=["driven elsewhere", "driven by no process"])
def test_a_token_that_a_run_elsewhere_has_not_issued_or_that_was_used_is_refused(
    is_driven: bool,
    tmp_path: Path,
) -> None:
    async def main() -> None:
        mine, theirs = SQLiteStore(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")
        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            await owner.start(orders(), id="o")
            await owner.send("o", 1)
            await owner.wait_until("o", is_open)
            if not is_driven:
                await owner.stop("o")

            with pytest.raises(InvalidToken, match="has not issued this token"):
                await other.complete(tokens[0][:-4] + "AAAA", 1)
            with pytest.raises(InvalidToken, match="has not issued this token"):
                await other.fail(tokens[0][:-4] + "AAAA", "no")
            assert await other.unread("o") == []
            await other.complete(tokens[0], "yes")
            with pytest.raises(TokenExpired, match=r"it was used|was completed with it"):
                await other.fail(tokens[0], "no")

    asynchronously(main)


def test_of_two_completions_through_the_inbox_the_first_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        mine, theirs = SQLiteStore(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")
        workflow = Workflow("w", ask >> ship >> step(hold, name="hold"), policies=[("ask", EXTERNAL)])
        async with AsyncRunner(theirs) as other:
            async with AsyncRunner(mine) as owner:
                await owner.start(workflow, 1, id="o")
                await owner.wait_until("o", is_open)
            await other.complete(tokens[0], "first")
            with pytest.raises(TokenExpired, match="it was used"):
                await other.complete(tokens[0], "second")
            await theirs.post([_completion(tokens[0], "third")])  # as if it had been sent at the same time
        released.set()
        async with AsyncRunner(SQLiteStore(tmp_path / "runs.db")) as owner:
            handle = await owner.resume("o", workflow=workflow)

            assert await handle.result() == "shipped: first"

    released = threading.Event()

    def hold(x: Any) -> Any:
        released.wait(60)
        return x

    asynchronously(main)
    assert "no longer valid" in caplog.text or "came too late" in caplog.text


def test_of_two_programs_that_use_a_token_at_the_same_moment_one_is_told(tmp_path: Path) -> None:
    """Both have looked into the inbox before either has posted its completion."""

    class Waiting(SQLiteStore):
        async def post(self, messages: Any) -> Any:
            if not posting.is_set():
                reading.set()
                await posting.wait()
            return await super().post(messages)

    reading, posting = asyncio.Event(), asyncio.Event()

    async def main() -> None:
        slow, fast = Waiting(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")
        async with AsyncRunner(slow) as second, AsyncRunner(fast) as first:
            await first.start(orders(), 1, id="o")
            await first.wait_until("o", is_open)
            await first.stop("o")
            late = asyncio.ensure_future(second.complete(tokens[0], "late"))
            await reading.wait()
            await first.complete(tokens[0], "first")
            posting.set()

            with pytest.raises(TokenExpired, match="it was used"):
                await late
            handle = await first.resume("o", workflow=orders())
            assert await handle.result() == "shipped: first"

    asynchronously(main)


def test_a_completion_that_was_stored_twice_is_one_use(tmp_path: Path) -> None:
    class Twice(SQLiteStore):
        async def post(self, messages: Any) -> Any:
            await super().post(messages)
            return await super().post(messages)

    async def main() -> None:
        async with AsyncRunner(Twice(tmp_path / "runs.db")) as runner:
            await runner.start(orders(), 1, id="o")
            await runner.wait_until("o", is_open)
            await runner.stop("o")

            await runner.complete(tokens[0], "yes")

            handle = await runner.resume("o", workflow=orders())
            assert await handle.result() == "shipped: yes"

    asynchronously(main)


@pytest.mark.parametrize("is_truncated", [False, True], ids=["whole", "truncated"])
@pytest.mark.parametrize("rehydration", ["lazy", "hybrid", "full"])
def test_a_token_that_was_used_before_what_is_in_memory_is_refused(
    rehydration: Any, is_truncated: bool, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path), snapshot_every=1) as runner:
        runner.start(orders(), id="o")
        for number in (1, 2):
            runner.send("o", number)
            runner.wait_until("o", lambda run, number=number: is_open(run) and len(tokens) == number)  # type: ignore[misc]
            runner.complete(tokens[number - 1], number)
            runner.wait("o")
        if is_truncated:
            assert runner.truncate("o") > 0
    with Runner(SQLiteStore(path)) as runner, Runner(SQLiteStore(path)) as other:
        for each in (other, runner):  # no process drives it, and then this one does
            if each is runner:
                runner.resume("o", workflow=orders(), rehydration=rehydration)
            why = "its attempt has ended" if is_truncated else "was completed with it"
            with pytest.raises(TokenExpired, match=why):
                each.complete(tokens[0], "again")
            with pytest.raises(TokenExpired if is_truncated else InvalidToken):
                each.fail(tokens[0][:-4] + "AAAA", "no")


def test_the_tokens_of_a_run_are_read_without_its_history(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path), snapshot_every=1) as runner:
        runner.start(orders(), 1, id="o")
        runner.wait_until("o", is_open)

    async def main() -> None:
        async with AsyncRunner(SQLiteStore(path)) as runner:
            await runner.resume("o", workflow=orders(), rehydration="lazy")
            run = await runner.get("o")
            assert run.tokens == {tokens[0]: "ask"}
            await runner.complete(tokens[0], "yes")
            assert (await runner.get("o")).tokens == {}
            assert run.tokens == {tokens[0]: "ask"}, "it is frozen"

    asynchronously(main)


def test_a_failure_is_retried_with_another_token(runner: Runner) -> None:
    handle = runner.start(orders(EXTERNAL.merge(Policy(max_retries=1))), 1)
    runner.wait_until(handle.id, is_open)
    runner.fail(tokens[0], ConnectionError("busy"), by="bank")
    runner.wait_until(handle.id, lambda run: is_open(run) and len(tokens) == 2)

    with pytest.raises(TokenExpired, match=r"ConnectionError\), by bank"):
        runner.complete(tokens[0], 1)
    runner.complete(tokens[1], "yes")

    assert handle.result() == "shipped: yes"


def test_the_last_failure_fails_the_run(runner: Runner) -> None:
    handle = runner.start(orders(), 1)
    runner.wait_until(handle.id, is_open)

    runner.fail(tokens[0], "declined")

    with pytest.raises(RunFailed, match="declined"):
        handle.result()
    with pytest.raises(TokenExpired, match="failed"):
        runner.complete(tokens[0], 1)


def test_a_fallback_answers_for_the_outside(runner: Runner) -> None:
    policy = EXTERNAL.merge(Policy(fallback=lambda runnable, error: Value(str(error))))
    handle = runner.start(orders(policy), 1)
    runner.wait_until(handle.id, is_open)

    runner.fail(tokens[0], "declined")

    assert handle.result() == "shipped: declined"


def test_a_failure_that_was_not_judged_before_a_crash_is_judged_by_the_next_owner(tmp_path: Path) -> None:
    async def main() -> None:
        policy = EXTERNAL.merge(Policy(max_retries=1))
        async with AsyncRunner(SQLiteStore(tmp_path / "runs.db")) as other:
            async with AsyncRunner(SQLiteStore(tmp_path / "runs.db")) as owner:
                await owner.start(orders(policy), 1, id="o")
                await owner.wait_until("o", is_open)
            await other.fail(tokens[0], "not yet")
        async with AsyncRunner(SQLiteStore(tmp_path / "runs.db")) as owner:
            handle = await owner.resume("o", workflow=orders(policy))
            await owner.wait_until("o", lambda run: is_open(run) and len(tokens) == 2)
            await owner.complete(tokens[1], "yes")

            assert await handle.result() == "shipped: yes"

    asynchronously(main)


def test_the_token_of_a_cancelled_run_works_no_more(runner: Runner) -> None:
    handle = runner.start(orders(), 1)
    runner.wait_until(handle.id, is_open)
    handle.cancel("too late")

    with pytest.raises(TokenExpired, match="cancelled"):
        runner.complete(tokens[0], 1)


def test_what_no_run_has_issued_is_refused(runner: Runner) -> None:
    with pytest.raises(InvalidToken):
        runner.complete("nonsense", 1)
    with pytest.raises(InvalidToken, match="no such run"):
        runner.complete("bm8tcnVu.secret", 1)


def test_a_value_that_cannot_be_stored_is_refused_and_the_token_still_works(runner: Runner) -> None:
    handle = runner.start(orders(), 1)
    runner.wait_until(handle.id, is_open)

    with pytest.raises(UnencodableValue):
        runner.complete(tokens[0], object())
    runner.complete(tokens[0], "x" * 100_000)

    assert len(handle.result()) == 100_009


def test_an_answer_that_is_quicker_than_the_function_counts(runner: Runner) -> None:
    goes_on = threading.Event()

    def slow(order: int) -> None:
        tokens.append(current().token)
        handed_out.set()
        goes_on.wait(60)
        raise ValueError("and this does not matter any more")

    handed_out = threading.Event()
    policy = EXTERNAL.merge(Policy(max_retries=5))
    handle = runner.start(Workflow("w", step(slow, name="ask") >> ship, policies=[("ask", policy)]), 1)
    handed_out.wait(60)
    runner.complete(tokens[0], "yes")
    goes_on.set()

    assert handle.result() == "shipped: yes"
    assert len(tokens) == 1


def test_a_failure_that_is_quicker_than_the_function_ends_the_attempt(runner: Runner) -> None:
    async def slow(order: int) -> None:
        tokens.append(current().token)
        if len(tokens) == 1:
            handed_out.set()
            await asyncio.Event().wait()

    handed_out = threading.Event()
    policy = EXTERNAL.merge(Policy(max_retries=1))
    handle = runner.start(Workflow("w", step(slow, name="ask") >> ship, policies=[("ask", policy)]), 1)
    handed_out.wait(60)
    runner.fail(tokens[0], "no")
    runner.wait_until(handle.id, lambda run: is_open(run) and len(tokens) == 2)
    runner.complete(tokens[1], "yes")

    assert handle.result() == "shipped: yes"


def test_a_worker_process_has_the_token(tmp_path: Path) -> None:
    workflow = Workflow("w", step(write_token, name="ask"), policies=[("ask", EXTERNAL)])
    with Runner(tmp_path / "runs.db", executor="process", processes=1) as runner:
        handle = runner.start(workflow, str(tmp_path / "token"))
        runner.wait_until(handle.id, is_open)
        runner.complete((tmp_path / "token").read_text(), "yes")

        assert handle.result() == "yes"


def test_the_timeout_outlives_the_process() -> None:
    store = MemoryStore()
    workflow = orders(EXTERNAL.merge(Policy(timeout=3600.0)))
    with TestRunner(store) as first:
        first.start(workflow, 1, id="o")
        first.advance(minutes=30)
        now = first.now
    with TestRunner(store, start=now) as second:
        second.register(workflow)
        handle = second.resume("o")
        second.advance(minutes=29)
        assert handle.status() == "waiting"
        second.advance(minutes=2)

        assert handle.status() == "failed"
        (failure,) = second.get("o").failures.values()
        assert isinstance(failure.__cause__, StepTimeout)
        with pytest.raises(TokenExpired):
            second.complete(tokens[0], 1)


def test_a_run_that_is_not_in_memory_is_completed() -> None:
    with TestRunner(resident=0) as runner:
        handles = [runner.start(orders(), number) for number in range(20)]
        for number, token in enumerate(list(tokens)):
            runner.complete(token, number)

        assert [handle.result() for handle in handles] == [f"shipped: {number}" for number in range(20)]
    assert len(tokens) == 20


def test_a_transaction_of_a_saga_is_completed_from_outside_and_undone(runner: Runner) -> None:
    undone: list[Any] = []
    trip = Saga(name="trip")

    @trip.transaction(compensate=lambda request, results: undone.append(results["book"]))
    def book(request: Any, results: Any) -> None:
        tokens.append(current().token)

    @trip.transaction(compensate=None)
    def pay(request: Any, results: Any) -> None:
        raise ValueError("no money")

    handle = runner.start(Workflow("w", trip, policies=[("trip.book", EXTERNAL)]), 1)
    runner.wait_until(handle.id, is_open)
    runner.complete(tokens[0], "seat 5")
    handle.wait()

    assert undone == ["seat 5"]


def test_a_parked_run_keeps_its_completion(tmp_path: Path) -> None:
    with Runner(tmp_path / "runs.db") as runner:
        workflow = orders()
        handle = runner.start(workflow, 1, id="o")
        runner.wait_until("o", is_open)
        inner = runner._inner  # pyright: ignore[reportPrivateUsage] - a test may look inside
        worker = inner._runtime.registry.get("o")  # pyright: ignore[reportPrivateUsage]
        assert worker is not None
        parked = threading.Event()
        worker.dispatcher.loop.call_soon_threadsafe(worker.park, "for a test")
        worker.dispatcher.loop.call_soon_threadsafe(parked.set)
        parked.wait(60)

        runner.complete(tokens[0], "yes")
        handle = runner.resume("o", workflow=workflow)

        assert handle.result() == "shipped: yes"


# -- retries, forks and upgrades -----------------------------------------------------------------


def test_a_step_that_failed_outside_is_retried_with_another_token(runner: Runner) -> None:
    handle = runner.start(orders(), 1)
    runner.wait_until(handle.id, is_open)
    runner.fail(tokens[0], "closed today")
    with pytest.raises(RunFailed):
        handle.result()

    runner.retry(handle.id)
    runner.wait_until(handle.id, is_open)
    with pytest.raises(TokenExpired):
        runner.complete(tokens[0], "late")
    runner.complete(tokens[1], "yes")

    assert handle.result() == "shipped: yes"


def test_a_fork_of_a_run_that_waits_asks_again_and_each_has_its_answer(runner: Runner) -> None:
    handle = runner.start(orders(), 1)
    runner.wait_until(handle.id, is_open)

    fork = runner.fork(handle.id)
    runner.wait_until(fork.id, is_open)
    runner.complete(tokens[1], "no")
    runner.complete(tokens[0], "yes")

    assert (handle.result(), fork.result()) == ("shipped: yes", "shipped: no")
    assert len(tokens) == 2


def test_an_open_step_keeps_its_token_and_its_time_in_an_upgrade() -> None:
    with TestRunner() as runner:
        handle = runner.start(orders(Policy(execution_mode="external", timeout=60)), 1)
        runner.advance(seconds=10)
        policies = [("ask", Policy(execution_mode="external", timeout=60))]
        runner.upgrade(handle.id, Workflow("orders", ask >> ship >> step(str.upper, name="shout"), policies=policies))
        runner.advance(seconds=49)
        assert runner.status(handle.id) == "waiting"
        runner.complete(tokens[0], "yes")

        assert handle.result() == "SHIPPED: YES"
        assert len(tokens) == 1


def test_an_open_step_times_out_after_an_upgrade_when_it_would_have() -> None:
    policies = [("ask", Policy(execution_mode="external", timeout=60))]
    with TestRunner() as runner:
        handle = runner.start(Workflow("orders", ask >> ship, policies=policies), 1)
        runner.advance(seconds=10)
        other = step(lambda order: tokens.append(str(order)), name="ask")
        runner.upgrade(handle.id, Workflow("orders", other >> ship, policies=policies))
        runner.advance(seconds=51)

        assert isinstance(handle.wait().failures["ask"].__cause__, StepTimeout)


def test_a_step_in_flight_that_an_upgrade_runs_again_has_another_token(runner: Runner) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(order: int) -> None:
        tokens.append(current().token)
        entered.set()
        leave.wait(60)

    workflow = Workflow("orders", step(slow, name="ask") >> ship, policies=[("ask", EXTERNAL)])
    handle = runner.start(workflow, 1)
    assert entered.wait(60)

    runner.upgrade(handle.id, workflow, again=["ask"])
    leave.set()
    runner.wait_until(handle.id, is_open)

    with pytest.raises(TokenExpired, match="the run was retried, forked or upgraded since"):
        runner.complete(tokens[0], "late")
    runner.complete(tokens[1], "yes")
    assert handle.result() == "shipped: yes"


def test_a_message_with_a_token_that_an_upgrade_made_void_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        store = SQLiteStore(tmp_path / "runs.db")
        async with AsyncRunner(tmp_path / "runs.db") as owner, AsyncRunner(store) as other:
            handle = await owner.start(orders(), 1, id="o")
            await owner.wait_until("o", is_open)
            await owner.upgrade("o", orders(), again=["ask"])
            await owner.wait_until("o", lambda run: is_open(run) and len(tokens) == 2)
            with pytest.raises(TokenExpired, match="the run was retried, forked or upgraded since"):
                await other.complete(tokens[0], "late")
            await store.post([_completion(tokens[0], "late")])  # as if it had been sent before the upgrade
            await other.complete(tokens[1], "yes")

            assert await handle.result() == "shipped: yes"

    asynchronously(main)
    assert "has refused a message (completion)" in caplog.text


def test_a_completion_for_a_run_that_has_finished_meanwhile_stays_unread(tmp_path: Path) -> None:
    async def main() -> None:
        async with SQLiteStore(tmp_path / "runs.db") as store, AsyncRunner(store) as owner:
            handle = await owner.start(orders(), 1, id="o")
            await owner.wait_until("o", is_open)
            await owner.cancel("o")
            with pytest.raises(TokenExpired, match="the run is cancelled"):
                await owner.complete(tokens[0], "late")
            question = Message(run="o", kind="progress", body=b"how far?", at=0.0)
            await store.post([question, _completion(tokens[0], "later")])

            assert [getattr(event, "value", None) for event in await owner.unread("o")] == ["later"]
            assert (await handle.status()) == "cancelled"

    asynchronously(main)

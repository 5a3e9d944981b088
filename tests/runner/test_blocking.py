"""The blocking runner: many threads, its end, and what would end the program."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

import pytest
from small_flows import hang
from virtual_time import double

from weft import Policy, Run, Runner, Workflow, condition, step
from weft.errors import RunFailed, RunnerClosed, StoreUnavailable
from weft.runner import WorkerHooks
from weft.stores import MemoryStore, SQLiteStore
from weft.testing import Fault, FaultyStore


class Gate:
    """A function that says when it has begun, and ends when it is let."""

    def __init__(self) -> None:
        self.begun, self.opened = threading.Event(), threading.Event()

    def __call__(self, *args: Any) -> Any:
        self.begun.set()
        assert self.opened.wait(20)
        return args[0]


class Caller:
    """Calls something on another thread."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.raised: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.raised = error

    def ends(self) -> bool:
        """Whether it has returned, or does so soon."""
        self._thread.join(20)
        return not self._thread.is_alive()


def until_it_closes(runner: Runner, run: str) -> None:
    """Wait until *runner*, which another thread closes, says nothing of *run* any more."""
    until = monotonic() + 20
    while monotonic() < until:
        try:
            runner.status(run)
        except RunnerClosed:
            return
    raise AssertionError("it does not close")


# -- its end -------------------------------------------------------------------------------------


def test_a_runner_that_is_closed_by_two_threads_is_closed_once_and_both_return() -> None:
    gate = Gate()
    runner = Runner().open()
    handle = runner.start(Workflow("w", step(gate, name="slow")), 1)
    assert gate.begun.wait(20)

    closers = [Caller(runner.close) for _ in range(2)]
    waits = Caller(handle.wait)
    gate.opened.set()

    assert [closer.ends() for closer in closers] == [True, True]
    assert [closer.raised for closer in closers] == [None, None]
    assert waits.ends()


def test_a_second_close_does_not_cut_the_grace_time_of_the_first_short(tmp_path: Path) -> None:
    gate = Gate()
    workflow = Workflow("w", step(gate, name="slow"))
    runner = Runner(SQLiteStore(tmp_path / "runs.db")).open()
    runner.start(workflow, 1, id="a")
    assert gate.begun.wait(20)

    first, second = Caller(runner.close), Caller(runner.close)
    gate.opened.set()
    assert first.ends()
    assert second.ends()

    with Runner(SQLiteStore(tmp_path / "runs.db")) as again:
        assert [record.status for record in again.runs()] == ["completed"]


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_a_second_close_with_a_shorter_grace_time_hurries_the_first(executor: str, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    runner = Runner(executor=executor).open()
    handle = runner.start(Workflow("w", step(hang)), str(begun))
    wait_until(begun.exists, lambda: runner.get(handle.id).failures)

    first = Caller(lambda: runner.close(grace=3_600))
    wait_until(lambda: runner._is_closing, lambda: first.raised)
    second = Caller(lambda: runner.close(grace=0.0))

    assert second.ends()
    assert first.ends()


def wait_until(is_so: Callable[[], bool], found: Callable[[], object]) -> None:
    """Wait for a minute at most, and then show what was *found* instead."""
    for _ in range(6_000):
        if is_so():
            return
        threading.Event().wait(0.01)
    raise AssertionError(found())


def test_a_callback_that_never_returns_delays_no_end() -> None:
    gate = Gate()
    runner = Runner(grace=0.0).open()
    runner.start(double, 1, on_complete=gate)
    assert gate.begun.wait(20)

    closer = Caller(runner.close)

    assert closer.ends()
    gate.opened.set()


def test_a_callback_can_close_its_runner() -> None:
    closed = threading.Event()
    runner = Runner(grace=0.0).open()

    def close(*_: object) -> None:
        runner.close()
        closed.set()

    runner.start(double, 1, on_complete=close)

    assert closed.wait(20)


def test_a_callback_can_let_go_of_its_run_and_counts_as_called() -> None:
    stopped = threading.Event()
    calls: list[str] = []
    with Runner() as runner:

        def stop(run_id: str, _: Run) -> None:
            calls.append(run_id)
            runner.stop(run_id, grace=3600)
            stopped.set()

        runner.start(double, 1, id="a", on_complete=stop)
        assert stopped.wait(20)

        assert runner.held == []
        assert [record.status for record in runner.runs()] == ["completed"]
        assert calls == ["a"]


def test_a_caller_that_waits_for_a_store_that_is_unavailable_is_told_that_the_runner_was_closed() -> None:
    asked = threading.Event()

    def away(call: str, _: int) -> Fault | None:
        if call != "acquire":
            return None
        asked.set()
        return Fault.fail()

    runner = Runner(FaultyStore(MemoryStore(), away)).open()
    runner.start(double, 1, id="a", open=True).wait()
    runner.stop("a")
    resumes = Caller(lambda: runner.resume("a", workflow=double))
    assert asked.wait(20)

    runner.close(grace=0.2)

    assert resumes.ends()
    assert isinstance(resumes.raised, RunnerClosed | StoreUnavailable)


def test_a_runner_that_was_closed_stays_closed_and_says_so() -> None:
    runner = Runner().open()
    runner.close()

    with pytest.raises(RunnerClosed, match="create a new one"):
        runner.open()
    with pytest.raises(RunnerClosed):
        runner.runs()


def test_a_runner_is_not_closed_from_inside_of_its_own_loop() -> None:
    with Runner() as runner:

        async def close(x: int) -> int:
            runner.close()
            return x

        with pytest.raises(RunFailed, match="inside its own loop"):
            runner.start(Workflow("w", step(close)), 1).result(20)
        assert runner.start(double, 1).result(20) == 2


def test_a_runner_that_is_opened_by_two_threads_is_opened_once() -> None:
    runner = Runner()

    openers = [Caller(runner.open) for _ in range(4)]
    assert all(opener.ends() for opener in openers)

    assert [thread.name for thread in threading.enumerate()].count("weft-runner") == 1
    runner.close()


def test_a_second_thread_that_closes_a_runner_joins_the_first_and_may_be_in_a_greater_hurry() -> None:
    gate = Gate()
    runner = Runner().open()
    runner.start(Workflow("w", step(gate, name="block")), 1, id="a")
    assert gate.begun.wait(20)
    patient = Caller(lambda: runner.close(grace=3600.0))
    until_it_closes(runner, "a")

    hurried = Caller(lambda: runner.close(grace=0.0))

    try:
        assert (hurried.ends(), patient.ends()) == (True, True)
    finally:
        gate.opened.set()


# -- what would end the program ------------------------------------------------------------------


def ends(error: BaseException) -> Callable[..., NoReturn]:
    def call(*_: object) -> NoReturn:
        raise error

    return call


def broken(_: object) -> NoReturn:
    raise OSError("down")


PLACES: dict[str, Callable[[Callable[..., NoReturn]], tuple[Workflow, dict[str, Any]]]] = {
    "a hook": lambda call: (double, {"hooks": WorkerHooks(on_dispatch=call)}),
    "a transforming hook": lambda call: (double, {"hooks": WorkerHooks(transform=call)}),
    "on_complete": lambda call: (double, {"on_complete": call}),
    "an inline step": lambda call: (Workflow("w", step(call, name="call")), {"executor": "inline"}),
    "a condition": lambda call: (Workflow("w", condition(call, name="call") >> step(abs)), {}),
    "a fallback": lambda call: (Workflow("w", step(broken)).with_policies([("broken", Policy(fallback=call))]), {}),
    "a backoff": lambda call: (
        Workflow("w", step(broken)).with_policies([("broken", Policy(max_retries=1, backoff=call))]),
        {},
    ),
    "a key": lambda call: (double.with_policies([("double", Policy(idempotency_key=call))]), {}),
}


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
@pytest.mark.parametrize("place", PLACES)
def test_what_would_end_the_program_ends_nothing_but_what_raised_it(place: str, error: BaseException) -> None:
    workflow, options = PLACES[place](ends(error))
    with Runner() as runner:
        run = runner.start(workflow, 1, **options).wait(20)

        assert run.results() == {"double": 2} or type(error).__name__ in str(run.failures)
        assert runner.start(double, 4).result(20) == 8


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, StopIteration, ValueError])
def test_what_a_predicate_raises_is_its_callers(error: type[BaseException]) -> None:
    with Runner() as runner:
        handle = runner.start(double, 1, id="a")

        with pytest.raises(RuntimeError if error is StopIteration else error):
            runner.wait_until("a", ends(error()), 20)
        assert handle.result(20) == 2


def test_an_async_callback_that_wants_to_exit_ends_nothing() -> None:
    async def leave(*_: object) -> None:
        sys.exit(3)

    with Runner() as runner:
        assert runner.start(double, 1, on_complete=leave).result(20) == 2
        assert runner.start(double, 4).result(20) == 8


def test_a_callback_that_is_named_and_not_there_is_refused_where_it_is_given() -> None:
    with Runner() as runner, pytest.raises(ValueError, match="nowhere:at_all"):
        runner.start(double, 1, on_complete="nowhere:at_all")


def test_coroutines_that_do_not_listen_delay_the_end_only_for_a_moment() -> None:
    begun, may_end = threading.Event(), threading.Event()

    async def deaf(x: int) -> int:
        begun.set()
        while not may_end.is_set():
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue
        return x

    runner = Runner(grace=0.0).open()
    runner.start(Workflow("w", step(deaf)), 1)
    assert begun.wait(20)

    assert Caller(runner.close).ends()
    may_end.set()

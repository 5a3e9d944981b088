"""Values that cross between a runner and its worker processes, and errors that say what cannot."""

from __future__ import annotations

import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from shop_module import run_in_a_process

from weft import Run, Workflow, step
from weft.errors import DescribedError, NoRun, NotTransferable
from weft.executors import ProcessExecutor
from weft.executors.transfer import pack, unpack
from weft.testing.contracts.gate import Gate
from weft.testing.contracts.owner import PATIENCE, Owner, in_a_loop, runnable_of
from weft.testing.contracts.steps import double, mark, own_pid

pytestmark = pytest.mark.usefixtures("main_module")

# -- what crosses ----------------------------------------------------------------------------------


def test_a_decorated_step_is_found_by_its_name(shop: Any) -> None:
    assert run_in_a_process((shop.price, 2)) == [20]


def test_a_coroutine_function_is_run_to_its_end(shop: Any) -> None:
    assert run_in_a_process((shop.later, 2)) == [3]


@in_a_loop
async def test_a_reduce_crosses_with_its_initial_value(shop: Any) -> None:
    [runnable] = Workflow("w", shop.gather).plan([1, 2]).prepare()
    owner = Owner(ProcessExecutor(1))

    owner.executor.submit(1, runnable)
    outcome = await owner.result(1)
    await owner.close()

    assert outcome.result == [1, 2]


@in_a_loop
async def test_context_and_fallbacks_cross(shop: Any) -> None:
    [runnable] = Run(Workflow("w", step(shop.greet)), context={"greeting": "hello"}).plan("Ada").prepare()
    owner = Owner(ProcessExecutor(1))

    owner.executor.submit(1, runnable)
    owner.executor.submit(2, runnable.using(double))
    results = [(await owner.result(1)).result, (await owner.result(2)).result]
    await owner.close()

    assert results == ["hello, Ada", "AdaAda"]


@in_a_loop
async def test_entries_that_cannot_be_pickled_stay_behind_and_the_step_runs(caplog: pytest.LogCaptureFixture) -> None:
    owner = Owner(ProcessExecutor(1))

    owner.executor.submit(1, replace(runnable_of(mark, 1), entries=(lambda: None,)))
    outcome = await owner.result(1)
    await owner.close()

    assert (outcome.result, outcome.error) == (0, None)
    assert "'it' runs in a worker process without its telemetry" in caplog.text


def test_entries_that_cannot_be_loaded_are_left_out(shop: Any, caplog: pytest.LogCaptureFixture) -> None:
    there = replace(runnable_of(shop.price, 2), entries=(shop.Unloadable(),))

    arrived = unpack(pack(1, there), lambda: None)

    assert arrived.entries == ()
    assert arrived.execute().result == 20
    assert "'it' runs without its telemetry" in caplog.text


def test_values_larger_than_a_pipe_cross() -> None:
    [result] = run_in_a_process((double, b"x" * 5_000_000))

    assert len(result) == 10_000_000


def test_a_function_without_a_name_fails_with_what_to_do() -> None:
    refused, after = run_in_a_process((lambda x: x, 1), (double, 1))

    assert isinstance(refused, NotTransferable)
    assert "'it'" in str(refused)
    assert "<lambda>" in str(refused)
    assert "top level of a module" in str(refused)
    assert after == 2


@in_a_loop
async def test_an_argument_that_cannot_cross_is_named(shop: Any) -> None:
    [runnable] = Run(Workflow("w", step(shop.greet)), context={"greeting": threading.Lock()}).plan("Ada").prepare()
    owner = Owner(ProcessExecutor(1))

    owner.submit(1, double, threading.Lock())
    owner.executor.submit(2, runnable)
    errors = [str((await owner.result(1)).error), str((await owner.result(2)).error)]
    await owner.close()

    assert "its argument 1, a lock," in errors[0]
    assert "'greet'" in errors[1]
    assert "its argument 'greeting', a lock," in errors[1]


def test_a_result_that_cannot_cross_fails_clearly(shop: Any) -> None:
    [refused] = run_in_a_process((shop.make_lock, 1))

    assert isinstance(refused, NotTransferable)
    assert "its result, a lock," in str(refused)


def test_a_module_that_only_the_parent_has_fails_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    ghost = types.ModuleType("weft_ghost")
    exec("def haunt(x): return x", ghost.__dict__)  # noqa: S102
    monkeypatch.setitem(sys.modules, "weft_ghost", ghost)

    refused, after = run_in_a_process((ghost.haunt, 1), (double, 1))

    assert isinstance(refused, NotTransferable)
    assert "'it'" in str(refused)
    assert "No module named 'weft_ghost'" in str(refused)
    assert after == 2


def test_an_exception_keeps_its_type_and_tells_where_it_was_raised(shop: Any) -> None:
    [error] = run_in_a_process((shop.decline, 7))

    assert type(error) is shop.Declined
    assert error.args == ("no money", 7)
    assert "in decline" in error.__notes__[0]


def test_an_exception_that_cannot_be_made_again_is_described(shop: Any) -> None:
    detailed, coded = run_in_a_process((shop.decline_in_detail, 7), (shop.decline_with_a_code, 7))

    assert isinstance(detailed, DescribedError)
    assert (detailed.kind, detailed.message) == ("weft_shop.Detailed", "no money (402)")
    assert isinstance(coded, DescribedError)
    assert (coded.kind, coded.message) == ("weft_shop.Coded", "no money (402)")


def test_a_keyboard_interrupt_of_the_step_fails_its_attempt(shop: Any) -> None:
    error, after = run_in_a_process((shop.interrupt, 1), (double, 1))

    assert type(error) is KeyboardInterrupt
    assert after == 2


def test_what_a_worker_cannot_know_it_says(shop: Any) -> None:
    [error] = run_in_a_process((shop.runnable_id, 1))

    assert type(error) is NoRun
    assert "idempotency_key" in str(error)


def test_a_step_knows_what_it_was_given(shop: Any) -> None:
    assert run_in_a_process((shop.inputs, "a")) == [("a",)]


@in_a_loop
async def test_what_a_step_adds_to_its_run_crosses(shop: Any) -> None:
    run = Workflow("w", step(shop.add_more, name="it")).plan(2)
    [runnable] = run.prepare()
    owner = Owner(ProcessExecutor(1))

    owner.executor.submit(1, runnable)
    outcome = await owner.result(1)
    await owner.close()

    assert run.apply(outcome).react().value("price") == 20


def test_an_addition_that_cannot_cross_fails_clearly(shop: Any) -> None:
    [error] = run_in_a_process((shop.add_what_cannot_cross, 1))

    assert type(error) is NotTransferable
    assert "its addition to the run" in str(error)


ELSEWHERE = """
import os
import shop
from weft import Runner, Workflow, step

here = os.getcwd()
os.chdir("elsewhere")
Runner().open().close()  # multiprocessing is imported, and remembers this folder
os.chdir(here)
with Runner(executor="process") as runner:
    print(runner.start(Workflow("w", step(shop.double, name="double")), 21).result())
"""


def test_a_program_that_has_changed_its_folder_sends_what_it_can_import(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "shop.py").write_text("def double(x):\n    return x * 2\n", encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )

    assert done.stdout == "42\n", done.stderr


# -- signs of life ---------------------------------------------------------------------------------


@in_a_loop
async def test_signs_of_life_reach_their_listener(shop: Any) -> None:
    beats: list[int] = []
    runnable = runnable_of(shop.beat, 0)
    runnable.on_heartbeat = lambda: beats.append(threading.get_ident())
    owner = Owner(ProcessExecutor(1))

    owner.executor.submit(1, runnable)
    outcome = await owner.result(1)
    await owner.close()

    assert outcome.status == "completed"
    assert 0 < len(beats) <= 100


def test_signs_of_life_that_were_not_asked_for_do_nothing(shop: Any) -> None:
    assert run_in_a_process((shop.beat, 0), (double, 2)) == [None, 4]


@in_a_loop
async def test_a_sign_of_life_that_comes_too_late_is_not_heard(shop: Any) -> None:
    beats: list[int] = []
    owner = Owner(ProcessExecutor(1))
    async with Gate() as gate:
        runnable = runnable_of(shop.beat_when_let_in, gate.address)
        runnable.on_heartbeat = lambda: beats.append(1)
        owner.executor.submit(1, runnable)
        pid = (await owner.result(1)).result
        await gate.until(lambda: gate.came == 1)

        gate.open()
        await gate.until(lambda: gate.went == 1)
        owner.submit(2, own_pid, 0)
        after = (await owner.result(2)).result
    await owner.close()

    assert (beats, after) == ([], pid)


def test_a_step_that_forks_and_returns_twice_answers_once(shop: Any) -> None:
    first, second, third = run_in_a_process((shop.return_twice, 0), (double, 2), (own_pid, 0))

    assert (first, second) == (third, 4)

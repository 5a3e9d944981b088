"""
Execution in worker processes: what crosses, who dies, and who does not.

The deaths are real ones.  What is run stands in a module of its own, which the workers can import.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
import types
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from weft import Run, Workflow, step
from weft.errors import DescribedError, NoRun, NotTransferable, WorkerDied
from weft.executors import ProcessExecutor
from weft.testing.contracts.executor import ConcurrentExecutorContract
from weft.testing.contracts.gate import Gate, knock
from weft.testing.contracts.owner import PATIENCE, Owner, in_a_loop, runnable_of
from weft.testing.contracts.steps import double, own_pid

SHOP = dedent("""
    import asyncio, ctypes, multiprocessing, os, socket, threading

    import weft
    from weft import context, reduce, step

    class Declined(Exception):
        pass

    class Detailed(Exception):
        def __init__(self, code, text):
            super().__init__(f"{text} ({code})")

    class Coded(Exception):
        def __init__(self, text, code=0):
            super().__init__(f"{text} ({code})")

    @step
    def price(x):
        return x * 10

    @step
    async def later(x):
        await asyncio.sleep(0)
        return x + 1

    @reduce(init=list)
    def gather(acc, x):
        return [*acc, x]

    def decline(x):
        raise Declined("no money", x)

    def decline_in_detail(x):
        raise Detailed(402, "no money")

    def decline_with_a_code(x):
        raise Coded("no money", 402)

    def interrupt(x):
        raise KeyboardInterrupt

    def make_lock(x):
        return threading.Lock()

    def runnable_id(x):
        return weft.current().runnable_id

    def inputs(x):
        return weft.current().inputs

    def add_more(x):
        weft.current().add(price, to="it")
        return x

    def add_what_cannot_cross(x):
        weft.current().add(step(lambda x: x, name="more"))

    def beat(address):
        for _ in range(100):
            weft.current().heartbeat()

    def beat_when_let_in(address):
        def wait(current):
            with socket.create_connection(address) as connection:
                connection.recv(16)
                current.heartbeat()

        threading.Thread(target=wait, args=[weft.current()], daemon=True).start()
        return os.getpid()

    def return_twice(x):
        os.fork()
        return os.getpid()

    def use_a_pool_of_its_own(x):
        with multiprocessing.get_context("fork").Pool(1) as pool:  # ends its processes with SIGTERM
            return pool.apply(abs, [x])

    def greet(x, greeting=context("greeting")):
        return f"{greeting}, {x}"

    kept = []

    def stay_connected(address):
        kept.append(socket.create_connection(address))

    def stand_still(address):
        stay_connected(address)
        ctypes.PyDLL(None).pause()  # native code that lets no other thread run

    def leave_a_child(address):
        if os.fork() == 0:
            with socket.create_connection(address) as connection:
                connection.recv(16)
            os._exit(0)
        os._exit(5)
""")


@pytest.fixture(autouse=True)
def main_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the main module, which a worker would import: in a test run that is pytest, and takes half a second."""
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__spec__", None, raising=False)
    monkeypatch.delattr(main, "__file__", raising=False)


class TestProcessExecutor(ConcurrentExecutorContract):
    """The contract."""

    @pytest.fixture
    def executor(self) -> ProcessExecutor:
        return ProcessExecutor(2, capacity=20)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that parent and workers can import."""
    (tmp_path / "weft_shop.py").write_text(SHOP, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("weft_shop")
    del sys.modules["weft_shop"]


def run_in_a_process(*work: tuple[Any, Any]) -> list[Any]:
    """What each function gave on its value, or raised, one after the other in one worker."""

    async def main() -> list[Any]:
        owner = Owner(ProcessExecutor(1))
        for ticket, (function, value) in enumerate(work):
            owner.submit(ticket, function, value)
            await owner.result(ticket)
        await owner.close()
        return [outcome.error or outcome.result for outcome in owner.outcomes.values()]

    return asyncio.run(main())


# -- what crosses --------------------------------------------------------------------------------


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


# -- signs of life -------------------------------------------------------------------------------


@in_a_loop
async def test_signs_of_life_reach_who_listens(shop: Any) -> None:
    beats: list[int] = []
    runnable = runnable_of(shop.beat, 0)
    runnable.pulse = lambda: beats.append(threading.get_ident())
    owner = Owner(ProcessExecutor(1))

    owner.executor.submit(1, runnable)
    outcome = await owner.result(1)
    await owner.close()

    assert outcome.status == "completed"
    assert 0 < len(beats) <= 100


def test_signs_of_life_that_nobody_asked_for_do_nothing(shop: Any) -> None:
    assert run_in_a_process((shop.beat, 0), (double, 2)) == [None, 4]


@in_a_loop
async def test_a_sign_of_life_that_comes_too_late_is_not_heard(shop: Any) -> None:
    beats: list[int] = []
    owner = Owner(ProcessExecutor(1))
    async with Gate() as gate:
        runnable = runnable_of(shop.beat_when_let_in, gate.address)
        runnable.pulse = lambda: beats.append(1)
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


# -- who dies ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "value", "exitcode", "told"),
    [
        (ctypes.string_at, 0, -signal.SIGSEGV, "killed by SIGSEGV"),
        (os._exit, 3, 3, "exited with code 3"),
        (signal.raise_signal, signal.SIGKILL, -signal.SIGKILL, "out of memory"),
    ],
)
def test_a_death_fails_one_attempt(function: Any, value: int, exitcode: int, told: str) -> None:
    before, died, after = run_in_a_process((double, 1), (function, value), (double, 2))

    assert (before, after) == (2, 4)
    assert isinstance(died, WorkerDied)
    assert died.exitcode == exitcode
    assert told in str(died)
    assert "'it'" in str(died)


@in_a_loop
async def test_a_death_is_not_felt_next_door() -> None:
    owner = Owner(ProcessExecutor(2))
    async with Gate() as gate:
        owner.submit(1, knock, gate.address)
        await gate.until(lambda: gate.came == 1)

        owner.submit(2, ctypes.string_at, 0)
        died = await owner.result(2)
        gate.open()
        lived = await owner.result(1)
    await owner.close()

    assert isinstance(died.error, WorkerDied)
    assert lived.result == "through"


@in_a_loop
async def test_a_kill_from_outside_fails_what_runs() -> None:
    owner = Owner(ProcessExecutor(1))
    owner.submit(1, own_pid, 0)
    pid = (await owner.result(1)).result
    async with Gate() as gate:
        owner.submit(2, knock, gate.address)
        await gate.until(lambda: gate.came == 1)

        os.kill(pid, signal.SIGKILL)
        died = await owner.result(2)
    await owner.close()

    assert isinstance(died.error, WorkerDied)
    assert died.error.exitcode == -signal.SIGKILL


@in_a_loop
async def test_a_death_between_two_steps_costs_no_attempt() -> None:
    executor = ProcessExecutor(1)
    owner = Owner(executor)
    owner.submit(1, own_pid, 0)
    first = (await owner.result(1)).result
    [child] = executor._children

    os.kill(first, signal.SIGKILL)
    assert child._watch.has_ended(PATIENCE)
    owner.submit(2, own_pid, 0)
    second = (await owner.result(2)).result
    await owner.close()

    assert isinstance(second, int)
    assert second != first


@in_a_loop
async def test_a_death_is_noticed_though_a_grandchild_holds_the_pipe(shop: Any) -> None:
    owner = Owner(ProcessExecutor(1))
    async with Gate() as gate:
        owner.submit(1, shop.leave_a_child, gate.address)
        died = await owner.result(1)
        await gate.until(lambda: gate.came == 1)
    await owner.close()

    assert isinstance(died.error, WorkerDied)
    assert died.error.exitcode == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@in_a_loop
async def test_a_signal_to_all_is_left_to_the_parent(number: signal.Signals) -> None:
    owner = Owner(ProcessExecutor(1))
    owner.submit(1, own_pid, 0)
    pid = (await owner.result(1)).result
    async with Gate() as gate:
        owner.submit(2, knock, gate.address)
        await gate.until(lambda: gate.came == 1)

        os.kill(pid, number)
        gate.open()
        outcome = await owner.result(2)
    await owner.close()

    assert outcome.result == "through"


STARTING = """
import asyncio, signal, sys
from weft.executors import ProcessExecutor
from weft.testing.contracts.gate import knock
from weft.testing.contracts.owner import Owner
from weft.testing.contracts.steps import double

if __name__ == "__mp_main__":  # a worker, long before it can say what it does with signals
    knock((sys.argv[1], int(sys.argv[2])))

async def main():
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    owner = Owner(ProcessExecutor(1))
    owner.submit(1, double, 2)
    outcome = await owner.result(1)
    print(outcome.error or outcome.result)
    await owner.close()

if __name__ == "__main__":
    asyncio.run(main())
"""


@in_a_loop
async def test_a_signal_to_all_is_left_to_the_parent_also_while_a_worker_starts(tmp_path: Path) -> None:
    (tmp_path / "starting.py").write_text(STARTING, encoding="utf-8")
    async with Gate() as gate:
        host, port = gate.address
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, tmp_path / "starting.py", host, str(port)),
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        await gate.until(lambda: gate.came == 1)

        for number in (signal.SIGINT, signal.SIGTERM):
            os.killpg(program.pid, number)
        gate.open()
        told, _ = await program.communicate()

    assert told.decode().strip() == "4"


def test_what_a_step_has_forked_can_be_ended_with_sigterm(shop: Any) -> None:
    assert run_in_a_process((shop.use_a_pool_of_its_own, -2)) == [2]


# -- stopping ------------------------------------------------------------------------------------


@in_a_loop
async def test_what_is_cancelled_while_its_process_starts_never_runs() -> None:
    owner = Owner(ProcessExecutor(1))
    async with Gate() as gate:
        owner.submit(1, knock, gate.address)
        owner.executor.cancel(1)
        owner.submit(2, double, 2)
        outcome = await owner.result(2)
    await owner.close()

    assert outcome.result == 4
    assert (gate.came, list(owner.outcomes)) == (0, [2])


@in_a_loop
async def test_cancelling_one_never_hits_the_next() -> None:
    """What has just ended is cancelled while the worker is at the next one already."""
    owner = Owner(ProcessExecutor(1))

    for ticket in range(0, 100, 2):
        owner.submit(ticket, double, ticket)
        owner.submit(ticket + 1, double, ticket)
        await owner.woken()
        owner.executor.cancel(ticket)
        owner.collect()
        await owner.result(ticket + 1)
    await owner.close()

    assert {outcome.status for ticket, outcome in owner.outcomes.items() if ticket % 2} == {"completed"}


@in_a_loop
async def test_closed_it_leaves_no_process_behind() -> None:
    owner = Owner(ProcessExecutor(1))
    owner.submit(1, own_pid, 0)
    pid = (await owner.result(1)).result

    await owner.close()

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


PROGRAM = """
import asyncio, sys
import weft_shop
from weft.executors import ProcessExecutor
from weft.testing.contracts.owner import Owner

async def main(function, host, port):
    owner = Owner(ProcessExecutor(1))
    owner.submit(1, getattr(weft_shop, function), (host, int(port)))
    if function == "stay_connected":
        await owner.result(1)
    else:
        owner.submit(2, getattr(weft_shop, function), (host, int(port)))  # waits for the first, and must not follow it
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)

if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("ending", ["kill", "exit"])
@pytest.mark.parametrize("function", ["stay_connected", "stand_still"])
@in_a_loop
async def test_a_worker_dies_with_its_parent(tmp_path: Path, shop: Any, function: str, ending: str) -> None:
    """However the parent ends, and whether the worker is idle or stuck in native code."""
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    async with Gate() as gate:
        host, port = gate.address
        command = [sys.executable, tmp_path / "program.py", function, host, str(port)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:  # noqa: ASYNC220
            await gate.until(lambda: gate.came == 1)
            assert parent.stdout is not None
            await asyncio.to_thread(parent.stdout.readline)

            if ending == "kill":
                parent.kill()
            else:
                assert parent.stdin is not None
                parent.stdin.close()
            await gate.until(lambda: gate.went == 1)
            await asyncio.to_thread(parent.wait)

        assert gate.came == 1
        assert parent.returncode == (-signal.SIGKILL if ending == "kill" else 0)


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

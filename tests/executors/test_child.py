"""A worker process leaves signals to its parent, and dies with it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from shop_module import run_in_a_process

from weft.executors import ProcessExecutor
from weft.testing.contracts.gate import Gate, knock
from weft.testing.contracts.owner import Owner, in_a_loop
from weft.testing.contracts.steps import own_pid

pytestmark = pytest.mark.usefixtures("main_module")


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

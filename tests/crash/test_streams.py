"""kill -9 of a process whose step writes a stream: what was read stays, and the next execution writes its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest
import streamer

from weft import Runner
from weft.stores import SQLiteStore


def execute(path: Path, moment: str, strategy: str) -> list[str]:
    """Run the program to its end, or kill it when it has said half of the numbers; return what it has said."""
    command = [sys.executable, streamer.__file__, str(path), moment, strategy]
    said: list[str] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line.strip())
            if moment == "hold" and len(said) == streamer.COUNT // 2:
                process.send_signal(signal.SIGKILL)
    assert process.returncode == (-signal.SIGKILL if moment == "hold" else 0)
    return said


@pytest.mark.parametrize("strategy", ["every_cycle", "pipelined", "manual"])
def test_what_was_read_before_a_kill_is_read_again_and_the_step_writes_its_own(strategy: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    before = execute(path, "hold", strategy)
    after = execute(path, "go", strategy)

    assert after[: streamer.COUNT // 2] == before[: streamer.COUNT // 2]
    assert after[-1] == "result 1"
    with Runner(SQLiteStore(path)) as runner:
        items = list(runner.stream("job", "numbers"))
    assert [item.offset for item in items] == list(range(len(items)))
    first, last = [list(group) for _, group in groupby(items, key=lambda item: item.execution)]
    assert [item.value for item in first] == list(range(len(first)))
    assert [item.value for item in last] == list(range(streamer.COUNT))

"""A program that gets SIGTERM ends in order: what its steps have made is written, and its runs are given up."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

import obedient
import pytest

from weft import Run
from weft.runner.durability.recovery import recover
from weft.stores import SQLiteStore

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM that could be taken")


class Program:
    """A program of ``obedient.py`` at work."""

    def __init__(self, name: str, path: Path) -> None:
        command = [sys.executable, "-W", "ignore", obedient.__file__, name, str(path)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def hear(self) -> str:
        """Return the next line that it prints; the empty one if it has ended, or prints none for a minute."""
        assert self._process.stdout is not None
        patience = threading.Timer(60, self._process.kill)
        patience.start()
        try:
            return self._process.stdout.readline().rstrip("\n")
        finally:
            patience.cancel()

    def tell(self, pid: int | None = None) -> None:
        """Send it, or a child of it, a SIGTERM."""
        os.kill(self._process.pid if pid is None else pid, signal.SIGTERM)

    def go_on(self) -> None:
        """Let its step end."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self) -> tuple[str, str, int]:
        """Return what it prints from now on, what it complains of, and how it ends."""
        out, err = self._process.communicate(timeout=60)
        return out, err, self._process.returncode


def stored(path: Path) -> tuple[Run, Any]:
    """Return the run as the file has it, and its record."""

    async def load() -> tuple[Run, Any]:
        async with SQLiteStore(path) as store:
            loaded = await store.load_since("job", 0)
            found = await recover(store, loaded, workflow=obedient.flow, goes_on=False)
            return found.run, await store.find("job")

    return asyncio.run(load())


@pytest.mark.parametrize("name", ["waits", "two"])
def test_a_program_that_waits_for_a_run_closes_its_runner_and_exits_with_143(name: str, tmp_path: Path) -> None:
    with Program(name, tmp_path / "runs.db") as program:
        assert program.hear() == "at work"
        program.tell()
        assert program.hear() == "told 143"
        assert program.hear() == "in close"
        program.go_on()

        assert program.end() == ("", "", 143)

    run, record = stored(tmp_path / "runs.db")
    assert (run.values("slow"), run.values("after")) == ([2], [])
    assert record.owner is None


def test_a_signal_that_comes_to_another_thread_ends_the_wait_of_the_main_one(tmp_path: Path) -> None:
    with Program("beside", tmp_path / "runs.db") as program:
        assert program.hear() == "at work"
        program.go_on()
        assert program.hear() == "told 143"
        assert program.hear() == "in close"
        program.go_on()

        assert program.end()[::2] == ("", 143)


@pytest.mark.parametrize("signals", [1, 2])
def test_a_close_is_not_cut_short(signals: int, tmp_path: Path) -> None:
    with Program("closes", tmp_path / "runs.db") as program:
        assert program.hear() == "at work"
        assert program.hear() == "in close"
        for _ in range(signals):
            program.tell()
        program.go_on()

        out, err, code = program.end()
        assert (out, code) == ("", 143)
        assert err.startswith("another process could not find the function of 'slow'")
        assert err.count("\n") == 1

    run, record = stored(tmp_path / "runs.db")
    assert run.values("slow") == [2]
    assert record.owner is None


def test_a_program_that_has_a_handler_of_its_own_keeps_it(tmp_path: Path) -> None:
    with Program("handles", tmp_path / "runs.db") as program:
        assert program.hear() == "at work"
        program.tell()
        assert program.hear() == "told"
        program.go_on()

        assert program.end() == ("after\ndone\n", "", 0)


def test_a_handler_that_was_installed_meanwhile_stays(tmp_path: Path) -> None:
    with Program("handles_later", tmp_path / "runs.db") as program:
        assert program.end() == ("True\n", "", 0)


def test_a_runner_that_was_opened_on_a_thread_changes_nothing(tmp_path: Path) -> None:
    with Program("elsewhere", tmp_path / "runs.db") as program:
        assert program.hear() == "at work"
        program.tell()

        assert program.end() == ("", "", -signal.SIGTERM)


def test_a_runner_that_was_closed_on_a_thread_leaves_the_signal_to_its_default(tmp_path: Path) -> None:
    with Program("closed_elsewhere", tmp_path / "runs.db") as program:
        assert program.hear() == "closed"
        program.tell()

        assert program.end() == ("", "", -signal.SIGTERM)


def test_a_forked_process_is_ended_as_if_there_were_no_runner(tmp_path: Path) -> None:
    with Program("forks", tmp_path / "runs.db") as program:
        child = int(program.hear().removeprefix("child "))
        program.tell(child)

        assert program.end() == (f"exited with {-signal.SIGTERM}\n", "", 0)


def test_a_forked_process_with_a_runner_of_its_own_ends_in_order(tmp_path: Path) -> None:
    with Program("forks_a_runner", tmp_path / "runs.db") as program:
        child = int(program.hear().removeprefix("child "))
        assert program.hear() == "at work"
        program.tell(child)
        assert program.hear() == "told 143"
        assert program.hear() == "in close"
        program.go_on()

        assert program.end() == ("exited with 143\n", "", 0)

    assert stored(tmp_path / "runs.db")[0].values("slow") == [2]


def test_what_was_there_is_put_back_by_the_last_runner_that_is_closed(tmp_path: Path) -> None:
    with Program("states", tmp_path / "runs.db") as program:
        out, err, code = program.end()

    assert (err, code) == ("", 0)
    assert out.splitlines() == ["(<Handlers.SIG_DFL: 0>, True, True, True)", "True"]

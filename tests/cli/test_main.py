"""The command as a program: with and without what it needs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from weft import Runner, Workflow, step
from weft.cli.app import app
from weft.stores import SQLiteStore

WITHOUT = (
    "import sys; sys.modules[{missing!r}] = None; sys.argv = ['weft', *sys.argv[1:]]; import weft.cli; weft.cli.main()"
)


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_typer_and_rich_one_line_says_what_to_install(shop: Any, missing: str) -> None:
    done = shop.python("-c", WITHOUT.format(missing=missing), "ls", "--store", "runs.db", check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "the weft command needs typer and rich: pip install '.[cli]' in a checkout\n"


def test_the_demonstration_needs_neither(shop: Any) -> None:
    done = shop.python("-c", WITHOUT.format(missing="typer"), "demo", check=False)

    assert done.returncode == 0
    assert "shipped: 57.1 EUR" in done.stdout


def test_the_version_is_printed(shop: Any) -> None:
    assert shop.command("--version").out.startswith("weft ")


def test_help_lists_the_commands(shop: Any) -> None:
    said = shop.command("--help")

    assert [word for word in ("ls", "show", "log", "resume", "doctor", "demo") if f"  {word} " not in said.out] == []


@pytest.mark.parametrize("group", [[], ["schedules"], ["jobs"]])
def test_help_has_every_command_in_a_section_and_on_a_whole_line(weft: Callable[..., Any], group: list[str]) -> None:
    said = weft(*group, "--help").out

    assert [line for line in said.splitlines() if line.endswith("...") and "[ARGS]" not in line] == []
    assert "None:" not in said


def test_every_command_that_answers_can_answer_in_json() -> None:
    without = {"init", "demo", "ui", "worker"}  # they make files, tell a story, and serve
    groups = [app, *(each.typer_instance for each in app.registered_groups)]
    commands = [each for group in groups for each in group.registered_commands]
    callbacks = {each.name or str(getattr(each.callback, "__name__", "")): each.callback for each in commands}

    have = {name for name, callback in callbacks.items() if callback and "as_json" in signature(callback).parameters}

    assert callbacks.keys() - have == without


def test_what_a_poor_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner:
        runner.start(Workflow("w", step(str.upper, name="up")), "naïve ☕", id="r").wait()

    done = subprocess.run(
        [sys.executable, "-m", "weft", "log", "--store", tmp_path / "runs.db", "r"],
        env={"PYTHONPATH": ":".join(sys.path), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "NA\\xcfVE \\u2615" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [["ls"], ["ls", "--json"], ["log", "r", "-f"]])
def test_an_answer_that_cannot_be_written_is_one_line(tmp_path: Path, arguments: list[str]) -> None:
    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner:
        runner.start(Workflow("w", step(str.upper, name="up")), "a", id="r").wait()

    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "weft", *arguments, "--store", "runs.db"],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )

    assert done.returncode == 1
    assert done.stderr == "weft: the answer cannot be written: No space left on device; send it elsewhere\n"


def test_a_worker_that_is_told_to_stop_while_it_imports_ends_well(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGTERM); raise SystemExit(7)")

    done = subprocess.run(
        [sys.executable, "-m", "weft", "worker", "--store", "postgresql://nowhere/nothing"],
        env={"PYTHONPATH": ":".join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

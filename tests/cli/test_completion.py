"""Completion as a shell asks for it: the script of the shell calls the program with what was written so far."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weft import Runner, Workflow, step, wait_for
from weft.cli.app import app
from weft.stores import SQLiteStore

Ask = Callable[[str], list[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("completion")
    asks = Workflow("asks", step(abs, name="check") >> wait_for("approved"))
    with Runner(SQLiteStore(where / "runs.db")) as runner:
        for id in ("order-1", "order-2", "refund-1", "a b", "x;rm"):
            runner.start(asks, 1, id=id)
            runner.wait_until(id, lambda run: bool(run.waiting_for))
    return where


@pytest.fixture
def ask(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Return what is proposed for the last word of a line, as bash asks for it."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("WEFT_STORE", "runs.db")
    monkeypatch.setenv("_WEFT_COMPLETE", "complete_bash")

    def asked(line: str) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", line.replace(" ", "\n"))
        monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
        with pytest.raises(SystemExit):
            app([], prog_name="weft")
        return capsys.readouterr().out.split()

    return asked


def test_commands_and_their_options_are_proposed(ask: Ask) -> None:
    assert ask("weft ver") == ["verify", "versions"]
    assert ask("weft ls --stat") == ["--status"]
    assert ask("weft ls --status pa") == ["parked"]
    assert ask("weft graph order-1 --format s") == ["svg"]


def test_ids_of_runs_are_proposed_the_newest_first(ask: Ask) -> None:
    assert ask("weft show order") == ["order-2", "order-1"]
    assert ask("weft resume order-2 ref") == ["refund-1"]
    assert ask("weft diff order-1 order-") == ["order-2", "order-1"]


def test_an_id_that_is_not_one_harmless_word_is_not_proposed(ask: Ask) -> None:
    assert ask("weft show ") == ["refund-1", "order-2", "order-1"]


def test_components_signals_and_workflows_are_those_of_the_store(ask: Ask) -> None:
    assert ask("weft explain order-1 ch") == ["check"]
    assert ask("weft retry order-1 ") == ["check", "approved"]
    assert ask("weft fork order-1 --at ch") == ["check"]
    assert ask("weft upgrade order-1 --again ap") == ["approved"]
    assert ask("weft export order-1 --redact ch") == ["check"]
    assert ask("weft signal order-1 ") == ["approved"]
    assert ask("weft ls --workflow a") == ["asks"]


def test_a_store_that_is_named_before_is_the_one_that_is_asked(ask: Ask, folder: Path) -> None:
    assert ask("weft show --store nothing.db order") == []
    assert ask("weft show --store sqlite:runs.db order-1") == ["order-1"]
    assert not (folder / "nothing.db").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_is_answered_in_its_own_way(folder: Path, shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_WEFT_COMPLETE", f"source_{shell}")

    result = CliRunner().invoke(app, prog_name="weft")

    assert (result.exit_code, f"complete_{shell}" in result.output) == (0, True)


BASH = shutil.which("bash")


@pytest.mark.skipif(BASH is None, reason="needs bash")
def test_a_real_bash_completes_the_id_of_a_run(folder: Path) -> None:
    (folder / "bin").mkdir()
    program = folder / "bin" / "weft"
    program.write_text(f"#!{sys.executable}\nfrom weft.cli import main\nmain()\n", encoding="utf-8")
    program.chmod(0o755)
    lines = (
        'eval "$(weft --show-completion)"',
        "COMP_WORDS=(weft show ref); COMP_CWORD=2",
        "_weft_completion weft",
        'echo "${COMPREPLY[@]}"',
    )

    done = subprocess.run(
        [str(BASH), "--norc", "-c", "\n".join(lines)],
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "WEFT_STORE": "runs.db"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("refund-1\n", "")

"""Completion as a shell asks for it: the script of the shell calls the program with what was written so far."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

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
        for id in ("order-1", "order-2", "refund-1", "a b", "x;rm", "tenant:7:done"):
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
    assert ask("weft show ") == ["tenant:7:done", "refund-1", "order-2", "order-1"]


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


SHELLS = [
    pytest.param(shell, marks=pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed"))
    for shell in ("bash", "zsh", "fish")
]
PROMPT = "READY> "
PATIENCE = 90.0
"""Seconds until a shell that has not answered has failed."""


@pytest.fixture
def home(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home of a user whose path has the program, and whose store has runs."""
    program = tmp_path / "bin" / "weft"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom weft.cli import main\nmain()\n", encoding="utf-8")
    program.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    for name in ("ZDOTDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": str(home), "WEFT_STORE": str(folder / "runs.db"), "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return home


def told(*command: str, cwd: Path) -> str:
    """Return what a command prints."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_is_recognised_and_shown_its_script(home: Path, shell: str) -> None:
    script = told(shell, "-c", "weft --show-completion; true", cwd=home)

    assert f"complete_{shell}" in script


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_in_which_completion_was_installed_completes_commands_options_and_ids(home: Path, shell: str) -> None:
    assert f"{shell} completion installed" in told(shell, "-c", "weft --install-completion; true", cwd=home)
    if shell == "fish":
        for line, wanted in LINES.items():
            proposed = told("fish", "-c", f'complete -C "{line}"', cwd=home).splitlines()
            assert wanted in [each.partition("\t")[0] for each in proposed]
        return
    rc = home / f".{shell}rc"
    rc.write_text(f"{rc.read_text(encoding='utf-8')}\nPS1='{PROMPT}'\n", encoding="utf-8")
    with Terminal([shell, "-i"], home) as terminal:
        for line, wanted in LINES.items():
            terminal.wait_for(PROMPT)
            terminal.type(f"{line}\t")
            terminal.wait_for(wanted.removeprefix(line.rpartition(" ")[2]))
            terminal.type(EMPTY_LINE)


LINES = {
    "weft show ref": "refund-1",  # at the first Tab of the shell
    "weft veri": "verify",
    "weft ls --sta": "--status",
    "weft show ten": "tenant:7:done",
}
EMPTY_LINE = "\x15\n"
"""Clears what is typed, and asks for another prompt."""
CONTROLS = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|[\x00-\x09\x0b-\x1f\\\\]")
"""Bytes that a terminal does not show, and the backslashes with which a shell quotes."""


class Terminal:
    """A shell that has a terminal."""

    def __init__(self, command: list[str], cwd: Path) -> None:
        self._leader, follower = os.openpty()
        self._process = subprocess.Popen(
            command, cwd=cwd, stdin=follower, stdout=follower, stderr=follower, start_new_session=True
        )
        os.close(follower)
        self._seen = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._leader)

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._leader, text.encode())

    def wait_for(self, text: str) -> None:
        """Wait until the shell has written *text*, and forget what came before."""
        end = time.monotonic() + PATIENCE
        while text.encode() not in CONTROLS.sub(b"", self._seen):
            ready = select.select([self._leader], [], [], max(0.0, end - time.monotonic()))[0]
            assert ready, f"no {text!r} in {self._seen!r}"
            self._seen += os.read(self._leader, 65_536)
        self._seen = b""

"""Control characters in what is stored: no command prints one, in a pipe or on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from weft import Runner, Workflow, sleep, step, wait_for
from weft.cli import screen as screens
from weft.stores import SQLiteStore

EVIL = "\x1b]0;owned\x07\x1b[5m\x08\x9b2J\u202e"
RUN, OTHER, HELD = f"run{EVIL}", f"other{EVIL}", f"held{EVIL}"
NAME = f"name{EVIL}"
FORBIDDEN = ("\x1b]", "\x1b[5m", "\x07", "\x08", "\x9b", "\u202e")
"""The colours and movements that the commands themselves use on a terminal have none of these."""


def fail(value: Any) -> Any:
    raise ValueError(f"no {EVIL} answer\n{EVIL}")


def keep(value: Any) -> Any:
    return {"value": EVIL, EVIL: value}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which everything that a user can name has control characters."""
    path = tmp_path_factory.mktemp("evil") / "runs.db"
    good = Workflow(f"good{EVIL}", step(keep, name=NAME))
    bad = Workflow(f"bad{EVIL}", step(keep, name=NAME) >> step(fail, name=f"fails{EVIL}"))
    held = Workflow(f"waits{EVIL}", step(keep, name=NAME) >> wait_for(f"signal{EVIL}"))
    with Runner(SQLiteStore(path)) as runner:
        runner.start(good, EVIL, id=RUN, by=EVIL).wait()
        runner.start(bad, EVIL, id=OTHER, by=EVIL).wait()
        runner.start(held, EVIL, id=HELD, by=EVIL)
        runner.wait_until(HELD, lambda run: bool(run.waiting_for))
        runner.signal(HELD, f"signal{EVIL}", EVIL, by=EVIL)
        runner.wait(HELD)
        late = runner.start(Workflow(f"late{EVIL}", sleep(86_400, name=NAME)), EVIL, id=f"late{EVIL}")
        runner.cancel(late.id, f"why {EVIL}", by=EVIL)
        runner.schedule(f"daily{EVIL}", good, cron="0 3 * * *", input=EVIL)
    return path


COMMANDS: list[list[str]] = [
    ["ls"],
    ["top"],
    ["versions"],
    ["doctor"],
    ["schedules"],
    *([command, run] for command in ("show", "log", "explain", "graph", "verify") for run in (RUN, OTHER, HELD)),
    ["show", RUN, "--follow"],
    ["log", OTHER, "--follow"],
    ["log", f"late{EVIL}"],
    ["explain", RUN, NAME],
    ["explain", OTHER, f"fails{EVIL}"],
    ["graph", OTHER, "--format", "dot"],
    ["graph", OTHER, "--format", "svg"],
    ["diff", RUN, OTHER],
    ["show", EVIL],
    ["signal", RUN, EVIL],
    ["resume", OTHER],
    ["retry", OTHER],
    ["fork", RUN, "--at", NAME, "--preview"],
    ["run", f"module{EVIL}:x", "--input", "1"],
    ["run", "weft:x", "--input", f'"{EVIL}'],
    ["schedules", "next", EVIL],
    [EVIL],
    ["ls", f"--{EVIL}"],
    ["ls", "--status", EVIL],
    ["ls", "--workflow", EVIL],
]


@pytest.mark.parametrize("is_terminal", [False, True], ids=["pipe", "terminal"])
@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: " ".join(arguments).encode("unicode_escape"))
def test_no_control_character_of_what_is_stored_is_printed(
    weft: Callable[..., Any],
    file: Path,
    arguments: list[str],
    is_terminal: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if is_terminal:
        monkeypatch.setattr(screens, "Console", _terminal)
        monkeypatch.setattr("weft.cli.top.time.sleep", _press_control_c)

    said = weft(*arguments, "--store", file)

    printed = said.out + said.err
    assert printed
    assert [each for each in (*FORBIDDEN, *(() if is_terminal else ("\x1b",))) if each in printed] == []


def test_an_error_that_proposes_a_command_is_one_line(weft: Callable[..., Any], file: Path) -> None:
    said = weft("send", RUN, "1", "--store", file)

    assert said.err.count("\n") == 1
    assert r"or weft fork $'run\x1b]0;owned" in said.err


def _press_control_c(_: float) -> None:
    raise KeyboardInterrupt


def _terminal(**options: Any) -> Console:
    return Console(**{**options, "force_terminal": True, "width": 60, "color_system": "truecolor"})

"""The choice of the store that a command works on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft import Runner, Workflow, step
from weft.cli.store_option import StoreUrl, located
from weft.errors import CommandError, StoreNotNamed


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and an environment that names no store."""
    monkeypatch.delenv("WEFT_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_line_comes_before_the_environment_and_that_before_files(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "pyproject.toml").write_text('[tool.weft]\nstore = "project.db"\n', encoding="utf-8")
    assert located(None).text == "project.db"

    (here / "weft.toml").write_text('store = "weft.db"\n', encoding="utf-8")
    assert located(None).text == "weft.db"

    monkeypatch.setenv("WEFT_STORE", "environment.db")
    assert located(None) == StoreUrl("environment.db", is_given=False)
    assert located("given.db") == StoreUrl("given.db", is_given=True)


def test_the_nearest_file_that_names_a_store_counts_and_its_paths_are_relative_to_it(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "weft.toml").write_text('store = "data/runs.db"\n', encoding="utf-8")
    inside = here / "a" / "b"
    inside.mkdir(parents=True)
    (here / "a" / "pyproject.toml").write_text('[project]\nname = "other"\n', encoding="utf-8")
    monkeypatch.chdir(inside)

    assert located(None).file == Path("../../data/runs.db")


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("runs.db", Path("runs.db")),
        ("sqlite:runs.db", Path("runs.db")),
        ("sqlite:///srv/runs.db", Path("/srv/runs.db")),
        ("C:\\runs.db", Path("C:\\runs.db")),
        ("memory:", None),
        ("postgresql://db/shop", None),
    ],
)
def test_what_a_file_is(text: str, file: Path | None) -> None:
    assert StoreUrl(text).file == file


def test_a_password_is_not_shown() -> None:
    url = StoreUrl("postgresql://ada:se:cret@db/shop")

    assert url.shown == "postgresql://ada:***@db/shop"
    assert url.option == " --store 'postgresql://ada:***@db/shop'"


def test_a_command_without_a_store_says_in_one_line_how_to_name_one(weft: Callable[..., Any]) -> None:
    with pytest.raises(StoreNotNamed):
        located(None)

    for command in (["ls"], ["show", "r"], ["log", "r"], ["verify", "r"], ["resume", "r"], ["workers"], ["ui"]):
        said = weft(*command)

        assert (said.code, said.out) == (2, "")
        assert said.err.startswith("weft: which store? say --store runs.db")
        assert said.err.count("\n") == 1


@pytest.mark.parametrize(("command", "code"), [(["ls"], 1), (["show", "r"], 1), (["ui"], 1), (["doctor"], 2)])
def test_a_file_that_is_not_there_is_not_created(
    weft: Callable[..., Any], here: Path, command: list[str], code: int
) -> None:
    said = weft(*command, "--store", "nothing.db")

    assert (said.code, said.out) == (code, "")
    assert said.err.endswith("nothing.db; name another file with --store, or let weft run create it\n")
    assert not (here / "nothing.db").exists()


@pytest.mark.parametrize("content", ["store = ", "store = 7", "tool = 1\nstore = [1]"])
def test_a_file_that_makes_no_sense_is_named(here: Path, content: str) -> None:
    (here / "weft.toml").write_text(content, encoding="utf-8")

    with pytest.raises(CommandError, match=r"weft\.toml"):
        located(None)


def test_both_names_of_the_option_and_the_configuration_lead_to_the_same_runs(
    weft: Callable[..., Any], here: Path
) -> None:
    with Runner(here / "runs.db") as runner:
        runner.start(Workflow("double", step(lambda x: x * 2, name="double")), 1, id="r").wait()
    (here / "weft.toml").write_text('store = "runs.db"\n', encoding="utf-8")

    answers = [weft("ls", "--json", *named) for named in ([], ["--store", "sqlite:runs.db"], ["--dsn", "runs.db"])]

    assert [[run["id"] for run in json.loads(said.out)] for said in answers] == [["r"]] * 3


@pytest.mark.parametrize("command", [["ls"], ["show", "r"], ["send", "r", "1"], ["doctor"], ["ui"], ["limits"]])
def test_a_store_in_memory_is_refused_by_what_looks_for_runs_of_others(
    weft: Callable[..., Any], command: list[str]
) -> None:
    said = weft(*command, "--store", "memory:")

    assert (said.code, said.out) == (2 if command == ["doctor"] else 1, "")
    assert said.err == (
        "weft: memory: is in the process that has its runs; use a file or a database: --store runs.db\n"
    )


@pytest.mark.parametrize("url", ["sqlite:", "mysql://ada:secret@db/shop"])
def test_what_is_not_a_store_is_said_without_its_password(weft: Callable[..., Any], url: str) -> None:
    for command in (["ls"], ["limits"], ["doctor"], ["versions"]):
        said = weft(*command, "--store", url)

        assert "is not a store; use --store runs.db" in said.err
        assert "secret" not in said.err


def test_the_store_of_a_project_in_which_nothing_has_run_says_how_to_make_the_first_run(
    weft: Callable[..., Any], here: Path
) -> None:
    (here / "weft.toml").write_text('store = "runs.db"\n', encoding="utf-8")

    said = weft("ls")

    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("weft: there are no runs yet in runs.db; the first one creates it: weft run ")
    assert not (here / "runs.db").exists()

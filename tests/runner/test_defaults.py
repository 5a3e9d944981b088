"""The store that a runner is given: a store, or where one is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_flows import chain

from weft import Runner
from weft.errors import InvalidOption, InvalidStoreOption
from weft.stores import SQLiteStore


@pytest.mark.parametrize("way", ["path", "text", "sqlite:", "sqlite://"])
def test_a_runner_opens_the_file_that_it_is_told(way: str, tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    where: Any = {"path": file, "text": str(file), "sqlite:": f"sqlite:{file}", "sqlite://": f"sqlite://{file}"}[way]

    with Runner(where) as runner:
        runner.start(chain, 5, id="a").result(20)

    with Runner(SQLiteStore(file)) as runner:
        assert runner.result("a") == 11


def test_a_runner_can_be_told_to_keep_runs_in_memory() -> None:
    with Runner("memory:") as runner:
        assert runner.start(chain, 5).result(20) == 11


@pytest.mark.parametrize("where", ["redis://here", "mysql://db", "memory:x", "sqlite:", "", "  ", 5, ["runs.db"]])
def test_what_is_not_a_store_is_refused_with_what_to_use(where: Any) -> None:
    with pytest.raises(InvalidOption, match=r"use the path of a file \('runs.db' or 'sqlite:runs.db'\), 'postgresql:"):
        Runner(where)


def test_a_file_in_a_folder_that_does_not_exist_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InvalidStoreOption, match=r"there is no folder .*nowhere.*create it first"):
        Runner(tmp_path / "nowhere" / "runs.db").open()

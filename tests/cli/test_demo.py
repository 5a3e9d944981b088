"""``weft demo``: the demonstration keeps its promises, and leaves a file that can be looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weft.cli.demo.story import Told, tell
from weft.cli.demo.world import Called


def test_it_tells_what_ran_before_and_after_a_real_kill(shop: Any) -> None:
    said = shop.command("demo", "--folder", "kept")
    listed = shop.command("ls", "--store", "kept/orders.db")
    log = shop.command("verify", "--store", "kept/orders.db", "order-1")

    assert (said.code, said.err) == (0, "")
    assert "kill -9" in said.out
    assert "was in flight       price of teapot, reserve\n" in said.out
    assert "had not begun       total, invoice, ship\n" in said.out
    assert "ran again           price of teapot, reserve (attempt 2)\n" in said.out
    assert "ran the first time  total, invoice, ship\n" in said.out
    assert "shipped: 57.1 EUR, reservation 1\n" in said.out
    assert listed.out.splitlines()[1].split()[:4] == ["order-1", "orders", "completed", "17"]
    assert log.out.startswith("17 events")
    assert (shop.folder / "kept" / "order-1.svg").read_text(encoding="utf-8").startswith("<svg")
    assert said.out.endswith("ui --store kept/orders.db\n")


def test_a_folder_that_is_in_use_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").touch()

    assert not tell(tmp_path)
    assert "is not empty" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def called(component: str, ending: str = "returned", *, pid: int = 1, key: str = "k", attempt: int = 1) -> Called:
    return Called(pid, component, "", attempt, key, ending)


@pytest.mark.parametrize(
    ("told", "broken"),
    [
        (Told([called("a"), called("b", "")], [called("b", pid=2)]), []),
        (Told([called("a", "raised"), called("a", attempt=2)], []), []),
        (Told([called("a")], [called("a", pid=2)]), ["a had run, and ran again"]),
        (Told([called("a", "")], [called("a", pid=2, key="other")]), ["a got another key"]),
        (Told([called("a", "")], []), ["a was in flight, and did not run again"]),
    ],
)
def test_a_broken_promise_would_be_noticed(told: Told, broken: list[str]) -> None:
    assert told.broken_promises() == broken

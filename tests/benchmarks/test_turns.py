"""Measuring in turns, with alternatives that may fail, each in another process."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

import pytest

from benchmarks import results, run
from benchmarks.alternatives.apart import Apart
from benchmarks.durable.line import Line, Note
from benchmarks.durable.run import Part, parts
from benchmarks.durable.run import run as run_parts
from benchmarks.durable.sampling import Samples, Seen, Unavailable, in_turns, ratios
from benchmarks.progress import Progress

OTHER = """
import os
import sys
from contextlib import contextmanager

@contextmanager
def opened(where):
    print("noise on the standard output")
    def run_many(count, steps):
        if count == 13:
            raise ValueError("unlucky")
        if count == 99:
            print("the last words", file=sys.stderr, flush=True)
            os._exit(7)
        open(os.path.join(where, "done"), "a").write(f"{count} x {steps}, ")
    yield run_many
"""


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library that can be driven."""
    (tmp_path / "other_library.py").write_text(OTHER, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return tmp_path


def test_works_take_turns_and_one_that_is_unavailable_drops_out() -> None:
    order: list[str] = []

    def fails(samples: Samples) -> None:
        order.append("fails")
        raise Unavailable("no such thing")

    def works(samples: Samples) -> None:
        order.append("works")
        with samples:
            pass

    samples = in_turns({"a": works, "b": fails, "c": works}, 2)

    assert order == ["works", "fails", "works", "works", "works"]
    assert samples["b"].failure == "no such thing"
    assert len(samples["a"].wall) == len(samples["c"].cpu) == 2


def test_a_figure_is_the_median_with_the_smallest_and_the_largest_round() -> None:
    samples = Samples(wall=[0.5, 0.1, 0.2])

    assert samples.per_second(10) == Seen(50, 20, 100)
    assert samples.each(10, 1e3) == pytest.approx(Seen(20, 10, 50))


def test_what_is_compared_is_compared_round_by_round() -> None:
    assert ratios(Samples(wall=[2, 30]), Samples(wall=[1, 10])) == Seen(2.5, 2, 3)


def test_an_alternative_works_in_a_process_of_its_own(other: Path) -> None:
    samples = Samples()
    with Apart("other_library", "json", str(other)) as apart:
        apart.run_many(3, 5, samples)
        apart.run_many(4, 5, samples)

    assert (other / "done").read_text(encoding="utf-8") == "2 x 2, 3 x 5, 4 x 5, "  # the first is for warming up
    assert len(samples.wall) == len(samples.cpu) == 2


@pytest.mark.parametrize(("count", "told"), [(13, "ValueError: unlucky"), (99, "the last words")])
def test_an_alternative_that_fails_says_why(other: Path, count: int, told: str) -> None:
    with Apart("other_library", "json", str(other)) as apart, pytest.raises(Unavailable, match=told):
        apart.run_many(count, 5, Samples())


def test_an_alternative_that_is_not_installed_says_so() -> None:
    with Apart("x", "no_such_package.inner", ".") as apart, pytest.raises(Unavailable, match="not installed"):
        apart.run_many(1, 1, Samples())


def test_a_part_that_fails_is_noted_and_the_others_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(place: object) -> list[Line]:
        raise RuntimeError("the disk is full")

    line = Line("b", "work", "how", 1.0, "s")
    found = run_parts(
        [Part("a", fails), Part("b", lambda place: [line, Note("b", "DBOS: gone")])], tmp_path, Progress(2)
    )

    assert not found["right"]
    assert [row["work"] for row in found["rows"]] == ["work"]
    assert [note["text"] for note in found["notes"]] == ["Weft: RuntimeError: the disk is full", "DBOS: gone"]
    assert "no figure: b: DBOS: gone" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    def interrupted(place: object) -> list[Line]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_parts([Part("a", interrupted)], tmp_path, Progress(1))

    assert list(tmp_path.iterdir()) == []


def test_parts_are_chosen_by_a_pattern() -> None:
    assert [part.name for part in parts("latency|killing", quick=True, full=False)] == ["latency", "killing"]


@pytest.mark.parametrize(
    ("only", "quick", "asked", "expected"),
    [
        ("", False, None, results.PAGE),
        ("chain", False, None, None),
        ("", True, None, None),
        ("chain", True, Path("mine.md"), Path("mine.md")),
    ],
)
def test_only_a_whole_run_writes_the_page_of_results_unless_asked(
    only: str, quick: bool, asked: Path | None, expected: Path | None
) -> None:
    assert run.results_file(argparse.Namespace(only=only, quick=quick, results=asked)) == expected


def test_progress_says_which_of_how_many_begins(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(2)
    progress.begin("chain")
    progress.begin("map")

    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\[1 of 2, \d+:\d\d\] measuring chain \.\.\.", first)
    assert second.startswith("[2 of 2, ")

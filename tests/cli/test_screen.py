"""Where commands print: for people at a terminal, and for programs at the end of a pipe."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from weft.cli.progress import Progress
from weft.cli.screen import Screen, text_of
from weft.errors import JobNotFound


class Terminal(Screen):
    """A screen that believes to be a terminal of 40 columns."""

    def __init__(self) -> None:
        super().__init__()
        self.written = io.StringIO()
        self.out = self._err = Console(
            file=self.written, force_terminal=True, width=40, highlight=False, markup=False, soft_wrap=True
        )

    def plain_lines(self) -> list[str]:
        """Return what was printed, without colours and without spaces at the ends."""
        return [Text.from_ansi(line).plain.rstrip() for line in self.written.getvalue().splitlines()]


ROWS = [("an-id", "running", "a very long remark that cannot fit in here")]


def test_a_pipe_gets_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().table(("ID", "STATUS", ""), ROWS)

    assert capsys.readouterr().out.splitlines() == [
        "ID     STATUS",
        "an-id  running  a very long remark that cannot fit in here",
    ]


def test_columns_stay_under_their_headings_although_characters_are_wide(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().table(("ID", "X"), [("語語", "1"), ("a", "2")])

    assert capsys.readouterr().out.splitlines() == ["ID    X", "語語  1", "a     2"]


def test_a_terminal_gets_lines_that_fit_and_whole_ids() -> None:
    screen = Terminal()

    screen.table(("ID", "STATUS", ""), ROWS)

    assert screen.plain_lines() == [
        "ID     STATUS",
        "an-id  running  a very long remark that",
        "                cannot fit in here",
    ]


def test_a_terminal_that_is_too_narrow_for_ids_gets_them_above_the_other_columns() -> None:
    screen = Terminal()

    screen.table(("ID", "STATUS", "OWNER"), [("2fdf8c5cec7743c4a8b8aa4de53a0385", "running", "process 4711 on shop")])

    assert screen.plain_lines() == [
        "ID",
        "  STATUS   OWNER",
        "2fdf8c5cec7743c4a8b8aa4de53a0385",
        "  running  process 4711 on shop",
    ]


def test_a_terminal_that_is_too_narrow_for_anything_gets_whole_lines() -> None:
    screen = Terminal()

    screen.table(("A", "B", "C"), [("a" * 20, "b" * 38, "c" * 20)])

    assert screen.plain_lines()[1] == f"{'a' * 20}  {'b' * 38}  {'c' * 20}"


def test_markup_in_what_is_stored_is_only_text(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().line("[bold]not bold[/bold] :smile: \x1b[1m")

    assert capsys.readouterr().out == "[bold]not bold[/bold] :smile: \\x1b[1m\n"


def test_a_job_that_is_not_there_is_said_in_words_of_the_command_line() -> None:
    assert text_of(JobNotFound("j")) == "no job 'j' is stored here; weft jobs lists those that are"


def test_complaints_go_to_the_error_stream(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().complain("first\nsecond \x07")

    assert capsys.readouterr() == ("", "weft: first\nsecond \\x07\n")


def test_on_a_terminal_one_line_tells_how_far_it_is() -> None:
    screen = Terminal()

    with Progress(screen, runs=2) as progress:
        progress.begun("a", ())
        progress.step("a", "pay\x1b")
        progress.failed("a", "ship", ValueError("no"))
        progress.ended()
        screen.line("a: done")

    written = screen.written.getvalue()
    assert "1 of 2 runs, 1 component done, 1 fail" in written
    assert "a: done\n" in written
    assert "pay\x1b" not in written


def test_elsewhere_there_are_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(Screen(), runs=1) as progress:
        progress.begun("a", ("pay",))
        progress.step("a", "pay")
        progress.failed("a", "ship", ValueError("no"))
        progress.ended()

    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "a: resumed",
        "a: the code of pay has changed; pending work runs the new code",
        "a: ship failed: ValueError: no",
    ]

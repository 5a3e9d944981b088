"""``weft graph``: draws a workflow, or a run with the state of each component."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli.completion import run_ids
from weft.cli.options import AsJson
from weft.cli.reading import reading
from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.show import truncation
from weft.cli.store_option import StoreOption
from weft.errors import CommandError
from weft.views.text import plain

_FORMATS: dict[str, Callable[[Any], str]] = {
    "mermaid": lambda drawn: str(drawn.to_mermaid()),
    "dot": lambda drawn: str(drawn.to_dot()),
    "svg": lambda drawn: str(drawn.to_svg()),
}


def graph(
    which: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:WORKFLOW|ID",
            help="A workflow, or the id of a run.",
            show_default=False,
            autocompletion=run_ids,
        ),
    ],
    form: Annotated[
        str, typer.Option("--format", "-f", help="mermaid, dot or svg.", autocompletion=lambda: list(_FORMATS))
    ] = "mermaid",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; not given: print it.", show_default=False)
    ] = None,
    store: StoreOption = None,
    as_json: AsJson = False,
) -> None:
    """Draw a workflow, or a run with the state of each component."""
    from weft.cli.modules import is_workflow, workflow_at

    screen = Screen()
    draw = _FORMATS.get(form)
    if draw is None:
        raise typer.BadParameter(f"{form!r} is none of {', '.join(_FORMATS)}", param_hint="--format")
    if is_workflow(which):
        with errors_in_one_line(screen):
            _print(screen, workflow_at(which), draw, output, as_json=as_json)
    else:
        with reading(screen, store) as view:
            found = view.read(which)
            _print(screen, found.run(), draw, output, as_json=as_json)
            if found.record.first > 1:
                screen.note(f"truncated: {truncation(found.record)}")


def _print(screen: Screen, drawn: Any, draw: Callable[[Any], str], output: Path | None, *, as_json: bool) -> None:
    if as_json:
        screen.json(drawn.to_cytoscape(), indent=2)
        return
    text = draw(drawn)
    if output is None:
        for line in text.rstrip("\n").split("\n"):
            screen.line(plain(line))
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{output} cannot be written: {error.strerror}; choose another file") from error

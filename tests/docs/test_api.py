"""The pages of the API have every public name, and the page of the command line every command and option."""

from __future__ import annotations

import importlib
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import typer

import weft
from weft.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"
API: dict[str, Any] = runpy.run_path(str(DOCS / "api.py"))
COMMANDS: dict[str, Any] = dict(API["walk"]("weft", typer.main.get_command(app)))


@pytest.fixture(scope="module")
def pages() -> dict[str, tuple[str, str]]:
    written: dict[str, tuple[str, str]] = API["pages"]()
    return written


def test_every_public_name_has_an_entry(pages: dict[str, tuple[str, str]]) -> None:
    text = "\n".join(text for _, text in pages.values())

    assert [name for name in weft.__all__ if f"\n## {name}\n" not in text] == []
    for module in API["MODULES"]:
        own = pages[f"api/{module}.md"][1]
        listed = API["public"](importlib.import_module(module))
        assert [name for name in listed if not re.search(rf"^## {name}$|^- \[`{name}`\]", own, re.MULTILINE)] == []


def test_no_entry_shows_an_address_in_memory_or_a_mark_of_another_markup(pages: dict[str, tuple[str, str]]) -> None:
    found = [
        (where, line)
        for where, (_, text) in pages.items()
        for line in re.sub(r"```(?:pycon|text).*?```", "", text, flags=re.DOTALL).splitlines()
        if re.search(r" at 0x|:(?:class|meth|func):", line)
    ]

    assert found == []


def test_what_is_left_out_of_the_pages_exists() -> None:
    for kind, names in {**API["INNER"], **API["ON_SOME"]}.items():
        assert [name for name in names if not hasattr(getattr(weft, kind), name)] == []
    assert [name for name in API["ON_COMPONENTS"] if not hasattr(weft.Component, name)] == []


def test_a_long_signature_has_a_line_for_each_argument() -> None:
    def start(
        workflow: object, /, *, if_exists: str = "same", checkpoint: object = print, **policy: object
    ) -> None: ...

    assert API["signature"]("start", start) == "start(workflow, /, *, if_exists='same', checkpoint=..., **policy)"
    assert API["signature"]("s" * 60, start).endswith(
        "(\n    workflow,\n    /,\n    *,\n    if_exists='same',\n    checkpoint=...,\n    **policy,\n)"
    )


def test_the_page_of_the_command_line_names_every_command() -> None:
    table = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8").partition("## Which store")[0]

    assert [name for name in COMMANDS if name.count(" ") == 1 and f"`{name}" not in table] == []


def test_a_page_explains_every_option_of_every_command() -> None:
    text = "".join(
        (DOCS / name).read_text(encoding="utf-8")
        for name in ("reference/cli.md", "how-to/fleet.md", "how-to/schedules.md")
    )
    options = {option for command in COMMANDS.values() for each in command.params for option in each.opts}

    assert sorted(option for option in options if option.startswith("--") and option not in text) == []

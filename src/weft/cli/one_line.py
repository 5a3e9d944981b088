"""
The group of commands: a command that makes no sense is answered in one line, which says where its help is.

Typer prints the usage first; with many commands and options the error itself would be the last of many lines.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, cast

import typer
from typer.core import TyperGroup

from weft.cli.screen import Screen

_UNUSABLE: type[Exception] = next(
    cast("type[Exception]", each) for each in typer.BadParameter.__mro__ if each.__name__ == "ClickException"
)
"""The errors of Typer about a command that makes no sense; only one kind of them has a public name."""


class OneLineGroup(TyperGroup):
    """The commands of ``weft``."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command, and end the process with its exit code."""
        call = (args, prog_name, complete_var)
        if not standalone_mode:
            return super().main(*call, False, windows_expand_args, **extra)
        try:
            code = super().main(*call, False, windows_expand_args, **extra)
        except _UNUSABLE as raised:
            error = cast("Any", raised)
            if type(error).__name__ == "NoArgsIsHelpError":  # its text is the help
                error.show()
            else:
                Screen().complain(_said(error))
            sys.exit(error.exit_code)
        except typer.Abort:
            Screen().complain("stopped, since there is no answer; nothing was changed")
            sys.exit(1)
        sys.exit(code if isinstance(code, int) else 0)


def _said(error: Any) -> str:
    """Return what is wrong, and the command that helps."""
    text = str(error.format_message()).strip().removesuffix(".")
    for before, after in (("Invalid value for ", ""), ("Invalid value: ", ""), ("No such ", "no such ")):
        if text.startswith(before):
            text = after + text.removeprefix(before)
    text = " ".join(text.split())
    if text.startswith(("Missing ", "Got ", "Option ")):
        text = text[0].lower() + text[1:]
    context = getattr(error, "ctx", None)
    return f"{text}; see {'weft' if context is None else context.command_path} --help"

"""
The group of commands: its help has them in sections, and a command that makes no sense is answered in one line.

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

_AROUND = 6
"""The columns before a command, and between it and its help."""


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

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, in a section for each of their panels."""
        sections: dict[str, list[tuple[str, Any]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                sections.setdefault(str(command.rich_help_panel), []).append((name, command))
        longest = max(len(name) for commands in sections.values() for name, _ in commands)
        for title, commands in sections.items():
            with formatter.section(title):
                room = formatter.width - longest - _AROUND
                formatter.write_dl([(name.ljust(longest), each.get_short_help_str(room)) for name, each in commands])


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

"""
Names that the shell proposes when Tab is pressed: runs, components, signals and workflows of the store.

``weft --install-completion`` sets the shell up.  A store that cannot be read proposes nothing: an error would be
printed into the line that is being typed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, get_args

import typer

if TYPE_CHECKING:
    from weft.cli.source import Source

_MOST: Final = 100
"""How many names are proposed."""
_LOOKED_AT: Final = 2_000
"""How many runs are looked at, the newest ones."""


_REGISTERS: Final = "\ncompdef %(complete_func)s %(prog_name)s\n"
_COMPLETES: Final = """
if [ "$funcstack[1]" = "_%(prog_name)s" ]; then
  %(complete_func)s "$@"
else
  compdef %(complete_func)s %(prog_name)s
fi
"""


def complete_at_the_first_tab() -> None:
    """
    Let the script for zsh complete when it is loaded.

    zsh loads it at the first Tab, as the function that completes; that of typer only registers another one then, so
    that the first Tab of each shell did nothing but ring the bell.
    """
    scripts: dict[str, str] = getattr(import_module("typer._completion_shared"), "_completion_scripts", {})
    if _REGISTERS in scripts.get("zsh", ""):
        scripts["zsh"] = scripts["zsh"].replace(_REGISTERS, _COMPLETES)


def run_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Return the ids of runs that begin with *incomplete*, the newest first."""
    return _proposed(context, incomplete, lambda source: (record.id for record in source.list(limit=_LOOKED_AT)))


def workflows(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of workflows that runs follow."""
    return _proposed(
        context, incomplete, lambda source: dict.fromkeys(record.workflow for record in source.list(limit=_LOOKED_AT))
    )


def components(context: typer.Context, incomplete: str) -> list[str]:
    """Return the components of the run that the command names."""
    return _proposed(context, incomplete, lambda source: source.read(_run(context)).run().workflow.components)


def signals(context: typer.Context, incomplete: str) -> list[str]:
    """Return the signals that the run waits for that the command names."""
    from weft.cli.live import awaited

    return _proposed(context, incomplete, lambda source: awaited(source.read(_run(context)).run()))


def _run(context: typer.Context) -> str:
    """Return the run that the command names; while an option has no value yet, the arguments have no names."""
    return context.params.get("run") or context.args[0]


def statuses_of(incomplete: str) -> list[str]:
    """Return the states of runs."""
    from weft.ports.store import RunStatus

    return [each for each in get_args(RunStatus) if each.startswith(incomplete)]


def _proposed(context: typer.Context, incomplete: str, names: Callable[[Source], Iterable[str]]) -> list[str]:
    """Return those of the *names* in the store that continue *incomplete* and that a shell takes as one word."""
    given: Any = context.params.get("store")
    try:
        from weft.cli.source import opened
        from weft.cli.store_option import located

        with opened(located(given)) as source:
            found = [name for name in names(source) if name.startswith(incomplete) and _is_word(name)]
    except Exception:  # noqa: BLE001 - there is nowhere to say it
        return []
    return [_written(name) for name in found[:_MOST]]


def _written(name: str) -> str:
    r"""Return *name* as the shell takes it: for zsh, what follows a colon would be the description of what precedes."""
    return name.replace(":", r"\:") if os.environ.get("_WEFT_COMPLETE") == "complete_zsh" else name


def _is_word(name: str) -> bool:
    return name.isprintable() and not any(each.isspace() or each in "'\"\\$`;&|<>()*?[]#~!{}" for each in name)

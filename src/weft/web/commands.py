"""
The commands that a page proposes for what the dashboard, which has no code to run, cannot do itself.

    >>> commands = Commands(" --store runs.db")
    >>> commands.retry(["o-1"], ["shop"])
    'weft retry o-1 --import shop --store runs.db'
    >>> commands.retry(["o-1", "o 2"], ["shop"])
    'for run in o-1 \\'o 2\\'; do weft retry "$run" --import shop --store runs.db; done'
    >>> commands.resume(["o-1", "o-2"], [])
    'weft resume o-1 o-2 --import MODULE --store runs.db'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from shlex import join, quote

from weft.views import importing
from weft.views.text import plain

MOST = 50
"""How many runs a command names."""
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):[^@]*(?=@)")


class Commands:
    """
    Writes commands for runs of one store.

    Args:
        option: names the store.
    """

    def __init__(self, option: str = "") -> None:
        self.option = option

    def retry(self, runs: Sequence[str], modules: Sequence[str]) -> str:
        """Return what retries failed *runs*, at most 50 of them."""
        rest = f"{importing(modules)}{self.option}"
        if len(runs) == 1:
            return f"weft retry {_named(runs)}{rest}"
        return f'for run in {_named(runs)}; do weft retry "$run"{rest}; done'

    def resume(self, runs: Sequence[str], modules: Sequence[str]) -> str:
        """Return what goes on with *runs* that no process drives, or that are parked."""
        return f"weft resume {_named(runs)}{importing(modules)}{self.option}"

    def fork(self, run: str, at: str, text: str | None, modules: Sequence[str]) -> str:
        """Return what forks *run*, with the value *text* at the place *at*."""
        words = ["weft", "fork", run, "--at", at]
        if text is not None and text.strip():
            words += ["--value", " ".join(text.split())]
        return f"{join(words)}{importing(modules)}{self.option}"


def store_option(store: object) -> str:
    """
    Return the option that names *store* in a command, without a password; nothing for a store that is an object.

    >>> store_option("runs.db"), store_option("postgresql://ada:secret@db/shop")
    (' --store runs.db', " --store 'postgresql://ada:***@db/shop'")
    """
    if not isinstance(store, str | Path):
        return ""
    return f" --store {quote(_PASSWORD.sub(lambda found: f'{found[1]}:***', str(store)))}"


def _named(runs: Sequence[str]) -> str:
    return " ".join(quote(plain(run)) for run in runs[:MOST])

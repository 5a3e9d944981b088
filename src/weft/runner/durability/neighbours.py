"""
The runners that share an open store: each of them owns its own runs.

An open store is one owner, so it would let one runner acquire what another one drives.  Runners that are handed the
same open store are in one process and one event loop, and ask each other.

Invariants: a run is held by at most one of them; a runner holds a run from before it asks the store for it until after
the store has released it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol
from weakref import WeakKeyDictionary, WeakSet


class Neighbour(Protocol):
    """A runner, as the others that share its store see it."""

    def holds(self, run: str) -> bool:
        """Whether it drives *run*, or is acquiring or releasing it."""
        ...


_runners: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, WeakSet[Neighbour]]]] = WeakKeyDictionary()
"""By event loop and by id of the store: the open runners that use it; they keep the store, and with it the id."""


def join(store: object, runner: Neighbour) -> None:
    """Add *runner*, which is opened, to those that use *store* in this event loop."""
    stores = _runners.setdefault(asyncio.get_running_loop(), {})
    for unused in [known for known, runners in stores.items() if not runners]:
        del stores[unused]
    stores.setdefault(id(store), WeakSet()).add(runner)


def leave(store: object, runner: Neighbour) -> None:
    """Remove *runner*, which has released all of its runs."""
    _sharing(store).discard(runner)


def held(store: object, runs: Iterable[str], besides: Neighbour) -> set[str]:
    """Return those of *runs* that a runner holds which uses *store* too, *besides* this one."""
    others = [runner for runner in _sharing(store) if runner is not besides]
    return {run for run in runs if any(runner.holds(run) for runner in others)} if others else set()


def _sharing(store: object) -> WeakSet[Neighbour]:
    return _runners.get(asyncio.get_running_loop(), {}).get(id(store)) or WeakSet()

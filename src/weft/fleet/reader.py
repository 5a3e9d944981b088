"""
The runners inside a client: one reads and leaves messages, the other takes a run, changes it and releases it.
"""

from __future__ import annotations

from weft.fleet.clock import FleetClock
from weft.fleet.sharded_store import ShardedStore
from weft.runner.runner import AsyncRunner
from weft.runner.runtime import RuntimeParts
from weft.stores.postgres import PostgresStore


class Reader(AsyncRunner):
    """A runner that drives nothing: it reads runs, and leaves messages for those that workers drive."""

    def __init__(self, store: PostgresStore | ShardedStore) -> None:
        super().__init__(store, clock=FleetClock(lambda: store.clock.time()))  # noqa: PLW0108 - the clock may change
        self.parts, self.usual, self.revisions = self._runtime, self._usual.options, self._revisions

    def _parts(self) -> RuntimeParts:
        return RuntimeParts(has_workers=True)


class Mover(AsyncRunner):
    """A runner that takes runs, changes them and releases them, and starts nothing of them."""

    def __init__(self, store: PostgresStore) -> None:
        super().__init__(store, clock=FleetClock(store.clock.time))

    def _parts(self) -> RuntimeParts:
        return RuntimeParts(may_start=lambda: False)

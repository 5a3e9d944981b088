"""
Starts child runs with a given id in a fleet on several databases, where a child may belong to another database than
its parent.

They are started as a client starts runs: durable when that returns, the same run for the same id, and driven by a
worker of their database.  A database that stands alone has all of its runs.  See docs/adr/0054.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from weft.core.workflow import Workflow
from weft.errors import InvalidOption, RunClosed, RunNotFound
from weft.fleet.client import AsyncClient
from weft.fleet.placement import ALONE
from weft.ports.store import FINISHED
from weft.runner.handle import RunRef
from weft.stores.postgres import PostgresStore

_SENT: Final = frozenset({"policies", "policies_mode", "deadline"})
"""The options of a child that are stored with it."""


class OtherShards:
    """
    Starts and cancels children of the runs of one worker.

    Args:
        store: the database of that worker.
        client: returns a client of all databases that it was given.
        queue: where the children are claimed.
    """

    def __init__(self, store: PostgresStore, client: Callable[[], AsyncClient], queue: str) -> None:
        self._store, self._client, self._queue = store, client, queue

    async def is_needed(self) -> bool:
        """Return whether there are other databases."""
        return (await self._store.read_shard()).fence != ALONE

    async def start(
        self, workflow: Workflow[Any, Any], value: Any, id: str, options: Mapping[str, Any]
    ) -> tuple[Any, RunRef]:
        """
        Start the child *id*; return the client that can wait for it, and the run.

        Raises:
            InvalidOption: an option that the worker of the child decides.
            ShardsChanged: this worker does not know all databases.
        """
        if extra := sorted(options.keys() - _SENT):
            raise InvalidOption(
                f"{extra[0]}={options[extra[0]]!r:.60}: the child {id!r} may be driven by another worker, which "
                "decides that; leave it out, or give the child no id"
            )
        client = await self._client().open()
        started = await client.start(workflow, value, id=id, queue=self._queue, **options)
        return client, started.ref

    async def cancel(self, id: str, reason: str, *, undo: bool) -> bool:
        """Cancel the child *id*, by a message to it; return whether it is still to be undone."""
        if not await self.is_needed():
            return False
        client = await self._client().open()
        try:
            await client.cancel(id, reason, undo=undo)
            return undo and (await client.find(id)).status not in FINISHED
        except (RunNotFound, RunClosed):  # there is none, or it was done before
            return False

    async def until_finished(self, id: str) -> None:
        """Wait until the child *id* has finished, or is deleted."""
        client = await self._client().open()
        await client._reader._until_finished(id)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

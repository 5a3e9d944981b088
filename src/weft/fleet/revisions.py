"""
Forks, upgrades and deletions by a client, which drives nothing (ADR 32).

    fork ──────► read the run, fold the edit in, store the fork as free: a worker drives it
    upgrade ───► take the run if no worker has it, write the change, release it
    delete ────► remove it if no worker has it
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import Any, Literal, overload

from msgspec.structs import replace

from weft.core.functions.references import MISSING
from weft.core.run.preview import Preview
from weft.core.workflow import Workflow
from weft.fleet.reader import Mover, Reader
from weft.fleet.sharded_store import ShardedStore
from weft.fleet.starting import forked_run, placement
from weft.log import check_encodable
from weft.ports.queue import QUEUE
from weft.ports.store import FINISHED, RunStatus
from weft.runner.durability.store_retry import retry_while_unavailable
from weft.runner.handle import AsyncHandle, RunRef
from weft.runner.option_checks import Time, check_text, check_workflow
from weft.runner.runtime import Runtime
from weft.stores.postgres import PostgresStore
from weft.typing import PoliciesMode


class ClientRevisions:
    """The methods of a client that fork, upgrade and delete runs."""

    _runtime: Runtime
    _store: PostgresStore | ShardedStore
    _reader: Reader

    @overload
    async def fork(
        self,
        id: str,
        new_id: str | None = None,
        *,
        at: object = None,
        value: Any = MISSING,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        preview: Literal[False] = False,
        by: str | None = None,
        queue: str = QUEUE,
        priority: int = 0,
    ) -> AsyncHandle[Any]: ...
    @overload
    async def fork(
        self,
        id: str,
        new_id: str | None = None,
        *,
        at: object = None,
        value: Any = MISSING,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        preview: Literal[True],
        by: str | None = None,
        queue: str = QUEUE,
        priority: int = 0,
    ) -> Preview: ...
    async def fork(
        self,
        id: str,
        new_id: str | None = None,
        *,
        at: object = None,
        value: Any = MISSING,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        preview: bool = False,
        by: str | None = None,
        queue: str = QUEUE,
        priority: int = 0,
    ) -> AsyncHandle[Any] | Preview:
        """
        Start another run with the history of the run *id*, in which only what depends on the edit runs again.

        The original is read and left as it is.  The fork is durable when this returns, and a worker drives it.
        For the arguments see :meth:`AsyncRunner.fork`.

        Args:
            queue: which workers drive the fork.
            priority: runs with a higher one are claimed first.

        Raises:
            RunNotFound: no run has the id *id*.
            RunExists: a run with the id *new_id* exists.
            InvalidArgument: *at* is not something that has happened in this run, or cannot have such a value.
            UnencodableValue: the value could not be stored.
            UnresolvedFunction: this process does not have a function of the workflow.
            InvalidPolicy: a policy that no worker can honour.
        """
        self._runtime.check_open()
        if value is not MISSING:
            check_encodable(value, "INPUT")
        if new_id is not None:
            check_text("new_id", new_id)
        place = placement(queue, priority, None)
        source = await self._reader.revisions.source(id)
        if preview:
            return source.run.fork(at=at, value=value, preview=True)
        run = source.run.fork(at=at, value=value, id=new_id, by=by)
        replace(source, run=run).check()
        at_time = self._runtime.dispatcher.clock.time()
        append = await forked_run(run, policies, policies_mode, by, at_time)
        tried = False

        async def write() -> Any:
            nonlocal tried
            again, tried = tried, True
            return await self._store.enqueue([replace(append, again=again)], place)

        (refused,) = await retry_while_unavailable(write, while_=self._runtime.is_open)
        if refused is not None:
            raise refused
        return AsyncHandle(self, RunRef(run.id, None, at=at_time))

    @overload
    async def upgrade(
        self,
        id: str,
        workflow: Workflow[Any, Any],
        *,
        again: Collection[object] = (),
        preview: Literal[False] = False,
        by: str | None = None,
    ) -> AsyncHandle[Any]: ...
    @overload
    async def upgrade(
        self,
        id: str,
        workflow: Workflow[Any, Any],
        *,
        again: Collection[object] = (),
        preview: Literal[True],
        by: str | None = None,
    ) -> Preview: ...
    async def upgrade(
        self,
        id: str,
        workflow: Workflow[Any, Any],
        *,
        again: Collection[object] = (),
        preview: bool = False,
        by: str | None = None,
    ) -> AsyncHandle[Any] | Preview:
        """
        Let the run *id* follow *workflow*, another version of its workflow; workers that know that one drive it then.

        No worker may have the run: it waits, or none of them knows its version.  Drain the worker that has it, or ask
        again a moment later.  For the arguments see :meth:`AsyncRunner.upgrade`.

        Raises:
            RunNotFound: no run has this id.
            RunOwned: a worker that is alive has it.
            RunClosed: it has completed, or was cancelled.
            InvalidArgument: a workflow of another name.
            InvalidPolicy: the policies in force do not fit *workflow*.
        """
        self._runtime.check_open()
        check_workflow(workflow, "upgrade")
        if preview:
            run = await self._reader.revisions.whole(id, workflow)
            return run.upgrade(workflow, again=again, preview=True)
        store = self._store
        if not isinstance(store, PostgresStore):
            store = await retry_while_unavailable(partial(store.home_of, id), while_=self._runtime.is_open)
        async with Mover(store) as mover:
            await mover.upgrade(id, workflow, again=again, by=by)
            await mover.stop(id)
        return AsyncHandle(self, RunRef(id))

    async def delete(self, id: str) -> None:
        """
        Delete the stored run *id*, its log and its values; see :meth:`AsyncRunner.delete`.

        Raises:
            RunNotFound: nothing is stored under this id.
            RunOwned: a worker that is alive has it.
        """
        await self._reader.delete(id)

    async def purge(
        self,
        *,
        before: Time,
        statuses: RunStatus | Collection[RunStatus] = FINISHED,
        limit: int | None = None,
    ) -> int:
        """Delete finished runs that were last written *before* a time; see :meth:`AsyncRunner.purge`."""
        return await self._reader.purge(before=before, statuses=statuses, limit=limit)

"""
The queries of a runner: reading the state of runs, listing and counting what is stored, and waiting for runs.

None of them changes a run.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from weft.core import events as ev
from weft.core.run.input_results import results_of
from weft.core.run.run import Run
from weft.errors import (
    InvalidOption,
)
from weft.log.outcome import decode_outcome
from weft.ports.deadlines import Endangered
from weft.ports.store import RunRecord, RunStatus
from weft.runner.execution.worker import Worker
from weft.runner.handle import AsyncHandle, RunHandle, RunRef, as_ref
from weft.runner.option_checks import Time, as_statuses, as_time, check_listing, check_page
from weft.runner.waiting_queries import WaitingQueries
from weft.typing import Out


class RunnerQueries(WaitingQueries):
    """The methods of a runner that change nothing."""

    async def results(self, run: str | RunHandle[Any]) -> dict[str, Any]:
        """
        Return the latest values that the leaves of *run*, an id or a handle, have produced.

        With a handle that ``start`` or ``send`` returned, they are those of that input; there are none of an input that
        the run has not taken in.
        """
        ref = as_ref(run)
        found = await self._found(ref)
        if ref.key is not None:
            return await self._results_of_key(ref, found)
        if (moved := await self._moved(ref, found)) is not None:
            return await self.results(AsyncHandle(self, moved))
        stored = None if isinstance(found, Worker) else decode_outcome(found.outcome)
        if stored is not None and (ref.input == stored.ordinal or stored.ordinal <= 1):
            return stored.results
        number = ref.input
        return await self._answered(
            await self._run(found),
            lambda run: run.results() if number is None else results_of(run, number),
        )

    async def _results_of_key(self, ref: RunRef, found: Worker | RunRecord) -> dict[str, Any]:
        """Return the results of an input that was left in the inbox of its run; none if the run does not have it."""
        memory = (await self._run(found)).memory
        number = (memory.keys or {}).get(ref.key or "")
        if number is not None:
            return await self.results(AsyncHandle(self, RunRef(ref.id, number)))
        if memory.successor is not None:  # the message was passed on to it
            return await self.results(AsyncHandle(self, RunRef(memory.successor, key=ref.key)))
        return {}

    async def get(self, run: str | RunHandle[Out]) -> Run[Out]:
        """Return *run*, an id or a handle, as it is now."""
        found = await self._found(as_ref(run))
        return (await self._run(found)).frozen_copy(found.state if isinstance(found, Worker) else found.status)

    async def log(self, run: str | RunHandle[Any]) -> list[ev.AnyEvent]:
        """Return everything that has happened in *run*, an id or a handle."""
        return await self._answered(await self._run(await self._found(as_ref(run))), lambda run: run.log())

    async def unread(self, run: str | RunHandle[Any]) -> list[ev.AnyEvent]:
        """
        Return the messages in the inbox of *run*, an id or a handle, that it has not taken in, in order.

        Each is the event that its sender wants.  A run that a process drives takes its messages in within moments; one
        that has finished takes in none, so messages that came too late stay here until the run is deleted.

        Raises:
            RunNotFound: no run has this id.
        """
        ref = as_ref(run)
        await self._found(ref)
        return await self._runtime.mailbox.unread(ref.id)

    async def status(self, run: str | RunHandle[Any]) -> RunStatus:
        """Return the status of *run*, an id or a handle."""
        found = await self._found(as_ref(run))
        return found.state if isinstance(found, Worker) else found.status

    def __contains__(self, id: object) -> bool:
        return id in self._runtime.registry or id in self._runtime.sleepers

    @property
    def held(self) -> list[str]:
        """The ids of the runs that this runner drives, those that only wait and are not in memory included."""
        return [*(worker.id for worker in self._runtime.registry), *self._runtime.sleepers]

    async def find(self, id: str) -> RunRecord:
        """
        Return the record of the run *id*.

        Raises:
            RunNotFound: nothing is stored under this id.
        """
        self._runtime.check_open()
        return await self._runtime.ownership.record(id)

    async def runs(
        self,
        *,
        status: RunStatus | Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: Time | None = None,
        limit: int = 100,
        after: RunRecord | None = None,
    ) -> list[RunRecord]:
        """
        Return the records of stored runs, newest first.

        Args:
            status: only runs in this status, or in one of these.
            workflow: only runs of the workflow with this name.
            failed: only runs with failures that nothing has handled, open ones included; False: only those without.
            since: only runs that were created at this time or later: seconds since the epoch, or a datetime with a
                time zone.
            limit: how many of them at most.
            after: the last record of the page before.

        Raises:
            InvalidOption: one of these is something else.
        """
        self._runtime.check_open()
        check_listing(workflow, failed)
        check_page(limit, after)
        return await self._runtime.ownership.records(
            statuses=as_statuses(status),
            workflow=workflow,
            failed=failed,
            since=as_time("since", since),
            limit=limit,
            after=after,
        )

    async def waiting_runs(
        self,
        *,
        workflow: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        limit: int = 100,
        after: RunRecord | None = None,
    ) -> list[RunRecord]:
        """
        Return the records of stored runs that wait: the one whose time comes first, and at last those without a time.

        Args:
            workflow: only runs of the workflow with this name.
            since: only runs that were created at this time or later: seconds since the epoch, or a datetime with a
                time zone.
            until: only runs that were created before this time.
            limit: how many of them at most.
            after: the last record of the page before.

        Raises:
            InvalidOption: one of these is something else.
        """
        self._runtime.check_open()
        check_listing(workflow, None)
        check_page(limit, after)
        return await self._runtime.ownership.waiting_records(
            workflow=workflow,
            since=as_time("since", since),
            until=as_time("until", until),
            limit=limit,
            after=after,
        )

    async def count(
        self,
        *,
        status: RunStatus | Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: Time | None = None,
    ) -> int:
        """Return how many runs :meth:`runs` has on all of its pages together, without reading them."""
        self._runtime.check_open()
        check_listing(workflow, failed)
        return await self._runtime.ownership.count(
            statuses=as_statuses(status), workflow=workflow, failed=failed, since=as_time("since", since)
        )

    async def tally(self) -> dict[tuple[str, RunStatus], int]:
        """Return how many runs are stored, by the name of their workflow and their status."""
        self._runtime.check_open()
        return dict(await self._runtime.ownership.tally())

    async def count_versions(self, workflow: str) -> dict[str, int]:
        """
        Return how many runs of the workflow with this name are stored, by its version.

        Raises:
            InvalidOption: it is not a name.
        """
        self._runtime.check_open()
        check_listing(workflow, None)
        return dict(await self._runtime.ownership.count_versions(workflow))

    async def endangered(self, *, limit: int = 100) -> list[Endangered]:
        """
        Return the runs whose deadline is in danger or past and that are not done, the earliest deadline first.

        That is the deadline of an input (``start(deadline=...)``).  A deadline is in danger when a fifth of its time is
        left, or when a step starts that usually takes longer than what is left.
        """
        self._runtime.check_open()
        return list(await self._runtime.ownership.endangered(self._runtime.dispatcher.clock.time(), limit))

    async def histogram(
        self, *, since: Time, width: float, workflow: str | None = None
    ) -> dict[tuple[int, RunStatus], int]:
        """
        Return how many runs were created in each period of *width* seconds, by the number of the period and status.

        Args:
            since: when the period 0 begins: seconds since the epoch, or a datetime with a time zone.
            workflow: only runs of the workflow with this name.

        Raises:
            InvalidOption: one of these is something else.
        """
        self._runtime.check_open()
        check_listing(workflow, None)
        begin = as_time("since", since)
        if not width > 0:
            raise InvalidOption(f"width={width!r}: use a number of seconds above 0")
        return dict(await self._runtime.ownership.histogram(since=begin, width=float(width), workflow=workflow))

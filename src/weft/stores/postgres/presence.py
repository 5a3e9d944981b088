"""
Messages between a worker and its fleet, with each renewal of its lease.

The worker reports its load and state, and receives requests, the version of the schema and the load of its peers.  A
request of an operator, such as to drain, is written into the row of the worker, so it survives a lost notification.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

from weft.ports.calls import Call
from weft.ports.deadlines import Endangered
from weft.ports.workers import Load, Served, Waiting, WorkerRecord, is_drain, wished_by
from weft.stores.postgres.statements import Statements

WANTED: Final = "wanted"
"""The payload that notifies a worker of a request in its row."""


class WorkerReport(NamedTuple):
    """The state that a worker reports with each renewal."""

    worker: str = ""
    """Its id, the same in all its rows; empty for an owner that is not a worker."""
    state: str = ""
    wanted: str = ""
    """The request that its previous row had."""
    serves: str = ""
    """The same text for all workers that can take each other's runs."""
    active: int = 0
    concurrency: int = 0


class LeaseReply(NamedTuple):
    """The database's answer to a renewal."""

    wanted: str = ""
    version: int = 0
    """The version of the schema; 0 while it is unknown."""
    peers: tuple[Load, ...] = ()
    rank: int = 0
    """The place of this worker among its peers and itself, from 0."""


class Presence:
    """The messages that a worker and the thread of its lease leave for each other."""

    def __init__(self) -> None:
        self.report = WorkerReport()
        self.reply = LeaseReply()
        self.renewals = 0
        """How many renewals were answered."""
        self.endangered: deque[Endangered] = deque()
        """Deadlines in danger that this worker has to report, since it was the first to find them."""
        self.changed: Callable[[], object] = lambda: None
        """Called in the event loop after each renewal."""

    def receive(
        self, wanted: str, version: int | None, active: Any, concurrency: Any, rank: int, *dangers: Any
    ) -> None:
        """Store the reply to a renewal."""
        peers = tuple(Load(*each) for each in zip(active or (), concurrency or (), strict=True))
        self.endangered.extend(Endangered(*each) for each in _rows(dangers))
        self.reply, self.renewals = LeaseReply(wanted, version or 0, peers, rank), self.renewals + 1

    def answers_after(self, call: Call | None, queues: Collection[str]) -> float | None:
        """Return after how many seconds this worker looks at the queue for a *call*; None if it is for others."""
        if call is None or not self.report.worker or not self.renewals:
            return 0.0
        if call.queue and queues and call.queue not in queues:
            return None
        return call.answered_after(self.reply.rank, len(self.reply.peers) + 1)


def _rows(columns: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of runs that are not held, from their columns."""
    return ((*row, False) for row in zip(*(column or () for column in columns), strict=True))


async def workers(db: Any, statements: Statements) -> list[WorkerRecord]:
    """Return the workers that are alive, oldest first."""
    return [
        WorkerRecord(
            id=worker,
            name=name,
            state=state,
            is_drained=is_drain(wanted),
            drained_by=wished_by(wanted),
            active=active,
            concurrency=concurrency,
            held=held,
            started_at=started_at,
            lease_left=left,
            serves=Served.read(serves),
        )
        for (*(worker, name, state, wanted, active, concurrency, started_at, held, left, serves),) in await db.fetch(
            statements["workers"]
        )
    ]


async def waiting(db: Any, statements: Statements) -> list[Waiting]:
    """Return the runs that are due and have no worker, by workflow, version and queue."""
    return [Waiting(*row) for row in await db.fetch(statements["waiting"])]


async def want(db: Any, statements: Statements, worker: str, wanted: str) -> bool:
    """Request *wanted* of *worker*; return False if it is not alive."""
    return bool(await db.fetch(statements["want"], worker, wanted))

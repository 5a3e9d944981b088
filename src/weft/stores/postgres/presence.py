"""
The words between a worker and its fleet, with each renewal of its lease: its load and state; a wish, the schema, peers.

A wish is written into the row of the worker, so it is not lost if its notification is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from weft.ports.workers import Load, Served, Waiting, WorkerRecord, is_drain, wished_by
from weft.stores.postgres.statements import Statements

WANTED: Final = "wanted"
"""The payload of a notification on the channel of a worker whose row has a wish."""


class Said(NamedTuple):
    """A worker, as it describes itself."""

    worker: str = ""
    """Its id, the same in all its rows; empty for an owner that is not a worker."""
    state: str = ""
    wanted: str = ""
    """The wish that it had before this row."""
    serves: str = ""
    """The same for workers that can take each other's runs."""
    active: int = 0
    concurrency: int = 0


class Heard(NamedTuple):
    """The answer of a renewal."""

    wanted: str = ""
    version: int = 0
    """That of the schema; 0 if it is not known yet."""
    peers: tuple[Load, ...] = ()


class Presence:
    """The place where a worker and the thread of its lease leave messages for each other."""

    def __init__(self) -> None:
        self.said = Said()
        self.heard = Heard()
        self.renewals = 0
        """How often something was heard."""
        self.changed: Callable[[], object] = lambda: None
        """Called in the event loop after each renewal."""

    def hear(self, wanted: str, version: int | None, active: Any, concurrency: Any) -> None:
        """A renewal has answered."""
        peers = tuple(Load(*each) for each in zip(active or (), concurrency or (), strict=True))
        self.heard, self.renewals = Heard(wanted, version or 0, peers), self.renewals + 1


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
    """Say what is wanted of *worker*; return False if no such worker is alive."""
    return bool(await db.fetch(statements["want"], worker, wanted))

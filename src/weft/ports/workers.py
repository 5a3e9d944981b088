"""
The workers of a fleet, as other processes see them.

A wish is what an operator asks of a worker, as one text: the action, and after ``by`` the name of the operator.

    >>> wish("ada"), is_drain("drain by ada"), wished_by("drain by ada")
    ('drain by ada', True, 'ada')
    >>> wish(None), is_drain("drain"), is_drain(""), wished_by("drain")
    ('drain', True, False, '')
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

DRAIN: Final = "drain"
"""The wish that a worker releases its runs and claims none."""
_BY: Final = f"{DRAIN} by "


def wish(by: str | None) -> str:
    """Return the wish of *by* that a worker drains."""
    return f"{_BY}{by}" if by else DRAIN


def is_drain(wanted: str) -> bool:
    """Return whether a wish is that the worker drains."""
    return wanted == DRAIN or wanted.startswith(_BY)


def wished_by(wanted: str) -> str:
    """Return the name of the operator who has a wish; empty if that is not known."""
    return wanted.removeprefix(_BY) if wanted.startswith(_BY) else ""


class Served(msgspec.Struct, frozen=True):
    """
    The runs that a worker can drive: those in its queues, of the workflows that it knows in these versions.

    >>> told = Served(("default",), (("orders", "3f2a"),)).text
    >>> [Served.read(told).can_drive("orders", version, "default") for version in ("3f2a", "77d0")]
    [True, False]
    """

    queues: tuple[str, ...] = ()
    workflows: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """A text that is the same for workers that can take each other's runs."""
        ordered = Served(tuple(sorted(set(self.queues))), tuple(sorted(set(self.workflows))))
        return msgspec.json.encode(ordered).decode()

    @classmethod
    def read(cls, text: str) -> Served:
        """Return what *text* says; nothing, if it says nothing."""
        try:
            return msgspec.json.decode(text, type=Served)
        except msgspec.MsgspecError:
            return cls()

    def can_drive(self, workflow: str, version: str, queue: str) -> bool:
        """Return whether the worker claims such a run; one without a version is claimed by the name of its workflow."""
        return queue in self.queues and any(
            name == workflow and version in (known, "") for name, known in self.workflows
        )


class Load(NamedTuple):
    """How many runs a worker has that are active, and how many it could have."""

    active: int
    concurrency: int


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that is alive."""

    id: str
    name: str
    """Its process and its machine, in words."""
    state: str
    """``working``, ``draining``, ``drained`` …"""
    is_drained: bool
    """Whether it is wanted to hold no runs."""
    drained_by: str = ""
    """The name of the caller who wants that, if it was said."""
    active: int
    """How many of its runs have something to do."""
    concurrency: int
    held: int
    """How many runs it owns."""
    started_at: float
    lease_left: float = 0.0
    """How many seconds its lease still holds, by the clock of the store."""
    serves: Served = Served()

    @property
    def is_full(self) -> bool:
        """Whether it has as many active runs as it could."""
        return self.active >= self.concurrency


class Waiting(msgspec.Struct, frozen=True):
    """Runs of one version of a workflow in one queue that are due and have no worker."""

    workflow: str
    version: str
    queue: str
    runs: int
    oldest: float
    """Seconds for which the oldest one has been due."""


def stranded(waiting: Iterable[Waiting], workers: Iterable[WorkerRecord]) -> list[Waiting]:
    """Return those of *waiting* that none of *workers*, which are alive, can drive."""
    known = [each.serves for each in workers]
    return [
        each
        for each in waiting
        if not any(serves.can_drive(each.workflow, each.version, each.queue) for serves in known)
    ]

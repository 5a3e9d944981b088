"""The workers of a fleet, as others know them."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

DRAIN: Final = "drain"
"""The wish that a worker releases its runs and claims none."""


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
    active: int
    """How many of its runs have something to do."""
    concurrency: int
    held: int
    """How many runs it owns."""
    started_at: float

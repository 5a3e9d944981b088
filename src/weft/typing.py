"""The shared vocabulary of types."""

from __future__ import annotations

from typing import Literal, TypeAlias

ComponentName: TypeAlias = str
RunId: TypeAlias = str

Address: TypeAlias = int | tuple[int, int]
"""The address of a fact in its log: the position of its event, or that position and an index for an element."""

Wait: TypeAlias = Literal["all", "any", "all_done"] | int
"""Which of its parents a join waits for."""

Status: TypeAlias = Literal["running", "waiting", "idle", "parked", "completed", "failed", "cancelled"]
"""The states of a run: a run in memory is running or idle, until it accepts no more input."""

PoliciesMode = Literal["merge", "replace"]
"""Whether rules go in front of those in force, or in their place."""

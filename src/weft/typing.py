"""The shared vocabulary of types."""

from __future__ import annotations

from typing import Literal, TypeAlias

ComponentName: TypeAlias = str
RunId: TypeAlias = str

Address: TypeAlias = int | tuple[int, int]
"""The address of a fact in its log: the position of its event, or that position and an index for an element."""

Wait: TypeAlias = Literal["all", "any", "all_done"] | int
"""Which of its parents a join waits for."""

Status: TypeAlias = Literal["running", "idle"]
"""The states of a run in memory: there is something to do, or there is not."""

PoliciesMode = Literal["merge", "replace"]
"""Whether rules go in front of those in force, or in their place."""

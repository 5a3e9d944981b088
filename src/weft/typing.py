"""The shared vocabulary of types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # that of the type checkers, whose variables can have a default

    In_contra = TypeVar("In_contra", default=Any, contravariant=True)
    """The input that a workflow takes."""
    Out_co = TypeVar("Out_co", default=Any, covariant=True)
    """The value that a component, a flow or a workflow produces."""
    In = TypeVar("In", default=Any)
    """The input of a workflow that a function takes."""
    Out = TypeVar("Out", default=Any)
    """The output of a workflow that a function takes."""
else:
    from typing import TypeVar

    In_contra, Out_co = TypeVar("In_contra", contravariant=True), TypeVar("Out_co", covariant=True)
    In, Out = TypeVar("In"), TypeVar("Out")

RunId: TypeAlias = str

Address: TypeAlias = int | tuple[int, int]
"""The address of a fact in its log: the position of its event, or that position and an index for an element."""

Wait: TypeAlias = Literal["all", "any", "all_done"] | int
"""The parents that a join waits for."""

Status: TypeAlias = Literal["running", "waiting", "idle", "parked", "completed", "failed", "cancelled"]
"""The states of a run: a run in memory is running, waiting or idle, until it accepts no more input."""

PoliciesMode = Literal["merge", "replace"]
"""Whether rules go in front of those in force, or in their place."""

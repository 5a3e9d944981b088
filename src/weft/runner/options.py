"""
The options of a run that is started or resumed, and the hooks of its worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, cast

import msgspec

from weft.core.functions.references import MISSING
from weft.core.run.run import Run
from weft.core.run.runnable import Runnable
from weft.errors import InvalidOption, UnencodableValue
from weft.log import Encoded, check_encodable
from weft.log.functions import named
from weft.policy.matching import check_mode
from weft.runner.checkpoints import Checkpoints, as_checkpoints, check_count, every_cycle
from weft.runner.option_checks import check_choice, check_context, check_keep, check_on_complete_args
from weft.typing import PoliciesMode

OnComplete = Callable[..., object] | str
"""A function of the run's id and the run, or where to find one: ``"module:function"``."""


Rehydration = Literal["full", "lazy", "hybrid"]
"""The ways in which a resume loads a run: everything, references alone, or what the next step needs."""

IfExists = Literal["same", "return", "error", "restart"]
"""The ways in which a start treats an id that is taken."""


class WorkerHooks(msgspec.Struct, frozen=True, kw_only=True):
    """
    Functions that are called when a worker does something.  What they raise is logged and changes nothing.

    They are called in the event loop of the runner and must return at once.  To change the run, they ask the runner: a
    task that calls an ``AsyncRunner``, or another thread that calls a ``Runner``.
    """

    on_dispatch: Callable[[Runnable], object] | None = None
    on_complete: Callable[[Runnable, float], object] | None = None
    """Also told how long it took, in seconds."""
    on_failed: Callable[[Runnable, BaseException], object] | None = None
    on_idle: Callable[[Run], object] | None = None
    """Told the run as it is then, frozen."""
    transform: Callable[[list[Runnable]], list[Runnable]] | None = None
    """Puts what is ready into another order; what it leaves out is offered again with the next change."""


class StartRequest(msgspec.Struct, frozen=True):
    """The first input of a run that is started, and what goes with it."""

    input: Any = MISSING
    """MISSING if the run is started without one."""
    policies: Iterable[Any] | None = None
    policies_mode: PoliciesMode = "merge"
    deadline: float | None = None
    """Seconds within which everything that follows from the input must be done."""
    is_last: bool = True
    """Whether the run accepts no more input after it, and finishes."""
    by: str | None = None
    """The name of the caller."""
    encoded: Encoded | None = None
    """The input as bytes, if it was encoded before."""
    unique: str | None = None
    """The unique key of the run, which no other unfinished run of its workflow has."""

    def __post_init__(self) -> None:
        check_mode(self.policies_mode, "policies_mode")


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How one run is driven."""

    max_concurrency: int = 16
    checkpoints: Checkpoints = every_cycle
    executor: str = "thread"
    """Where plain functions run, unless their policy says otherwise."""
    on_complete: OnComplete | None = None
    on_complete_args: tuple[Any, ...] = ()
    hooks: WorkerHooks | None = None
    context: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    said: Mapping[str, Any] | None = None
    """The options that were said for this run, as plain data: they are stored with it, and hold after a resume."""
    unstorable: tuple[str, ...] = ()
    """Descriptions of the parts that another process could not find."""
    check_arguments: bool = False
    """Whether an attempt fails that changes its arguments."""
    snapshot_every: int | None = None
    """Events between two snapshots; None for never."""
    continue_after: int | None = None
    """Number of events after which an open run is continued as a new one, once it is quiet; None for never."""
    rehydration: Rehydration = "hybrid"
    """The values of a run that a resume loads."""
    keep_values_for: float | None = None
    """Seconds after which values that nothing needs are only in the store; None for never."""

    def __post_init__(self) -> None:
        check_count("max_concurrency", self.max_concurrency)
        if self.snapshot_every is not None:
            check_count("snapshot_every", self.snapshot_every)
        if self.continue_after is not None:
            check_count("continue_after", self.continue_after)
        check_choice("rehydration", self.rehydration, Rehydration)
        check_keep(self.keep_values_for)
        if isinstance(self.on_complete, str) and ":" not in self.on_complete:
            raise InvalidOption(f"on_complete={self.on_complete!r}: use a function or 'module:function'")

    def but(
        self,
        *,
        max_concurrency: int | None = None,
        checkpoint: str | Checkpoints | None = None,
        executor: str | None = None,
        context: Mapping[str, Any] | None = None,
        on_complete: OnComplete | None = None,
        on_complete_args: tuple[Any, ...] = (),
        hooks: WorkerHooks | None = None,
        snapshot_every: int | None = None,
        continue_after: int | None = None,
        rehydration: Rehydration | None = None,
        keep_values_for: float | None = None,
    ) -> RunOptions:
        """Return these options with some of them replaced, for one run."""
        said = {name: value for name, value in (self.said or {}).items() if not name.startswith("on_complete")}
        if max_concurrency is not None:
            said["max_concurrency"] = max_concurrency
        if checkpoint is not None:
            said["checkpoint"] = str(as_checkpoints(checkpoint))
        if executor is not None:
            said["executor"] = executor
        if snapshot_every is not None:
            said["snapshot_every"] = snapshot_every
        if continue_after is not None:
            said["continue_after"] = continue_after
        if keep_values_for is not None:
            check_keep(keep_values_for)
            said["keep_values_for"] = keep_values_for
        unstorable = () if hooks is None else ("the hooks",)
        if on_complete is not None:
            where = _place_of(on_complete)
            if where is None or not _is_data(on_complete_args):
                unstorable = (*unstorable, "on_complete")
            else:
                said["on_complete"], said["on_complete_args"] = where, on_complete_args
        check_context(context)
        check_hooks(hooks)
        check_on_complete_args(on_complete, on_complete_args)
        return RunOptions(
            said=said or None,
            unstorable=unstorable,
            max_concurrency=self.max_concurrency if max_concurrency is None else max_concurrency,
            checkpoints=self.checkpoints if checkpoint is None else as_checkpoints(checkpoint),
            executor=executor or self.executor,
            on_complete=on_complete,
            on_complete_args=tuple(on_complete_args),
            hooks=hooks,
            context={**self.context, **(context or {})},
            check_arguments=self.check_arguments,
            snapshot_every=self.snapshot_every if snapshot_every is None else snapshot_every,
            continue_after=self.continue_after if continue_after is None else continue_after,
            rehydration=self.rehydration if rehydration is None else rehydration,
            keep_values_for=self.keep_values_for if keep_values_for is None else keep_values_for,
        )

    def with_context(self, context: Mapping[str, Any] | None) -> RunOptions:
        """Return these options with *context* over their own."""
        return msgspec.structs.replace(self, context={**self.context, **context}) if context else self

    def restored(self, stored: object) -> RunOptions:
        """Return these options; those that are not set are as the run was *stored* with."""
        if not isinstance(stored, dict):
            return self
        known = cast("dict[str, Any]", stored)
        left = {name: value for name, value in known.items() if name in _STORED and name not in (self.said or {})}
        if self.on_complete is not None:
            left.pop("on_complete", None)
            left.pop("on_complete_args", None)
        if "checkpoint" in left:
            left["checkpoints"] = as_checkpoints(left.pop("checkpoint"))
        if "on_complete_args" in left:
            left["on_complete_args"] = tuple(left["on_complete_args"])
        return msgspec.structs.replace(self, **left) if left else self


_STORED: Final = frozenset(
    (
        *("max_concurrency", "checkpoint", "executor", "on_complete", "on_complete_args"),
        *("snapshot_every", "continue_after", "keep_values_for"),
    )
)


def check_hooks(hooks: object) -> None:
    """
    Refuse hooks that a worker could not call.

    Raises:
        InvalidOption: they are something else.
    """
    if not isinstance(hooks, WorkerHooks | None):
        raise InvalidOption(f"hooks={hooks!r:.80}: use WorkerHooks(on_idle=..., on_failed=...)")


def _place_of(callback: OnComplete) -> str | None:
    """Return where another process could find *callback*, ``module:name``; None if it could not."""
    if isinstance(callback, str):
        return callback
    where = f"{getattr(callback, '__module__', '')}:{getattr(callback, '__qualname__', '')}"
    return where if named(where, unoffered=True) is callback else None


def _is_data(args: tuple[Any, ...]) -> bool:
    try:
        check_encodable(args, "on_complete_args")
    except UnencodableValue:
        return False
    return True

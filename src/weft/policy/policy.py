"""
A policy: how often to try a component, for how long, and what to do when it fails.

    >>> Policy(max_retries=3, backoff="exponential", base_delay=0.5).max_retries
    3
    >>> Policy.io().merge(Policy(timeout=5.0)).timeout
    5.0

A policy is a value, kept next to the graph and not part of a workflow's identity.  It is checked when it is
created.  All times are seconds.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, cast

import msgspec

from weft.core.functions.offered import offer
from weft.core.plan.node import FunctionNode, Kind
from weft.errors import InvalidPolicy, an
from weft.policy.limits import CircuitBreaker, ConcurrencyLimit, RateLimit

Backoff = Literal["none", "linear", "exponential", "jitter"] | Callable[[int], float]
OnFailure = Literal["halt", "skip", "fallback", "dead_letter", "compensate"]
ExecutionMode = Literal["sync", "async", "durable", "external"]
LogLevel = Literal["debug", "info", "warning", "error"]


T = TypeVar("T")


class _Unset(msgspec.Struct, frozen=True):
    """Stands for *value*, the default of a field, until it is known which fields were given."""

    value: Any

    def __repr__(self) -> str:
        return repr(self.value)


def _default(value: T) -> T:
    return cast("T", _Unset(value))


class _PolicyMeta(msgspec.StructMeta):
    """Tells what is wrong with the names that a policy is given."""

    if not TYPE_CHECKING:  # checkers read the fields

        def __call__(self, *args: Any, **fields: Any) -> Any:
            if args:
                raise InvalidPolicy(f"Policy({args[0]!r:.80}): its fields are given by name, such as Policy(timeout=5)")
            check_fields(fields, "Policy")
            return super().__call__(**fields)


class Policy(msgspec.Struct, frozen=True, kw_only=True, dict=True, metaclass=_PolicyMeta):
    """
    How one component is executed.  A field that is not set has its default.

    Two policies are equal if they say the same, whether a default was written or not.
    """

    max_retries: int = _default(0)
    """How many attempts follow the first one."""
    backoff: Backoff = _default("none")
    """How the wait grows from retry to retry; a function takes the number of the retry, from 1, and returns seconds."""
    base_delay: float = _default(1.0)
    max_delay: float = _default(60.0)
    timeout: float | None = _default(None)
    """How long one attempt may take."""
    deadline: float | None = _default(None)
    """How long all attempts together may take, waits included."""
    on_failure: OnFailure = _default("halt")
    """The effect of the last failure: the branch fails, ends quietly, or is kept to be retried."""
    fallback: Callable[..., Any] | None = _default(None)
    """Called with the runnable and the error after the last retry; returns a Value, RetryWith or another runnable."""
    compensation: Callable[..., Any] | None = _default(None)
    """Called with the runnable and the error after the final failure, to undo; the failure stands."""
    retryable: tuple[type[BaseException], ...] | Callable[[BaseException], bool] = _default((Exception,))
    non_retryable: tuple[type[BaseException], ...] = _default(())
    circuit_breaker: CircuitBreaker | None = _default(None)
    rate_limit: RateLimit | None = _default(None)
    concurrency_limit: ConcurrencyLimit | None = _default(None)
    execution_mode: ExecutionMode = _default("sync")
    priority: int = _default(0)
    """Runnables that are ready at the same time are started by priority, the highest first."""
    idempotency_key: Callable[[Any], str] | None = _default(None)
    """Called with the runnable; in place of the key that Weft derives."""
    delay: float = _default(0.0)
    """How long to wait before the first attempt, from when the component became ready."""
    scheduled_at: datetime | None = _default(None)
    """When the first attempt may start; with a time zone."""
    queue_timeout: float | None = _default(None)
    """How long it may wait to be started."""
    heartbeat: float | None = _default(None)
    """How long an attempt may go without a heartbeat."""
    checkpoint_after: bool = _default(False)
    """Whether its result must be durable before anything else of the run starts."""
    executor: str | None = _default(None)
    queue: str | None = _default(None)
    """The queue of a fleet whose workers may run it, each of them; without a fleet it runs here."""
    telemetry_prefix: str | None = _default(None)
    log_level: LogLevel | None = _default(None)
    metadata: Mapping[str, Any] | None = _default(None)

    DEFAULTS: ClassVar[Mapping[str, Any]] = {}

    def __post_init__(self) -> None:
        given: list[str] = []
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if type(value) is _Unset:
                msgspec.structs.force_setattr(self, name, value.value)
            else:
                given.append(name)
        msgspec.structs.force_setattr(self, "_given", tuple(given))
        for check in _CHECKS:
            check(self)
        for name in _CALLED:
            value = getattr(self, name)
            if callable(value):
                offer(value)
        if self.metadata is not None:
            offer(dict(self.metadata))

    def __copy__(self) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), **{name: getattr(self, name) for name in self.given}), ()

    @classmethod
    def llm(cls, **changes: Any) -> Policy:
        """Return a policy for calls of a language model: slow, sometimes overloaded, worth a few slow retries."""
        defaults: dict[str, Any] = {
            "max_retries": 3,
            "backoff": "jitter",
            "base_delay": 1.0,
            "max_delay": 30.0,
            "timeout": 30.0,
        }
        return cls(**(defaults | changes))

    @classmethod
    def io(cls, **changes: Any) -> Policy:
        """Return a policy for a database or an HTTP service: quick, and available again soon after an error."""
        defaults: dict[str, Any] = {
            "max_retries": 2,
            "backoff": "exponential",
            "base_delay": 0.1,
            "max_delay": 5.0,
            "timeout": 10.0,
        }
        return cls(**(defaults | changes))

    @classmethod
    def fast_fail(cls, **changes: Any) -> Policy:
        """Return a policy for work that is right or wrong at once: one short attempt."""
        defaults: dict[str, Any] = {"max_retries": 0, "timeout": 5.0}
        return cls(**(defaults | changes))

    @property
    def given(self) -> tuple[str, ...]:
        """The fields that were set, even if to their default."""
        known: tuple[str, ...] | None = self.__dict__.get("_given")  # a copy has none
        return tuple(self.changes()) if known is None else known

    def merge(self, other: Policy) -> Policy:
        """
        Return this policy with everything that *other* sets, even if it sets a default.

        >>> Policy(max_retries=3, timeout=5.0).merge(Policy(max_retries=0))
        Policy(max_retries=0, timeout=5.0)

        That a default was set is kept when a policy is stored and read again.
        """
        if not isinstance(other, Policy):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidPolicy(f"merge() takes a policy, got {other!r:.80}; use Policy(...)")
        both = {name: getattr(self, name) for name in self.given} | {name: getattr(other, name) for name in other.given}
        return type(self)(**both)

    def __repr__(self) -> str:
        return f"Policy({', '.join(f'{name}={getattr(self, name)!r}' for name in self.given)})"

    def changes(self) -> dict[str, Any]:
        """Return the fields that differ from their default."""
        return {
            name: value for name in self.__struct_fields__ if (value := getattr(self, name)) != Policy.DEFAULTS[name]
        }

    def data(self) -> dict[str, Any]:
        """
        Return the fields that differ from their default and are data, not functions.

        >>> Policy(max_retries=2, fallback=lambda runnable, error: None).data()
        {'max_retries': 2}
        """
        return {name: _plain(value) for name, value in self.changes().items() if not callable(value)}

    @property
    def is_reactive(self) -> bool:
        """Whether it matters only once an attempt has failed: until then it costs nothing."""
        return all(getattr(self, name) == Policy.DEFAULTS[name] for name in _BEFOREHAND)


def check_fields(names: Iterable[str], call: str) -> None:
    """
    Check that *names*, which *call* was given, are fields of a policy.

    Raises:
        InvalidPolicy: one of them is not.
    """
    known = Policy.__struct_fields__
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, 1)
            meant = f"did you mean {close[0]}=? " if close else ""
            raise InvalidPolicy(f"{call}({name}=...): there is no such field; {meant}a policy has {', '.join(known)}")


_CALLED = ("backoff", "retryable", "fallback", "compensation", "idempotency_key")
"""The fields that may hold a function; classes of exceptions are compared, and never called."""


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if isinstance(value, tuple):
        return [kind.__qualname__ for kind in cast("tuple[type, ...]", value)]
    return value


def _positive(*names: str) -> Callable[[Policy], None]:
    def check(policy: Policy) -> None:
        for name in names:
            value = getattr(policy, name)
            if value is not None and not (_is_number(value) and value > 0):
                raise InvalidPolicy(f"{name}={value!r}: use a number of seconds above 0, or None")

    return check


def _not_negative(*names: str) -> Callable[[Policy], None]:
    def check(policy: Policy) -> None:
        for name in names:
            value = getattr(policy, name)
            if not _is_number(value) or value < 0:
                raise InvalidPolicy(f"{name}={value!r}: use a number of seconds of at least 0")

    return check


def _one_of(name: str, *allowed: str | None) -> Callable[[Policy], None]:
    def check(policy: Policy) -> None:
        value = getattr(policy, name)
        if value not in allowed and not (name == "backoff" and callable(value)):
            also = " or a function of the number of the retry" if name == "backoff" else ""
            raise InvalidPolicy(f"{name}={value!r}: use one of {', '.join(map(repr, allowed))}{also}")

    return check


def _is_a(name: str, *kinds: type) -> Callable[[Policy], None]:
    def check(policy: Policy) -> None:
        value = getattr(policy, name)
        if value is not None and not isinstance(value, kinds):
            raise InvalidPolicy(f"{name}={value!r}: use {' or '.join(an(kind.__name__) for kind in kinds)}")

    return check


def _callable(*names: str) -> Callable[[Policy], None]:
    def check(policy: Policy) -> None:
        for name in names:
            value = getattr(policy, name)
            if value is not None and not callable(value):
                raise InvalidPolicy(f"{name}={value!r}: use a function")

    return check


def _no_coroutines(policy: Policy) -> None:
    """Refuse coroutine functions: the functions of a policy are called between attempts, where nothing is awaited."""
    for name in _CALLED:
        value = getattr(policy, name)
        if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(getattr(value, "__call__", None)):  # noqa: B004
            raise InvalidPolicy(
                f"{name}={value!r} is a coroutine function, which nothing would await: use a plain function; "
                "a fallback may return runnable.using(async_function), and on_error(then=...) may lead to an async step"
            )


def _counts(policy: Policy) -> None:
    for name in ("max_retries", "priority"):
        value = getattr(policy, name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidPolicy(f"{name}={value!r}: use a whole number")
    if policy.max_retries < 0:
        raise InvalidPolicy(f"max_retries={policy.max_retries!r}: use a whole number of at least 0")


def _exceptions(policy: Policy) -> None:
    for name in ("retryable", "non_retryable"):
        value: Any = getattr(policy, name)
        if name == "retryable" and callable(value):
            continue
        given = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (None,)
        if not all(_is_exception(kind) for kind in given):
            raise InvalidPolicy(f"{name}={value!r}: use a tuple of exception classes")


def _pairs(policy: Policy) -> None:
    if policy.on_failure == "fallback" and policy.fallback is None:
        raise InvalidPolicy("on_failure='fallback' needs fallback=, a function of the runnable and the error")
    if (policy.on_failure == "compensate") != (policy.compensation is not None):
        raise InvalidPolicy("on_failure='compensate' and compensation= belong together")
    if policy.scheduled_at is not None and policy.scheduled_at.tzinfo is None:
        raise InvalidPolicy(f"scheduled_at={policy.scheduled_at!r} has no time zone; use datetime(..., tzinfo=UTC)")


def _queues(policy: Policy) -> None:
    if policy.queue is None:
        return
    if not policy.queue:
        raise InvalidPolicy("queue='': use the name of a queue, which workers serve by --queues, or None")
    if policy.heartbeat is not None:
        raise InvalidPolicy(
            "queue= and heartbeat= do not go together: the worker that runs the step has a lease; use timeout="
        )
    if policy.execution_mode == "external":
        raise InvalidPolicy("queue= and execution_mode='external' do not go together: the step is completed elsewhere")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


_CHECKS: tuple[Callable[[Policy], None], ...] = (
    _counts,
    _one_of("backoff", "none", "linear", "exponential", "jitter"),
    _one_of("on_failure", "halt", "skip", "fallback", "dead_letter", "compensate"),
    _one_of("execution_mode", "sync", "async", "durable", "external"),
    _one_of("log_level", None, "debug", "info", "warning", "error"),
    _not_negative("base_delay", "max_delay", "delay"),
    _positive("timeout", "deadline", "queue_timeout", "heartbeat"),
    _callable("fallback", "compensation", "idempotency_key"),
    _no_coroutines,
    _exceptions,
    _is_a("circuit_breaker", CircuitBreaker),
    _is_a("rate_limit", RateLimit),
    _is_a("concurrency_limit", ConcurrencyLimit),
    _is_a("scheduled_at", datetime),
    _is_a("metadata", Mapping),
    _is_a("executor", str),
    _is_a("queue", str),
    _is_a("telemetry_prefix", str),
    _is_a("checkpoint_after", bool),
    _pairs,
    _queues,
)

_NEEDS_A_RUNNER = ("queue_timeout", "heartbeat", "checkpoint_after", "executor", "telemetry_prefix", "log_level")


def check_external(node: FunctionNode, policy: Policy) -> None:
    """
    Refuse ``execution_mode="external"`` for what is not a step.

    Raises:
        InvalidPolicy: *node* has no value that could come from outside.
    """
    if policy.execution_mode == "external" and not _is_step(node):
        raise InvalidPolicy(
            f"the policy of {node.name!r} says execution_mode='external', and only a step can be completed from "
            "outside; write a rule for the step alone"
        )


def check_queue(node: FunctionNode, policy: Policy) -> None:
    """
    Refuse ``queue=`` for what is not a step.

    Raises:
        InvalidPolicy: *node* needs its run, which no other worker has.
    """
    if policy.queue is not None and not _is_step(node):
        raise InvalidPolicy(
            f"the policy of {node.name!r} says queue={policy.queue!r}, and only a step can run on any worker: the "
            "others need their run; write a rule for the step alone"
        )


def _is_step(node: FunctionNode) -> bool:
    is_other = node.stateful or node.is_test or node.is_fan or node.wait is not None or node.undoes
    return node.kind is Kind.WORK and not is_other


def check_in_memory(component: str, policy: Policy) -> None:
    """
    Refuse a policy that a run in memory cannot honour.

    Raises:
        InvalidPolicy: the policy of *component* needs a runner.
    """
    asked = [name for name in _NEEDS_A_RUNNER if getattr(policy, name) != Policy.DEFAULTS[name]]
    if asked:
        raise InvalidPolicy(
            f"the policy of {component!r} sets {', '.join(asked)}, which a run in memory cannot honour; "
            "leave that out, or use a runner"
        )


_BEFOREHAND = (
    "timeout",
    "deadline",
    "circuit_breaker",
    "rate_limit",
    "concurrency_limit",
    "delay",
    "scheduled_at",
    "idempotency_key",
    "execution_mode",
)
"""The fields that matter before or during the first attempt."""

Policy.DEFAULTS = {name: getattr(Policy(), name) for name in Policy.__struct_fields__}

"""
The instructions of a driver, and the replies to them.

The driver of one runnable is a generator: it yields an :class:`Instruction`, is sent the :class:`Reply`, and
returns the outcome in the end.  Its caller owns the clock, the threads and the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import msgspec

from weft.core.events import AttemptFailed
from weft.core.failure import PROPAGATES
from weft.core.functions.current import Addition
from weft.core.run.runnable import Outcome, Runnable
from weft.policy.policy import Policy
from weft.ports.counters import CounterKey, Counters


class Attempt(msgspec.Struct, frozen=True):
    """Execute *runnable*, for at most *timeout* seconds."""

    runnable: Runnable
    timeout: float | None
    until: float | None = None
    """The deadline, in seconds since the epoch: the attempt must be over by then, even if it was not started."""
    begins: Callable[[], bool] | None = None
    """
    To be called when nothing else is missing, just before the attempt starts: takes a turn of its rate limit, and
    returns whether there was one.  If not, the attempt must not start, and the reply is :class:`Overtaken`.
    """


class Pause(msgspec.Struct, frozen=True):
    """Wait for *seconds*."""

    seconds: float
    after: AttemptFailed | None = None
    """The failed attempt before the pause, for callers that record progress."""
    about: CounterKey | None = None
    """The limit that it waits for, for diagnosis."""


class Await(msgspec.Struct, frozen=True):
    """Wait until the counter at *key* changes, for at most *seconds*."""

    key: CounterKey
    seconds: float | None


class AwaitTurn(msgspec.Struct, frozen=True):
    """Wait until a turn of the rate limit at *key* is free, for at most *seconds*."""

    key: CounterKey
    wait: Callable[[], float]
    """Returns in how many seconds the next turn is free, as of now."""
    seconds: float | None


class CallPolicy(msgspec.Struct, frozen=True):
    """Call a function of the policy that may be slow: a fallback, a compensation."""

    call: Callable[[], Any]
    until: float | None = None
    """When it must be over, in seconds since the epoch: the deadline of the input.  If it is not, the reply is None."""

    def answered(self) -> Returned | Raised:
        """Call it here and return the reply; ``KeyboardInterrupt`` and the like propagate."""
        try:
            return Returned(self.call())
        except PROPAGATES:
            raise
        except BaseException as error:  # noqa: BLE001 - its exception is the reply
            return Raised(error)


class Returned(msgspec.Struct, frozen=True):
    """The attempt returned *value*."""

    value: Any
    added: tuple[Addition, ...] = ()
    """Its additions to the run."""
    duration_ns: int = 0


class Raised(msgspec.Struct, frozen=True):
    """The attempt failed with *error*."""

    error: BaseException
    duration_ns: int = 0


class Overtaken(msgspec.Struct, frozen=True):
    """The attempt was not started: another one has taken the turn that was free."""


Instruction = Attempt | CallPolicy | Pause | Await | AwaitTurn
Reply = Returned | Raised | Overtaken | None
Instructions = Generator[Instruction, Reply, Outcome]
Part = Generator[Instruction, Reply, Exception | None]
"""A part of the driver that returns why it cannot continue, or None."""


class Conditions(msgspec.Struct, frozen=True):
    """The inputs of the driver other than the policy."""

    now: Callable[[], float]
    counters: Counters
    draw: Callable[[], float]
    """A number from 0 to 1, for ``jitter``."""
    deadline: float | None = None
    """When the run must be done, in seconds since the epoch."""
    current: Callable[[], Policy] | None = None
    """Returns the present policy, called at every decision: policies may change while a runnable is in flight."""
    falling_back: Callable[[BaseException], object] | None = None
    """Called before the fallback is."""
    monotonic: Callable[[], float] | None = None
    """The time that limits count, which is never set; *now* if it is None."""


class Begun(msgspec.Struct, frozen=True):
    """The progress of a runnable so far, in this process or another."""

    attempts: int = 0
    """The number of the last attempt that was started."""
    failed: int = 0
    """How many attempts have failed; one that was cut short by a crash has not."""
    retry_at: float = 0.0
    """When the next attempt is due, in seconds since the epoch."""
    since: float = 0.0
    """When the first attempt began, or when it became ready if it had to wait, in seconds since the epoch; 0 if
    unknown."""


FRESH = Begun()

"""
What a driver says, and what it is told.

The driver of one runnable is a generator: it yields an :class:`Instruction`, is sent the :class:`Reply`, and
returns the outcome in the end.  Whoever speaks with it owns the clock, the threads and the event loop.
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
    """The deadline, in seconds since the epoch: it must be over by then, whether it was started or not."""
    begins: Callable[[], object] | None = None
    """To be called when it is started: until then it has used nothing up."""


class Pause(msgspec.Struct, frozen=True):
    """Let *seconds* pass."""

    seconds: float
    after: AttemptFailed | None = None
    """The failed attempt that the pause follows, for those who write down how far they are."""
    unless: CounterKey | None = None
    """A counter: when it changes, it is worth asking again before the time is up, for those who can listen."""
    about: CounterKey | None = None
    """The limit that it waits for, for those who tell."""


class Await(msgspec.Struct, frozen=True):
    """Wait until the counter at *key* changes, for at most *seconds*."""

    key: CounterKey
    seconds: float | None


class CallPolicy(msgspec.Struct, frozen=True):
    """Call a function of the policy that may take its time: a fallback, a compensation."""

    call: Callable[[], Any]

    def answered(self) -> Returned | Raised:
        """Return what it gives when it is called here and now; what ends a program propagates."""
        try:
            return Returned(self.call())
        except PROPAGATES:
            raise
        except BaseException as error:  # noqa: BLE001 - what it raises is its answer
            return Raised(error)


class Returned(msgspec.Struct, frozen=True):
    """The attempt gave *value*."""

    value: Any
    added: tuple[Addition, ...] = ()
    """What it added to its run."""
    duration_ns: int = 0


class Raised(msgspec.Struct, frozen=True):
    """The attempt failed with *error*."""

    error: BaseException
    duration_ns: int = 0


Instruction = Attempt | CallPolicy | Pause | Await
Reply = Returned | Raised | None
Instructions = Generator[Instruction, Reply, Outcome]
Part = Generator[Instruction, Reply, Exception | None]
"""A part of a conversation that gives why it cannot go on, or None."""


class Conditions(msgspec.Struct, frozen=True):
    """What the driver is given besides the policy."""

    now: Callable[[], float]
    counters: Counters
    draw: Callable[[], float]
    """A number from 0 to 1, for ``jitter``."""
    deadline: float | None = None
    """When the run must be done, in seconds since the epoch."""
    current: Callable[[], Policy] | None = None
    """Gives the policy that holds now, asked at every decision: policies may change while a runnable is under way."""
    falling_back: Callable[[BaseException], object] | None = None
    """Told before a fallback is asked."""


class Begun(msgspec.Struct, frozen=True):
    """How far a runnable had come before, in this process or another."""

    attempts: int = 0
    """The number of the last attempt that was started."""
    failed: int = 0
    """How many attempts have failed; one that was cut short by a crash has not."""
    retry_at: float = 0.0
    """When the next attempt is due, in seconds since the epoch."""
    since: float = 0.0
    """When the first attempt began, or when it became ready if it had to wait, in seconds since the epoch; 0 if nobody
    knows."""


FRESH = Begun()

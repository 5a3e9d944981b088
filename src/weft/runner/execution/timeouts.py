"""
The timers of a runner, for ``queue_timeout``, ``timeout``, ``deadline`` and ``heartbeat``.

When a timer fires, it checks again before it ends the attempt: the attempt may have waited for a thread of its
executor, or the event loop may have been blocked.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from weft.errors import SilentStep, StepTimeout
from weft.policy.decision import given_back, has_queued_too_long, is_silent
from weft.policy.driver import Attempt
from weft.policy.policy import Policy
from weft.runner.execution.inflight import InFlight

if TYPE_CHECKING:
    from weft.runner.execution.dispatcher import Dispatcher
    from weft.runner.execution.worker import Worker

_EARLY: Final = 0.0005
"""How many seconds too early a timer may fire."""


class Timeouts:
    """Sets timers for the attempts of all workers, and tells the workers when the time is up."""

    __slots__ = ("_dispatcher",)

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def later(self, seconds: float, worker: Worker, call: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        """Call a method of *worker* after *seconds*."""
        return self._dispatcher.loop.call_later(max(0.0, seconds), self._dispatcher.guard, worker, call, *args)

    def watch_start(self, worker: Worker, inflight: InFlight, seconds: float) -> None:
        """Fail *inflight* if its first attempt has not started after *seconds*."""
        inflight.queue_timer = self.later(seconds, worker, self._queued_too_long, worker, inflight)

    def watch_line(self, worker: Worker, inflight: InFlight, attempt: Attempt, seconds: float) -> None:
        """Fail the *attempt* if its executor has not started it at its deadline, in *seconds*."""
        inflight.started = self._dispatcher.monotonic()
        inflight.arm(self.later(seconds, worker, self._timed_out, worker, inflight, attempt))

    def watch(self, worker: Worker, inflight: InFlight, attempt: Attempt, policy: Policy | None) -> None:
        """Fail the *attempt*, which starts now, when its time is up or it has sent no heartbeat for too long."""
        if attempt.timeout is not None:
            left = self._left(inflight, attempt)
            inflight.arm(self.later(left, worker, self._timed_out, worker, inflight, attempt))
        if policy is not None and policy.heartbeat is not None:
            monotonic = self._dispatcher.monotonic
            attempt.runnable.on_heartbeat = lambda: _beat(inflight, monotonic)
            inflight.arm(self.later(policy.heartbeat, worker, self._listened, worker, inflight, inflight.started))

    def _timed_out(
        self, worker: Worker, inflight: InFlight, attempt: Attempt, lost: float = 0.0, given: float = 0.0
    ) -> None:
        """
        The time of the attempt is up, unless it waited for a thread or the event loop was blocked meanwhile.

        An attempt that has ended but was not collected yet has no start time any more (``_left``), and is not ended
        here.  If the timer fired late, the event loop was blocked, and the attempt gets more time: *given* is the total
        of that, and *lost* is how long the event loop was blocked.
        """
        left = self._left(inflight, attempt) + lost + given
        if left > _EARLY:
            inflight.arm(self.later(left, worker, self._timed_out, worker, inflight, attempt, lost, given))
            return
        more = given_back(-left, timeout=attempt.timeout or 0.0, given=given)
        if more:
            given += more
            inflight.arm(self.later(more, worker, self._timed_out, worker, inflight, attempt, lost - left, given))
            return
        worker.attempts.cut_short(inflight, StepTimeout(inflight.activation.node.name, attempt.timeout or 0.0))

    def _left(self, inflight: InFlight, attempt: Attempt) -> float:
        """Return how long the attempt may still run: a timeout counts from its start, a deadline does not."""
        dispatcher = self._dispatcher
        began, left = dispatcher.started(inflight), attempt.timeout or math.inf
        if began is not None:
            left -= dispatcher.monotonic() - began
        return left if attempt.until is None else min(left, attempt.until - dispatcher.clock.time())

    def _listened(self, worker: Worker, inflight: InFlight, since: float, given: float = 0.0) -> None:
        """
        Fail the attempt if it has sent no heartbeat since the last check.

        A coroutine cannot send one while the event loop is blocked: as in :meth:`_timed_out`, it is then *given* more.
        """
        policy = worker.policies.of(inflight.activation)[0]
        if policy is None or policy.heartbeat is None:
            return
        now = self._dispatcher.monotonic()
        began = self._dispatcher.started(inflight)
        is_waiting = began is None or self._dispatcher.is_lent(inflight)
        last = max(since, inflight.last_sign, now if is_waiting or began is None else began)
        if last > since:
            given = 0.0
        if not is_silent(policy, last_sign=last + given, now=now + _EARLY):
            wait = policy.heartbeat + given - (now - last)
            inflight.arm(self.later(wait, worker, self._listened, worker, inflight, last, given))
            return
        more = given_back(now - last - given - policy.heartbeat, timeout=policy.heartbeat, given=given)
        if more:
            inflight.arm(self.later(more, worker, self._listened, worker, inflight, last, given + more))
        else:
            worker.attempts.cut_short(inflight, SilentStep(inflight.activation.node.name, policy.heartbeat))

    def _queued_too_long(self, worker: Worker, inflight: InFlight) -> None:
        """Fail *inflight*, whose ``queue_timeout`` is over, unless its policy has changed meanwhile."""
        policy = worker.policies.of(inflight.activation)[0]
        if inflight.has_ended or policy is None or policy.queue_timeout is None:
            return
        if self._dispatcher.started(inflight) is not None:  # a worker of the fleet runs it
            return
        now = self._dispatcher.monotonic()
        if has_queued_too_long(policy, ready_since=inflight.ready_since, now=now + _EARLY):
            self._dispatcher.withdraw(inflight)
            worker.attempts.not_started(inflight, policy.queue_timeout)
        else:
            self.watch_start(worker, inflight, inflight.ready_since + policy.queue_timeout - now)


def _beat(inflight: InFlight, monotonic: Callable[[], float]) -> None:
    inflight.last_sign = monotonic()

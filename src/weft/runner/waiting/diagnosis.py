"""
Explains, for ``WaitTimeout``, what a run is waiting for.

It covers everything that a run can wait for: an unavailable store, an attempt that runs or is queued, a retry, a delay,
a limit, a child, a callback.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.core.draw.progress import duration
from weft.policy.instructions import Await, AwaitTurn, Pause
from weft.runner.execution.inflight import InFlight
from weft.runner.execution.worker import Worker

_MOST = 3
"""How many runnables are named."""

_LIMITS = {
    "rate_limit": "a turn of the rate limit",
    "circuit_breaker": "the circuit breaker",
    "concurrency_limit": "a place in the concurrency limit",
}


def diagnose(worker: Worker, *, is_calling: bool = False) -> str:
    """Return what *worker* is waiting for; *is_calling* says whether its ``on_complete`` is being called."""
    told = [*_store(worker), *_in_flight(worker), *_waiting(worker)]
    if worker.has_crashed:
        told.append("its worker has crashed, and is being rebuilt")
    if is_calling:
        told.append("its on_complete has not returned yet")
    return "; ".join(told) or "nothing is in flight, and what was waited for does not hold"


def _store(worker: Worker) -> Iterator[str]:
    """Yield what the store still has to do."""
    journal, unwritten = worker.dispatcher.journal, len(worker.run.memory.log) - worker.acknowledged
    events = "1 event is" if unwritten == 1 else f"{unwritten:,} events are"
    if journal.outage is not None and unwritten:
        ago = worker.dispatcher.monotonic() - journal.outage_since
        yield f"the store has been unavailable for {_seconds(ago)}, and {events} not written ({journal.outage})"
    elif unwritten and worker.is_idle and not worker.is_settled:
        yield f"{events} not written yet"


def _in_flight(worker: Worker) -> list[str]:
    if worker.upcoming is not None:
        return [f"{worker.upcoming.node.name!r} starts once what it needs is stored"]
    in_flight = list(worker.queue.by_key.values())
    told = [_inflight(worker, inflight) for inflight in in_flight[:_MOST]]
    if len(in_flight) > _MOST:
        told.append(f"{len(in_flight) - _MOST:,} more are in flight")
    return told


def _waiting(worker: Worker) -> list[str]:
    """Return what waits for time, a signal or the outside."""
    waiting, now = list((worker.run.memory.waiting or {}).values()), worker.dispatcher.clock.time()
    told: list[str] = []
    for each in waiting[:_MOST]:
        wait, at = each.activation.node.wait, each.next_at
        signal = "" if wait is None or wait.signal is None else f" for the signal {wait.signal!r}"
        signal = " to be completed from outside" if each.attempt else signal
        until = "" if at is None else f", {_seconds(at - now)} more" + (" at most" if signal else "")
        told.append(f"{each.activation.node.name!r} {'waits' if signal else 'sleeps'}{signal}{until}")
    if len(waiting) > _MOST:
        told.append(f"{len(waiting) - _MOST:,} more wait")
    return told


def _inflight(worker: Worker, inflight: InFlight) -> str:
    """Say what one runnable is doing."""
    dispatcher, name = worker.dispatcher, repr(inflight.activation.node.name)
    if inflight.state == "encoding":
        return f"{name} has ended, and its large value is being encoded"
    if dispatcher.is_lent(inflight):
        return f"{name} waits for {_children(worker, inflight)}"
    if inflight.is_started:
        if dispatcher.started(inflight) is None:
            return f"{name} waits for a worker of executor {inflight.executor!r}"
        spent = dispatcher.monotonic() - inflight.started
        return f"{name} has been running for {_seconds(spent)}{_attempt(inflight)}"
    if inflight.state in ("executing", "calling_policy"):
        return f"{name} is queued for executor {inflight.executor!r}"
    if inflight.state == "waiting" and inflight.awaited is not None:
        return f"{name} {_awaited(inflight.awaited, inflight.awaited_until - dispatcher.monotonic())}"
    if inflight.needed > worker.acknowledged:
        return f"{name} starts once what it needs is stored"
    return f"{name} waits for others of its run: max_concurrency={worker.options.max_concurrency} are in flight"


def _awaited(awaited: Pause | Await | AwaitTurn, left: float) -> str:
    match awaited:
        case Pause(after=failed) if failed is not None:
            error = f"{failed.error.type}: {failed.error.message}"
            return f"is tried again in {_seconds(left)}: attempt {failed.attempt} failed with {error}"
        case Pause(about=None):
            return f"is delayed by its policy for {_seconds(left)} more"
        case Pause():
            return f"waits for {_limit(awaited.about)}, {_seconds(left)} more"
        case AwaitTurn(key, wait):
            return f"waits for {_limit(key)}, the next one in {_seconds(wait())}"
        case Await(key):
            return f"waits for {_limit(key)}"


def _limit(key: Any) -> str:
    kind, name = key
    return f"{_LIMITS.get(kind, kind)} {name!r}"


def _children(worker: Worker, inflight: InFlight) -> str:
    key, started = inflight.activation.key, worker.run.memory.children or {}
    mine = [child for child, event in started.items() if (event.component, event.inputs) == key]
    return f"its child {', '.join(map(repr, mine[-_MOST:]))}" if mine else "another run"


def _attempt(inflight: InFlight) -> str:
    number = 1 if inflight.attempt is None else inflight.attempt.runnable.attempt
    return f", attempt {number}" if number > 1 else ""


def _seconds(seconds: float) -> str:
    return "0 s" if seconds <= 0 else duration(seconds)

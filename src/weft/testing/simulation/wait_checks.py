"""
Checks what became of the waits of a simulated run: its timers, and the signals that it was sent.

The log says what happened and in which order; the times at which the store has committed it say when, at the latest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.core import events as ev
from weft.core.components.waits import Waits
from weft.core.fold.fold import record
from weft.core.fold.scope import Activation, Key
from weft.core.run.run import Run
from weft.testing.simulation.committed import Committed
from weft.testing.simulation.scenario import Scenario
from weft.testing.simulation.wall_clock import WallClock

_EARLY = 1e-3
"""How many seconds too early a timer may fire."""
_TIMEOUT = "weft.errors.SignalTimeout"


class WaitChecks:
    """Reads the logs of runs that waited."""

    def __init__(self, scenario: Scenario, committed: Committed, clock: WallClock) -> None:
        self._scenario, self._committed, self._clock = scenario, committed, clock
        self._is_reloaded = scenario.resident is not None or not scenario.has_plain_lives
        """Whether a run may leave memory and come back in one life."""

    def examine(self, run: Run) -> Iterator[str]:
        """Yield what is wrong with the waits of *run*."""
        if not any(isinstance(event, ev.TimerStarted | ev.SignalReceived | ev.SignalTaken) for event in run.log()):
            return
        twin = Run(run.workflow, id=run.id, context=run.context)
        kept: dict[int, ev.SignalReceived] = {}
        seen: set[tuple[str, str]] = set()
        started: dict[Key, ev.TimerStarted] = {}
        for event in run.log()[1:]:
            match event:
                case ev.SignalReceived():
                    if event.key is not None and (event.name, event.key) in seen:
                        yield f"the signal {event.name!r} was received twice with the key {event.key!r}"
                    if event.key is not None:
                        seen.add((event.name, event.key))
                    kept[event.seq] = event
                case ev.SignalTaken():
                    yield from _taken(event, _waiting(twin, event), kept)
                    kept.pop(event.signal, None)
                case ev.TimerStarted():
                    started[event.component, event.inputs] = event
                case ev.TimerFired():
                    yield from self._fired(run.id, event, started.get((event.component, event.inputs)), event.at)
                case ev.RunnableFailed() if event.error.type == _TIMEOUT:
                    at = None if event.timing is None else event.timing.at
                    yield from self._fired(run.id, event, started.get((event.component, event.inputs)), at)
                    yield from _timed_out(event, _waiting(twin, event), kept)
                case _:
                    pass
            record(twin.memory, event)

    def _fired(self, run: str, event: Any, started: ev.TimerStarted | None, at: float | None) -> Iterator[str]:
        """Yield a problem if the timer that *event* tells of fired before its time."""
        name = f"{event.component}{event.inputs}"
        if started is None:
            yield f"{name} is over, and its timer was never started"
            return
        if at is not None and at + _EARLY < started.due:
            yield f"the log says that {name} was over {started.due - at:.3f} seconds too early"
        (fired, life), (began, first) = self._committed.when(run, event.seq), self._committed.when(run, started.seq)
        earliest, shown = started.due, self._clock.highest(until=fired)
        if self._scenario.jumps and started.is_relative:
            if life != first or self._is_reloaded:
                return  # what is left of it was measured by the clock, which was set
            since = self._clock.moment(started.at, until=began)
            if since is None:
                return
            earliest, shown = since + started.due - started.at, fired
        if shown + _EARLY < earliest:
            yield f"{name} was over {earliest - shown:.3f} seconds too early"


def _waiting(twin: Run, event: Any) -> Activation | None:
    """Return the wait that *event* is about to end."""
    found = (twin.memory.waiting or {}).get((event.component, event.inputs))
    return None if found is None else found.activation


def _taken(event: ev.SignalTaken, wait: Activation | None, kept: dict[int, ev.SignalReceived]) -> Iterator[str]:
    name = f"{event.component}{event.inputs}"
    signal = kept.get(event.signal)
    if signal is None:
        yield f"{name} took the signal at {event.signal}, which was taken before or never received"
        return
    if wait is None or not _is_for(wait, signal):
        yield f"{name} took the signal at {event.signal}, which is not for it"
        return
    for seq, other in kept.items():
        if seq < event.signal and _is_for(wait, other):
            yield f"{name} took the signal at {event.signal}, and the one at {seq} came before it"
            return


def _timed_out(event: ev.RunnableFailed, wait: Activation | None, kept: dict[int, ev.SignalReceived]) -> Iterator[str]:
    found = [seq for seq, signal in kept.items() if wait is not None and _is_for(wait, signal)]
    if found:
        yield f"{event.component}{event.inputs} has timed out, and the signal at {found[0]} was there for it"


def _is_for(activation: Activation, signal: ev.SignalReceived) -> bool:
    wait: Waits | None = activation.node.wait
    return wait is not None and wait.signal == signal.name and wait.is_for(signal.value, activation.facts[0].value)

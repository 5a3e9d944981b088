"""
Waits: components that have a value only when it is time, or when a signal has come.

The fold keeps what waits (``memory.waiting``) and the signals that no wait has taken (``memory.signals``).  A driver,
which knows the time, calls :func:`begin_waits` after every change, for what began to wait; :func:`receive_signal` for a
signal; and :func:`fire_timer` when a timer may be due.

Invariants:

- A wait ends once: with a signal (``SignalTaken``), its timer (``TimerFired``, or ``RunnableFailed`` with a
  ``SignalTimeout``), a deadline, or a skip.  The order of the log decides which.
- A signal is taken at most once, by the wait that has waited longest of those it is for; a wait takes the oldest signal
  that is for it.
- An external step that is open waits too (ADR 36): its timer was written when its function returned, and fails the
  attempt.
- Functions of the user (of a sleep, ``match``, a schema) are called here, and never by the fold.
- A run that was restored has all its waits in ``memory.newly_waiting``: beginning them again starts no second timer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from weft.core import events as ev
from weft.core.components.waits import Waits
from weft.core.failure import describe, text_of
from weft.core.fold.fold import record
from weft.core.fold.memory import Memory
from weft.core.fold.scope import Activation, Key, Waiting
from weft.core.run.phases import Phases
from weft.errors import DeadlineExceeded, InvalidSignal, SignalTimeout, StepTimeout, UnknownSignal

_UNFIT: Final = object()
"""Stands for a value that does not fit the schema of a wait."""


def begin_waits(run: Phases, now: float) -> list[Key]:
    """
    Begin what waits since the last call: start its timer, or let it take a signal that came early.

    A function of a sleep that raises, or returns something that is not a time, fails the sleep; a ``match`` that raises
    on a signal that came early fails the wait.

    Returns:
        The keys of those that wait for time now.
    """
    memory = run.memory
    if not memory.newly_waiting:
        return []
    begun, memory.newly_waiting = memory.newly_waiting, None
    timed: list[Key] = []
    for activation in begun:
        waiting = (memory.waiting or {}).get(activation.key)
        if waiting is None or waiting.activation is not activation:
            continue  # it has ended since
        if waiting.attempt:  # an external step, whose function has run
            if waiting.next_at is not None:
                timed.append(activation.key)
            continue
        try:
            is_over = _take_early_signal(memory, activation, now)
            if not is_over and waiting.due is None:
                _start_timer(memory, activation, now)
        except Exception as error:  # noqa: BLE001 - whatever a function of the user raises fails the wait alone
            _fail(run, activation, error, now)
            continue
        if not is_over and _next_at(memory, activation.key) is not None:
            timed.append(activation.key)
    return timed


def receive_signal(
    run: Phases, name: str, value: Any, *, at: float, key: str | None = None, by: str | None = None
) -> bool:
    """
    Take the signal *name* in: the wait that has waited longest, of those it is for, takes it, or it is kept.

    Args:
        at: when it came, in seconds since the epoch.
        key: makes sending it twice harmless: a signal with a name and key that this run has seen is ignored.
        by: the name of the caller.

    Returns:
        Whether it was recorded: False if its key was seen before.

    Raises:
        UnknownSignal: no component waits for it.
        InvalidSignal: its value does not fit any wait for it, or ``match`` of a wait raises on it; nothing is recorded.
    """
    memory = run.memory
    if name not in memory.plan.signals and name not in memory.awaited_signals:
        raise UnknownSignal(name, run.id, memory.awaited_signals)
    if key is not None and memory.signal_keys is not None and (name, key) in memory.signal_keys:
        return False
    check_signal(memory, name, value)
    found = _oldest_wait(memory, name, value)
    seq = len(memory.log) + 1
    record(memory, ev.SignalReceived(seq, name, value, at, key, by))
    if found is not None:
        waiting, converted = found
        record(memory, ev.SignalTaken(seq + 1, *waiting.key, converted, seq, at))
    return True


def check_signal(memory: Memory, name: str, value: Any) -> None:
    """
    Check that *value* fits at least one of the waits for the signal *name* that the run has, or will have.

    Raises:
        InvalidSignal: it fits none; the error says why, and where.
    """
    refused: InvalidSignal | None = None
    for wait in chain(memory.plan.signals.get(name, ()), _waits_in_flight(memory, name)):
        try:
            wait.converted(value)
        except InvalidSignal as error:
            refused = refused or error
        else:
            return
    if refused is not None:
        raise refused


def fire_timer(run: Phases, key: Key, now: float) -> bool:
    """
    End what waits at *key*, if it is due at *now*.

    A sleep is over; a wait for a signal fails with ``SignalTimeout``; either fails with ``DeadlineExceeded`` if the
    deadline of its input came first.  The policy of the component says what becomes of a failure.

    Returns:
        Whether something has ended: False if it does not wait any more, or is not due yet.
    """
    waiting = (run.memory.waiting or {}).get(key)
    if waiting is None or (due := waiting.next_at) is None or now < due:
        return False
    if waiting.attempt:
        _time_out(run, waiting, now, is_due=due == waiting.due)
        return True
    activation, wait = waiting.activation, waiting.activation.node.wait
    assert wait is not None  # noqa: S101
    if due != waiting.due:
        _fail(run, activation, DeadlineExceeded(key[0]), now)
    elif wait.signal is not None:
        _fail(run, activation, SignalTimeout(key[0], wait.signal, wait.seconds or 0.0), now)
    else:
        seq = len(run.memory.log) + 1
        record(run.memory, ev.TimerFired(seq, *key, activation.facts[0].value, now))
    return True


def _time_out(run: Phases, waiting: Waiting, now: float, *, is_due: bool) -> None:
    """Fail the attempt of an external step that was not completed in time; its policy decides what follows."""
    key = waiting.activation.key
    policy = None if run.policies is None else run.policies.of(waiting.activation)[0]
    seconds = 0.0 if policy is None or policy.timeout is None else policy.timeout
    error = StepTimeout(key[0], seconds) if is_due else DeadlineExceeded(key[0])
    record(run.memory, ev.FailureReceived(len(run.memory.log) + 1, *key, describe(error), waiting.attempt, now))


def timers(memory: Memory) -> list[tuple[Key, float, bool]]:
    """Return what waits for time: its key, when it is due, and whether that is a length of time, in order of time."""
    found = [(key, at, _is_relative(each, at)) for key, each in _waiting(memory) if (at := each.next_at) is not None]
    return sorted(found, key=lambda timer: timer[1])


def next_due(memory: Memory) -> float | None:
    """Return when the next timer is due; None if nothing waits for time."""
    return min((at for _, each in _waiting(memory) if (at := each.next_at) is not None), default=None)


def _waiting(memory: Memory) -> Iterable[tuple[Key, Waiting]]:
    return () if memory.waiting is None else memory.waiting.items()


def _next_at(memory: Memory, key: Key) -> float | None:
    waiting = (memory.waiting or {}).get(key)
    return None if waiting is None else waiting.next_at


def _is_relative(waiting: Waiting, at: float) -> bool:
    """Whether *at* is the end of a length of time, rather than a time of day, as a deadline is."""
    return waiting.is_relative if waiting.due == at else False


def _waits_in_flight(memory: Memory, name: str) -> Iterator[Waits]:
    """Yield what is said of the waits for the signal *name* that have begun, also before the workflow changed."""
    for _, waiting in _waiting(memory):
        wait = waiting.activation.node.wait
        if wait is not None and wait.signal == name:
            yield wait


def _start_timer(memory: Memory, activation: Activation, now: float) -> None:
    name, wait = activation.key[0], activation.node.wait
    assert wait is not None  # noqa: S101
    due = wait.due(name, activation.facts[0].value, now)
    if due is not None:
        record(memory, ev.TimerStarted(len(memory.log) + 1, *activation.key, due[0], now, due[1]))


def _take_early_signal(memory: Memory, activation: Activation, now: float) -> bool:
    """Let *activation* take the oldest signal that is for it; return whether there was one."""
    wait = activation.node.wait
    assert wait is not None  # noqa: S101
    if wait.signal is None or memory.signals is None:
        return False
    for signal in memory.signals.get(wait.signal, ()):
        value = _converted(wait, signal.value)
        if value is not _UNFIT and wait.is_for(value, activation.facts[0].value):
            record(memory, ev.SignalTaken(len(memory.log) + 1, *activation.key, value, signal.seq, now))
            return True
    return False


def _oldest_wait(memory: Memory, name: str, value: Any) -> tuple[Activation, Any] | None:
    """
    Return the wait that a signal is for, and the value that it takes; None if there is none.

    One that has not begun takes no signal yet: those that came before are its first.
    """
    not_begun = {activation.key for activation in memory.newly_waiting or ()}
    fitting: dict[int, Any] = {}  # what the value is for waits of one node, converted once
    for key, waiting in _waiting(memory):
        activation = waiting.activation
        wait = activation.node.wait
        if wait is None or wait.signal != name or key in not_begun:
            continue
        if id(wait) not in fitting:
            fitting[id(wait)] = _converted(wait, value)
        converted = fitting[id(wait)]
        if converted is not _UNFIT and _is_for(wait, name, key, converted, activation):
            return activation, converted
    return None


def _converted(wait: Waits, value: Any) -> Any:
    """Return *value* as *wait* takes it; a mark if it does not: then it fits another wait."""
    try:
        return wait.converted(value)
    except InvalidSignal:
        return _UNFIT


def _is_for(wait: Waits, signal: str, key: Key, value: Any, activation: Activation) -> bool:
    try:
        return wait.is_for(value, activation.facts[0].value)
    except Exception as error:
        reason = f"match of {key[0]!r} raised {type(error).__name__}: {text_of(error)}"
        raise InvalidSignal(signal, reason, "send what it expects, or let it return False") from error


def _fail(run: Phases, activation: Activation, error: BaseException, now: float) -> None:
    """Record that what waits has failed, as the policy of its component says."""
    policies, timing = run.policies, ev.Timing(now)
    policy = None if policies is None else policies.of(activation)[0]
    on_failure = None if policy is None else policy.on_failure
    if on_failure == "skip":
        seq = len(run.memory.log) + 1
        record(run.memory, ev.RunnableSkipped(seq, *activation.key, text_of(error), timing=timing))
    else:
        run.record_failure(activation, error, 1, 0, "dead_letter" if on_failure == "dead_letter" else "halt", timing)

"""
The waterfall of a run: for every component when it waited, for what, and when it ran.

It is computed from the log alone.  An event without a time happened within 10 ms of the last one with a time
(ADR 26), so short bars are no more exact than that; the seconds that a component ran are.

    >>> from weft import Runner, Workflow, step
    >>> with Runner() as runner:
    ...     handle = runner.start(Workflow("double", step(lambda x: 2 * x, name="double")), 21)
    ...     _ = handle.result()
    ...     picture = waterfall(runner.get(handle.id))
    >>> [(row.component, row.state, row.bars[-1].reason) for row in picture.rows]
    [('double', 'done', 'running')]
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from weft.core import events as ev
from weft.core.diagrams.run_status import progress_of
from weft.core.draw.progress import State
from weft.core.fold.scope import Key
from weft.core.lineage.lineage import Cell
from weft.views.order import in_order
from weft.views.times import time_of

if TYPE_CHECKING:
    from weft.core.run.run import Run

Reason = Literal["queued", "delayed", "limited", "backing_off", "sleeping", "waiting", "stopped", "running"]
"""Why a component took time."""

REASONS: Final[dict[Reason, str]] = {
    "running": "running",
    "queued": "queued",
    "limited": "waiting for a limit",
    "backing_off": "backing off",
    "delayed": "delayed",
    "sleeping": "sleeping",
    "waiting": "waiting for the outside, a signal or a completion",
    "stopped": "stopped before a retry, fork or takeover",
}
"""The reasons in words, in the order in which a legend lists them."""

BARS: Final = 64
"""How many bars a row has at most; more activations than that are drawn as one."""

_SHORTEST: Final = ev.PRECISION
"""A shorter stay in a queue is not drawn: the log does not know times better than that."""


class Bar(msgspec.Struct, frozen=True):
    """A stretch of time that a component spent for one reason; times are seconds since the epoch."""

    reason: Reason
    start: float
    end: float
    state: State = "done"
    """How it ended, of a bar that is ``running``: ``failed`` for an attempt that failed."""
    is_last: bool = True
    """Whether no attempt followed it."""
    attempt: int = 1
    many: int = 1
    """How many activations it stands for."""


class Row(msgspec.Struct, frozen=True):
    """One component: its bars, in order of time, and where its time went."""

    component: str
    state: State
    bars: tuple[Bar, ...] = ()
    seconds: dict[Reason, float] = {}
    """By reason, summed over all activations: of a map that ran on ten threads, more than the time that passed."""
    activations: int = 0
    needs: tuple[str, ...] = ()
    """Of a component that has not begun: the components before it that have not ended well."""
    barred: tuple[str, ...] = ()
    """Of one that was not reached: the components before it that let nothing through."""
    is_part: bool = False
    """Whether it is a part of the component in a row before."""

    @property
    def passed(self) -> float:
        """How much time passed: of many activations, from the beginning of the first to the end of the last."""
        if self.activations <= 1 or self.start is None or self.end is None:
            return sum(self.seconds.values())
        return self.end - self.start

    @property
    def start(self) -> float | None:
        """When it first became ready."""
        return min((bar.start for bar in self.bars), default=None)

    @property
    def end(self) -> float | None:
        """When it ended last."""
        return max((bar.end for bar in self.bars), default=None)


class Waterfall(msgspec.Struct, frozen=True):
    """The rows of a run, in the order of its graph."""

    start: float
    end: float
    """The time of the last event, or the present of a run that goes on."""
    rows: tuple[Row, ...]
    seconds: dict[Reason, float]
    """By reason, summed over all rows, for the reasons that occur."""

    @property
    def passed(self) -> dict[Reason, float]:
        """
        How much time passed for each reason that occurs.

        Time that several components, or elements of a map, spent at once counts once: no reason exceeds the run.
        """
        found: dict[Reason, float] = {}
        for reason in REASONS:
            bars = sorted((bar.start, bar.end) for row in self.rows for bar in row.bars if bar.reason == reason)
            twice = sum(end - start for start, end in bars) - _covered(bars)
            exact = sum(_exact(row, reason) for row in self.rows)
            if exact - twice > 0:
                found[reason] = exact - twice
        return found


def _exact(row: Row, reason: Reason) -> float:
    """Return how much time *row* took for *reason*; for a single activation the log is more exact than its bars."""
    if row.activations <= 1:
        return row.seconds.get(reason, 0.0)
    return sum(bar.end - bar.start for bar in row.bars if bar.reason == reason)


def _covered(bars: list[tuple[float, float]]) -> float:
    """Return how much time *bars*, which are ordered, cover together."""
    covered, until = 0.0, float("-inf")
    for start, end in bars:
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    return covered


def waterfall(run: Run, *, now: float | None = None) -> Waterfall:
    """
    Return the waterfall of *run*.

    Args:
        now: the present, in seconds since the epoch, up to which the bars of what is in flight reach; the time of the
            last event if not given.
    """
    memory = run.memory
    reading = _Reading(memory.lineage.gathered or {})
    if memory.lineage.removed:  # of events that a snapshot has kept the times are not known: they come first
        times = (at for event in memory.log if (at := time_of(event)) is not None)
        reading.first = reading.last = next(times, now or 0.0)
    for event in memory.log:
        reading.read(event)
    present = (
        reading.last if now is None or run.status in ("completed", "failed", "cancelled") else max(now, reading.last)
    )
    for key in memory.open_all():
        reading.pend(key, present, "running" if key in (memory.dispatched or ()) else "queued")
    for key in memory.blocked or ():
        reading.pend(key, present, "queued")
    for key, waiting in (memory.waiting or {}).items():
        wait = waiting.activation.node.wait
        sleeps = not waiting.attempt and (wait is None or wait.signal is None)
        reading.pend(key, present, "sleeping" if sleeps else "waiting")
    rows = tuple(_rows(run, reading))
    totals: dict[Reason, float] = {}
    for reason in REASONS:
        seconds = sum(row.seconds.get(reason, 0.0) for row in rows)
        if seconds:
            totals[reason] = seconds
    return Waterfall(reading.first, max(present, reading.first), rows, totals)


def _rows(run: Run, reading: _Reading) -> Iterable[Row]:
    """
    Yield a row for each component, and behind it one for each of its parts that took time or has not ended well.

    If one has failed, all are there that ran: what was undone, too.
    """
    memory = run.memory
    states = progress_of(memory)
    wiring, components = memory.workflow.wiring, memory.workflow.components
    parts: dict[str, list[str]] = {}
    for name in states:
        if name not in components and name in memory.plan.nodes:
            parts.setdefault(memory.plan.nodes[name].owner, []).append(name)
    for name in in_order(memory.workflow):
        found, state = reading.found.get(name), states[name].state
        if found is None:
            parents = {parent: None for inlet in wiring.fed_by(name) for parent in inlet.parents}
            known = {each: states[each].state for each in parents if each in states}
            needs = tuple(each for each, how in known.items() if how not in ("done", "gated"))
            barred = tuple(each for each, how in known.items() if how == "gated")
            is_waiting, is_unreached = state in ("unreached", "waiting"), state == "unreached"
            yield Row(name, state, needs=needs if is_waiting else (), barred=barred if is_unreached else ())
        else:
            yield Row(name, state, tuple(found.bars()), found.seconds, found.activations)
        is_whole = any(states[part].state == "failed" for part in parts.get(name, ()))
        for part in sorted(parts.get(name, ()), key=lambda part: reading.order.get(part, 0)):
            found, state = reading.found.get(part), states[part].state
            is_long = found is not None and sum(found.seconds.values()) >= _SHORTEST
            if found is not None and (is_whole or is_long or state not in ("done", "gated")):
                yield Row(part, state, tuple(found.bars()), found.seconds, found.activations, is_part=True)


class _Found:
    """The bars of one component while the log is read: one by one, until they are too many."""

    __slots__ = ("_bars", "activations", "seconds")

    def __init__(self) -> None:
        self._bars: list[Bar] = []
        self.activations = 0
        self.seconds: dict[Reason, float] = {}

    def add(self, bars: Iterable[Bar]) -> None:
        """Add what one activation spent its time on."""
        self.activations += 1
        self._bars.extend(bars)
        if len(self._bars) > 4 * BARS:  # a few hundred are kept, so that it costs little for each
            self._bars = self.bars()

    def spend(self, reason: Reason, seconds: float) -> None:
        """Add *seconds* to what was spent for *reason*."""
        if seconds > 0:
            self.seconds[reason] = self.seconds.get(reason, 0.0) + seconds

    def bars(self) -> list[Bar]:
        """Return the bars in order of time; where they overlap, or are too many, those of a reason are one."""
        bars = sorted(self._bars, key=lambda bar: (bar.start, bar.end))
        overlaps = any(left.end > right.start for left, right in itertools.pairwise(bars))
        if len(bars) <= BARS and not overlaps:
            return bars
        return _merged(bars)


def _merged(bars: list[Bar]) -> list[Bar]:
    """Return *bars*, of which those of one reason that overlap are one; if they are still many, one for each reason."""
    merged: dict[Reason, list[Bar]] = {}
    for bar in bars:
        line = merged.setdefault(bar.reason, [])
        if line and (bar.start <= line[-1].end or len(line) >= BARS):
            line[-1] = _joined(line[-1], bar)
        else:
            line.append(bar)
    if "running" in merged:  # what waits while others of its kind run is not drawn over them
        first = merged["running"][0].start
        for reason, line in merged.items():
            if reason != "running":
                merged[reason] = [
                    msgspec.structs.replace(bar, end=min(bar.end, first)) for bar in line if bar.start < first
                ]
    found = sorted((bar for line in merged.values() for bar in line), key=lambda bar: (bar.start, bar.end))
    return found if len(found) <= BARS else _merged_whole(found)


def _merged_whole(bars: list[Bar]) -> list[Bar]:
    """Return one bar for each reason, from the first of *bars* to the last."""
    whole: dict[Reason, Bar] = {}
    for bar in bars:
        whole[bar.reason] = bar if bar.reason not in whole else _joined(whole[bar.reason], bar)
    return sorted(whole.values(), key=lambda bar: (bar.start, bar.end))


def _joined(left: Bar, right: Bar) -> Bar:
    state = "failed" if "failed" in (left.state, right.state) else right.state
    return Bar(
        left.reason,
        min(left.start, right.start),
        max(left.end, right.end),
        state,
        is_last=left.is_last or right.is_last,
        attempt=max(left.attempt, right.attempt),
        many=left.many + right.many,
    )


class Stop(NamedTuple):
    """A stretch of time in which nothing of a run could go on; without an end, nothing has gone on since."""

    begin: float
    end: float | None = None


_REVISIONS: Final = (ev.RunRetried, ev.RunForked, ev.RunUpgraded, ev.RunnableRetried)
"""Events that let a run do again what it has done; the log does not say when they happened."""


class _Reading:
    """Reads the log once, and remembers when each fact was there."""

    def __init__(self, gathered: Mapping[int, tuple[Cell, ...]]) -> None:
        self._gathered = gathered
        """By position of a reduce: the facts that it was computed from."""
        self.first = self.last = 0.0
        self.found: dict[str, _Found] = {}
        self.order: dict[str, int] = {}
        """By component: the event with which it ended first."""
        self._ended: dict[int, float] = {}
        """By position: when the event happened."""
        self._attempts: dict[Key, list[ev.AttemptFailed]] = {}
        self._began: dict[Key, float] = {}
        """When a wait began, a delayed component became ready, or an external step was open or had failed outside."""
        self._outside: dict[Key, list[Bar]] = {}
        """By external step that has not ended: the bars of its attempts, whose functions have returned."""
        self._done: dict[Key, float] = {}
        """When an activation ended last: one that runs again after that was retried, or stands behind one that was."""
        self._revised = 0.0
        """The time of the last event before the last retry, fork or upgrade, whose own time the log does not know."""
        self._stops: list[Stop] = []

    def read(self, event: Any) -> None:
        """Take one event in."""
        at, before = time_of(event), self.last
        if at is not None:
            self.last = max(self.last, at)
            self.first = self.first or at
        self._ended[event.seq] = self.last
        if isinstance(event, _REVISIONS):
            self._revised = before
            if not self._stops or self._stops[-1].end is not None:
                self._stops.append(Stop(before))
        elif isinstance(event, ev.RunTakenOver) and at is not None:
            self._goes_on(at)
            self._stops.append(Stop(before or at, at))
        if not isinstance(event, ev.Activated):
            return
        if at is not None or isinstance(event, ev.ENDINGS):  # else it says nothing about time
            self._goes_on(_began(event, self.last))
        key = (event.component, event.inputs)
        self.order.setdefault(event.component, event.seq)
        match event:
            case ev.AttemptFailed():
                self._attempts.setdefault(key, []).append(event)
            case ev.TimerStarted() | ev.RunnableDelayed():
                self._began[key] = event.at
            case ev.SignalTaken():
                self._wait(key, "waiting", self.last, "done")
            case ev.TimerFired():
                self._wait(key, "sleeping", self.last, "done")
            case ev.CompletionAwaited():
                self._open(key, event)
            case ev.CompletionReceived() if key in self._outside:
                self._wait(key, "waiting", self.last, "done")
            case ev.FailureReceived() | ev.RunnableCancelled() if key in self._outside:
                self._outside[key].append(Bar("waiting", self._began[key], self.last, "failed"))
                self._began[key] = self.last
            case _ if isinstance(event, ev.ENDINGS):
                self._end(key, event)
            case _:
                pass

    def pend(self, key: Key, now: float, reason: Reason) -> None:
        """Take in what is in flight, or waits, at the end of the log."""
        if reason in ("sleeping", "waiting"):
            self._wait(key, reason, now, "waiting")
            return
        tried = self._attempts.pop(key, [])
        bars, since = self._tried(key, tried)
        for why, left, right in self._held(key, since, max(now, since), tried):
            if left - since >= _SHORTEST:
                bars.append(Bar("queued", since, left))
            bars.append(Bar(why, left, right))
            since = right
        if now > since or not bars or reason == "running":
            bars.append(Bar(reason, since, max(now, since), "running" if reason == "running" else "ready"))
        self._add(key, bars)

    def _goes_on(self, at: float) -> None:
        """Note that something ran again *at* this time, which ends a stop of the run, if it was stopped."""
        if self._stops and self._stops[-1].end is None:
            self._stops[-1] = Stop(self._stops[-1].begin, max(at, self._stops[-1].begin))

    def _held(
        self, key: Key, since: float, until: float, tried: list[ev.AttemptFailed]
    ) -> Iterable[tuple[Reason, float, float]]:
        """Yield for which reasons an activation could not go on between these times, in order and without overlaps."""
        if tried and tried[-1].retry_at > since:
            end = min(tried[-1].retry_at, until)
            yield "backing_off", since, end
            since = end
        done = self._done.get(key)
        own = [] if done is None or self._revised <= done else [Stop(done, self._revised)]
        for stop in (*own, *self._stops):
            left, right = max(stop.begin, since), until if stop.end is None else min(stop.end, until)
            if right > left:
                yield "stopped", left, right
                since = right

    def _before(
        self,
        key: Key,
        since: float,
        start: float,
        tried: list[ev.AttemptFailed],
        timing: ev.Timing | None = None,
    ) -> list[Bar]:
        """Return what an activation spent the time between *since* and the *start* of an attempt on."""
        bars: list[Bar] = []
        for why, left, right in self._held(key, since, start, tried):
            if left - since >= _SHORTEST:
                bars.append(Bar("queued", since, left))
            bars.append(Bar(why, left, right))
            since = right
        if timing is not None:
            waits: list[tuple[Reason, float]] = [("delayed", timing.delayed), ("limited", timing.limited)]
            if not tried:
                waits.insert(1, ("backing_off", timing.backing_off))
            for why, length in waits:
                taken = min(length, start - since)
                if taken > 0:
                    bars.append(Bar(why, since, since + taken))
                    since += taken
        if start - since >= _SHORTEST:
            bars.append(Bar("queued", since, start))
        return bars

    def _open(self, key: Key, event: ev.CompletionAwaited) -> None:
        """The function of an external step has returned, and the step waits to be completed."""
        tried = self._attempts.pop(key, [])
        bars, since = self._tried(key, tried)
        start = max(since, self.last - event.duration_ns / 1e9)
        bars += self._before(key, since, start, tried)
        bars.append(Bar("running", start, self.last, attempt=event.attempt))
        self._outside.setdefault(key, []).extend(bars)
        self._began[key] = self.last

    def _ready(self, key: Key, seq: int = 0) -> float:
        """Return when the activation that ended with the event *seq*, if it has, had all its facts, or ended before."""
        done = self._done.get(key, 0.0)
        began = self._began.pop(key, None)
        if began is not None:
            return max(began, done)
        facts = self._gathered.get(seq)
        addresses = key[1] if facts is None else tuple(fact.address for fact in facts)
        places = (address if isinstance(address, int) else address[0] for address in addresses)
        return max(done, self.first, *(self._ended.get(place, self.first) for place in places))

    def _wait(self, key: Key, reason: Reason, end: float, state: State) -> None:
        self._add(key, [Bar(reason, self._ready(key), end, state)])

    def _tried(self, key: Key, tried: list[ev.AttemptFailed], seq: int = 0) -> tuple[list[Bar], float]:
        """Return the bars of attempts that failed, and when the last of them ended."""
        since = self._ready(key, seq)
        bars: list[Bar] = []
        for index, failed in enumerate(tried):
            end = max(failed.at or since, since)
            start = max(since, end - failed.duration_ns / 1e9)
            bars += self._before(key, since, start, tried[:index])
            bars.append(Bar("running", start, end, "failed", is_last=False, attempt=failed.attempt))
            since = end
        return bars, since

    def _end(self, key: Key, event: Any) -> None:
        """Split the time between the last of its facts and the end of an activation by reason."""
        tried = self._attempts.pop(key, [])
        bars, since = self._tried(key, tried, event.seq)
        end = max(self.last, since)
        seconds = getattr(event, "duration_ns", 0) / 1e9
        start = max(since, end - seconds)
        timing: ev.Timing | None = getattr(event, "timing", None)
        bars += self._before(key, since, start, tried, timing)
        attempts = event.attempts if isinstance(event, ev.RunnableFailed | ev.RunnableSkipped) else event.attempt
        bars.append(Bar("running", start, max(end, start), _state(event), attempt=attempts))
        self._add(key, bars, seconds)

    def _add(self, key: Key, bars: list[Bar], running: float | None = None) -> None:
        """Add the *bars* of one activation, whose last attempt ran for *running* seconds, as the log knows exactly."""
        found = self.found.setdefault(key[0], _Found())
        bars = [*self._outside.pop(key, ()), *bars]
        self._done[key] = bars[-1].end
        found.add(bars)
        for bar in bars if running is None else bars[:-1]:
            found.spend(bar.reason, bar.end - bar.start)
        if running is not None:
            found.spend("running", running)


def _state(event: Any) -> State:
    match event:
        case ev.RunnableFailed():
            return "failed"
        case ev.RunnableSkipped():
            return "skipped"
        case ev.ConditionEvaluated(holds=False):
            return "gated"
        case _:
            return "done"


def _began(event: Any, end: float) -> float:
    """Return when the attempt that *event* is about began to wait or to run, if it ended at *end*."""
    timing: ev.Timing | None = getattr(event, "timing", None)
    waited = 0.0 if timing is None else timing.delayed + timing.backing_off + timing.limited
    return end - waited - float(getattr(event, "duration_ns", 0)) / 1e9

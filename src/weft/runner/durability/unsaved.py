"""
The events of one run that are not stored yet, and the number of those that are.

The events since the last append become one segment of bytes, chained to the segments before it.  Its events are kept
until the store has confirmed them.  Now and then an append carries a snapshot of the run as it is after its events.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Final

from msgspec.structs import replace

from weft.core.events import ContinuedAsNew, FannedOut, RunUpgraded, WorkflowDefined
from weft.core.fold.scope import Key
from weft.core.run.deadlines import Deadline, OpenDeadlines
from weft.core.run.run import Run
from weft.core.run.waits import next_due
from weft.errors import HistoryNotLoaded, HistoryTruncated
from weft.log import Encoded, Encoder, Segment, chain
from weft.log.codec import lone_reaction
from weft.log.outcome import RunOutcome, encode_outcome, known_outcome_of, outcome_of
from weft.log.snapshot import SnapshotWriter, Written
from weft.ports.store import FINISHED, FIRST_EPOCH, NEVER, NO_DEADLINE, Append, RunStatus
from weft.runner.slices import pause

MOST: Final = 2048
"""How many events are written at once; the others follow in the next segment."""

MOST_OPEN: Final = 20_000
"""With more open activations than this, a run writes no snapshot: writing them would hold up the event loop."""

_NEVER: Final = sys.maxsize
_log = logging.getLogger("weft.runner")
_EMPTY = Segment(b"", 0)
_NONE = (0, 0)
"""Neither failures nor dead letters."""
CONTINUED: Final = "continued as "
"""The beginning of the reason of a run that another one continues."""

_SHARED_ENCODER = Encoder()
"""The encoder of all runs that have stored no large value: an encoder remembers nothing else."""


class UnsavedLog:
    """The end of a log that is still to be written."""

    __slots__ = (
        "_counts",
        "_deadlines",
        "_due",
        "_due_by",
        "_due_count",
        "_encoded",
        "_encoder",
        "_every",
        "_is_usual",
        "_link",
        "_lone",
        "_reason",
        "_repeats_values",
        "_run",
        "_segment",
        "_snapshot_due",
        "_snapshots",
        "_taken",
        "_tasks",
        "_wake_at",
        "acknowledged",
        "created_at",
        "due_changed",
        "epoch",
        "is_behind",
        "is_dropped",
        "outcome",
        "status",
        "unique",
        "version",
    )

    def __init__(
        self,
        run: Run,
        *,
        epoch: int = FIRST_EPOCH,
        stored: int = 0,
        link: bytes = b"",
        status: RunStatus | None = None,
        wake_at: float | None = None,
        created_at: float | None = None,
    ) -> None:
        """
        Continue after the stored events of *run*.

        Args:
            epoch: the epoch in which this runner owns the run.
            stored: how many events the store has; none of a run that is new.
            link: the head of the hash chain there.
            status: what the store says of the run; None if it does not know it.
            wake_at: when the store says that it has to be woken.
            created_at: when the store says that it was created.
        """
        self._run, self._link = run, link
        self._lone: Append | None = None
        """The last append that was one short reaction."""
        self.epoch = epoch
        """The epoch in which this runner owns the run."""
        self.created_at = created_at
        """When the run was created; None until its first append."""
        self.status: RunStatus | None = status
        """The status of the run in the store."""
        self._reason: str | None = "" if status is None else None
        """The reason that the store has; None if this was not written from here."""
        self._counts: tuple[int, int] | None = None
        """How many failures and dead letters the store knows of; None if this was not written from here."""
        self.acknowledged = stored
        """How many events are durable."""
        self.outcome: RunOutcome | None = None
        """The outcome of the run, if it has finished."""
        self.unique = ""
        """The unique key of a new run, if it is to have one."""
        self.version: str | None = None
        """The version of the workflow, if the store does not know it and it is not that of a new run."""
        self._encoder = _SHARED_ENCODER
        self._repeats_values = False
        """Whether values are being removed from the store, so that none of them counts as stored."""
        self._segment: Segment | None = None
        """The segment that is being stored, if large values stand beside its events."""
        self.is_dropped = False
        """Whether nothing more of it is to be written."""
        self._is_usual = status == "running"
        """Whether the store says that the run is running, and the next append may have only events."""
        self.is_behind = False
        """Whether the last append was too long for one segment, so that another one has to follow."""
        self._wake_at = wake_at
        """When the store says that the run has to be woken."""
        self._taken: list[int] | None = None
        """The messages that are to be taken from the inbox."""
        self._tasks: list[tuple[int, int]] | None = None
        """The receipts of outcomes that are in the log, and are kept elsewhere until they are stored."""
        self._due: list[tuple[float, int, Key]] | None = None
        """A heap of the timers of the run; those that do not count any more are dropped when they are first."""
        self._deadlines: OpenDeadlines | None = None
        """The deadlines of the run; None until it has one."""
        self._due_by: tuple[float, float] | None = None
        """The deadline that the store has; None if it was not written from here."""
        self.due_changed: Callable[[tuple[float, float]], object] | None = None
        """Called when the store knows another deadline of the run."""
        self._due_count = 0
        """How many timers there were: those that are due at the same time are not compared further."""
        self._encoded: dict[int, Encoded] | None = None
        """By position of an event that is not stored: the value that it holds, as bytes."""
        self._every = 0
        self._snapshot_due = _NEVER
        """How many events the run has when the next snapshot is due."""
        self._snapshots: SnapshotWriter | None = None

    def snapshot_every(self, events: int) -> None:
        """
        Write a snapshot with the append that reaches this many *events*, or a multiple of it.

        The number of the last event decides, and not how many were written from here: a run that sleeps or is resumed
        after every few events has its snapshots too.
        """
        self._every = events
        self._snapshot_due = self._next_multiple(self.acknowledged)

    def _next_multiple(self, events: int) -> int:
        return (events // self._every + 1) * self._every

    @property
    def snapshots(self) -> SnapshotWriter:
        """The writer of the snapshots of the run: the same one, whether it writes them or only says what is needed."""
        if self._snapshots is None:
            self._snapshots = SnapshotWriter()
        return self._snapshots

    @property
    def link(self) -> bytes:
        """The head of the hash chain, up to the last durable event."""
        return self._link

    def keep(self, encoded: Encoded) -> None:
        """The last event of the run holds a value that is *encoded* already."""
        event = self._run.memory.log[-1]
        if isinstance(event, FannedOut) and type(event.value) is type(encoded.value):  # of a list it has a copy
            encoded = replace(encoded, value=event.value)
        if getattr(event, "value", None) is encoded.value:
            if self._encoded is None:
                self._encoded = {}
            self._encoded[event.seq] = encoded

    def repeat_values(self, *, repeats: bool) -> None:
        """Choose whether large values are written again: the store is about to remove some, or has removed some."""
        self._repeats_values = repeats
        if repeats:
            self._encoder = _SHARED_ENCODER

    def take(self, number: int) -> None:
        """The message with this *number* has become a part of the run: the next append takes it from the inbox."""
        if self._taken is None:
            self._taken = []
        self._taken.append(number)
        self._is_usual = False

    def end_task(self, receipt: tuple[int, int]) -> None:
        """The outcome with this *receipt* is in the log: its place is free with the next append."""
        if self._tasks is None:
            self._tasks = []
        self._tasks.append(receipt)
        self._is_usual = False

    def add_timer(self, key: Key, at: float) -> None:
        """Note that the wait at *key* is due *at* this time, at the latest."""
        if self._due is None:
            self._due = []
        self._due_count += 1
        heappush(self._due, (at, self._due_count, key))

    @property
    def next_due(self) -> float | None:
        """When the run, which waits, has to be woken; found without looking at all its waits, which may be many."""
        memory, due = self._run.memory, self._due
        if memory.newly_waiting:  # their timers have not started
            return next_due(memory)
        waiting = memory.waiting or {}
        while due:
            at, _, key = due[0]
            known = waiting.get(key)
            if known is not None and known.next_at == at:
                return at
            heappop(due)
        return None

    def earliest_deadline(self, now: float) -> Deadline | None:
        """Return the earliest deadline of what is open; the run has had one."""
        if self._deadlines is None:
            self._deadlines = OpenDeadlines()
        return self._deadlines.earliest(self._run.memory, now)

    def _due_by_now(self, at: float, *, is_over: bool) -> tuple[float, float] | None:
        """Return the deadlines of the run that the store does not know yet; None if it knows them."""
        first = None if is_over else self.earliest_deadline(at)
        due = NO_DEADLINE if first is None else first.due
        known = NO_DEADLINE if self._due_by is None and self.status is None else self._due_by
        return None if due == known else due

    @property
    def is_empty(self) -> bool:
        """Whether the store has everything."""
        return self.acknowledged == len(self._run.memory.log) and not self._taken

    def lone(self, at: float) -> Append | None:
        """
        Return the next append of a run that is running, and is known to be, if that is one short reaction; else None.

        It is what :meth:`append` returns, for nearly all appends.
        """
        memory, known, link = self._run.memory, self.acknowledged, self._link
        log = memory.log
        if not self._is_usual or len(log) != known + 1 or known + 1 >= self._snapshot_due:
            return None
        body = lone_reaction(log[known])
        if body is None:
            return None
        self.is_behind = False
        lone = self._lone = Append(
            memory.run_id, known, 1, body, chain(link, body), at, self.epoch, link, only_events=True
        )
        return lone

    def append(self, status: RunStatus, reason: str, at: float, most: int = MOST) -> Append | None:
        """Return the next append: the events since the last one, *most* of them, and the status if it has changed."""
        memory, known = self._run.memory, self.acknowledged
        events = memory.log[known : known + most]
        self.is_behind = len(events) == most and known + most < len(memory.log)
        if self.is_behind:
            status = "running"  # whatever it is in the end, there is more to come
        wake_at = self.next_due if status == "waiting" else None
        is_woken_as_before = wake_at == self._wake_at
        if self.is_dropped or (not events and status == self.status and is_woken_as_before and not self._taken):
            return None
        segment = self._encoder.segment(events, self._encoded) if events else _EMPTY
        # The link moves on when the store has taken the events: those that it refuses are not part of the log.
        link = chain(self._link, segment.body) if events else self._link
        if segment.facts:
            self._segment = segment
        is_new, is_over = self.status is None, status in FINISHED
        if is_new:
            self.created_at = at
        self.outcome = self._outcome() if is_over else None
        counts = _NONE
        if memory.failures or memory.letters:
            counts = (len(memory.failures or ()), len(memory.letters or ()))
        rare: dict[str, Any] = {}
        definitions = segment.definitions
        written = None
        if len(memory.log) >= self._snapshot_due and not self.is_behind and not is_over:
            written = self._snapshot(link)
        if written is not None:
            rare["snapshot"], definitions = written.body, {**written.definitions, **definitions}
        if segment.facts or (written is not None and written.facts):
            rare["facts"] = {**({} if written is None else written.facts), **segment.facts}
        if is_new and self.unique:
            rare["unique"] = self.unique
        if reason:
            rare["reason"] = reason
        if counts != _NONE:
            rare["failures"], rare["dead_letters"] = counts
        if not is_woken_as_before:
            rare["wake_at"] = NEVER if wake_at is None else wake_at
        if memory.has_deadlines and (due := self._due_by_now(at, is_over=is_over)) is not None:
            rare["due"] = due
        if self._taken and not self.is_behind:
            rare["taken"] = tuple(self._taken)
        if self._tasks and not self.is_behind:
            rare["tasks"] = tuple(self._tasks)
        # The record goes with a snapshot: it says where the log was at least, so that a tail that was cut off is found.
        is_known = status == self.status and counts == self._counts and not is_over and written is None
        is_known = is_known and reason == self._reason
        append = Append(  # with more than fifteen of them CPython makes a dict first, which takes four times as long
            run=memory.run_id,
            expected=known,
            epoch=self.epoch,
            count=segment.count,
            body=segment.body,
            chain=link,
            previous=self._link,
            at=at,
            status=None if is_known else status,
            outcome=b"" if self.outcome is None else encode_outcome(self.outcome),
            create=is_new,
            workflow=memory.workflow.name if is_new else None,
            version=self.version or (memory.workflow.version if is_new else None),
            release=is_over,
            definitions=definitions,
        )
        return replace(append, **rare) if rare else append

    def _outcome(self) -> RunOutcome:
        """Return the outcome of the run; where it was in a part of the log that was removed, that is what it says."""
        memory = self._run.memory
        try:
            return outcome_of(self._run, memory.received)
        except HistoryTruncated as error:
            return known_outcome_of(self._run, memory.received, error)

    def last_append(self, event: ContinuedAsNew, at: float) -> Append:
        """Return the append of *event*, with which a run ends whose other events are stored; it is not recorded yet."""
        memory, segment = self._run.memory, self._encoder.segment([event])
        outcome = self._outcome()
        self.outcome = replace(outcome, successor=event.run)
        return Append(
            run=memory.run_id,
            expected=self.acknowledged,
            epoch=self.epoch,
            count=1,
            body=segment.body,
            chain=chain(self._link, segment.body),
            previous=self._link,
            at=at,
            status="completed",
            reason=f"{CONTINUED}{event.run!r}",
            failures=len(memory.failures or ()),
            outcome=encode_outcome(self.outcome),
            wake_at=None if self._wake_at is None else NEVER,
            due=NO_DEADLINE if memory.has_deadlines else None,
            release=True,
        )

    def _snapshot(self, link: bytes) -> Written | None:
        """Return a snapshot of the run as it is now, unless it has too much open; *link* is that of its last event."""
        memory = self._run.memory
        pending = len(memory.ready) + len(memory.blocked or ()) + len(memory.waiting or ())
        pending += sum(map(len, (memory.signals or {}).values()))
        # A snapshot costs as much as is open: the events that it spares must be as many.
        self._snapshot_due = max(self._next_multiple(len(memory.log)), len(memory.log) + pending)
        if pending > MOST_OPEN:
            return None
        try:
            return self.snapshots.write(memory, link)
        except HistoryNotLoaded:  # the run was restored without its values, and has not gone on since
            return None
        except Exception:  # noqa: BLE001 - the events are worth more than a cache of them
            _log.exception("run %r makes no more snapshots: one could not be written", memory.run_id)
            self._snapshot_due = _NEVER
            return None

    def stored(self, append: Append) -> None:
        """*append* is durable."""
        self.acknowledged, self._link = append.expected + append.count, append.chain
        if append is self._lone:  # the usual case: there was nothing else in it
            self._lone = None
            return
        if append.status is not None:
            self.status, self._counts = append.status, (append.failures, append.dead_letters)
            self._reason = append.reason
        if self._encoded:
            for seq in [seq for seq in self._encoded if seq <= self.acknowledged]:
                del self._encoded[seq]
        if self._segment is not None:
            if not self._repeats_values:
                if self._encoder is _SHARED_ENCODER:
                    self._encoder = Encoder()
                self._encoder.stored(self._segment)
            self._segment = None
        if append.wake_at is not None:
            self._wake_at = None if append.wake_at == NEVER else append.wake_at
        if append.due is not None:
            self._due_by = append.due
            if self.due_changed is not None:
                self.due_changed(append.due)
        if append.taken and self._taken is not None:
            self._taken = self._taken[len(append.taken) :] or None
        if append.tasks and self._tasks is not None:
            self._tasks = self._tasks[len(append.tasks) :] or None
        if append.version is not None and append.version == self.version:
            self.version = None
        self._is_usual = self.status == "running" and not (self._taken or self._tasks or self.is_dropped)

    def drop(self) -> None:
        """Write nothing more: what is not on its way to the store is forgotten."""
        self.is_dropped, self._is_usual = True, False


async def whole(
    run: Run, unsaved: UnsavedLog, at: float, status: RunStatus = "running", reason: str = ""
) -> list[Append]:
    """Return the appends that create *run*, a new one with a history; *unsaved* has nothing left to write then."""
    appends: list[Append] = []
    unsaved.version = version_of(run)
    while not unsaved.is_empty:
        append = unsaved.append(status, reason, at)
        assert append is not None  # noqa: S101 - there are events left
        unsaved.stored(append)
        appends.append(append)
        if not unsaved.is_empty:
            await pause()
    return appends


def version_of(run: Run) -> str:
    """Return the version of the workflow that *run* follows; what was added to the run alone does not count."""
    defined = [event for event in run.memory.log if isinstance(event, WorkflowDefined | RunUpgraded)]
    return defined[-1].workflow.version

"""
Drives one run.  A worker is a state machine: it has neither a thread nor a task, and acts only when it is called.

    apply what has ended ──► fold ──► hand events to the journal ──► start what may start
            ▲                                   │                           │
            └──────────── an executor ◄─────────┴── durable enough? ◄───────┘

States: **running** (something is in flight or can be started), **waiting** (only for time or a limit), **idle**
(nothing to do, accepts more input), **parked** (waits until a person resumes it), and the finished ones: **completed**,
**failed** and **cancelled** (ADR 24).

Invariants:

1. A runnable starts only when its dependencies are as durable as the strategy requires.
2. A runnable is never in flight twice, and at most ``max_concurrency`` runnables are in flight at once, not counting
   those that other workers run.
3. Callers that wait for the run get their answer only when all its events are as durable as the strategy requires.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Final, Protocol

from msgspec.structs import replace

from weft.core import events as ev
from weft.core.failure import text_of
from weft.core.fold.fold import record
from weft.core.fold.memory import PAGE
from weft.core.fold.scope import Activation, Key
from weft.core.plan.node import FunctionNode
from weft.core.run.run import Run
from weft.core.run.runnable import Outcome
from weft.core.run.texts import check_text_or_none
from weft.core.run.waits import fire_timer, timers
from weft.errors import (
    BrokenChain,
    ConcurrentAppend,
    HistoryNotLoaded,
    OwnershipLost,
    RunClosed,
    RunExists,
    RunNotFound,
    RunParked,
    UniqueKeyTaken,
)
from weft.log import Encoded
from weft.log.ext_types import HASHED
from weft.log.outcome import RunOutcome
from weft.log.snapshot import SnapshotWriter
from weft.policy.run_policies import RunPolicies
from weft.ports.store import FINISHED, Append, RunStatus
from weft.runner.durability.rehydration import Sleeping, is_partial
from weft.runner.durability.residency import Evicted, RunValues
from weft.runner.durability.unsaved import MOST, UnsavedLog
from weft.runner.execution.attempts import Attempts
from weft.runner.execution.chain_progress import advance_all
from weft.runner.execution.dispatcher import Dispatcher
from weft.runner.execution.inflight import InFlight, Wait
from weft.runner.execution.intake import queue_ready, start_waits
from weft.runner.execution.large_collections import open_for_others, open_more
from weft.runner.execution.large_values import encode_rest
from weft.runner.execution.reporting import Reporter
from weft.runner.execution.run_queue import MOST_SPREAD, UNNOTED, RunQueue
from weft.runner.execution.status import (
    children_with,
    has_news,
    is_to_call_back,
    orphans,
    reason_to_store,
    status_to_store,
    stuck,
    text_of_failures,
    text_of_undoing,
)
from weft.runner.execution.straight_lane import NO_LANES, end_straight, goes_straight, start_upcoming
from weft.runner.execution.taken_over import TakenOver
from weft.runner.execution.undoing import NOTHING_TO_UNDO, retry_stuck, to_undo
from weft.runner.execution.worker_life import LIFE, PRESENCE, Life, Presence
from weft.runner.options import RunOptions
from weft.telemetry import bus

AT_ONCE: Final = 16
"""How many runnables of one run may run in the event loop before other runs continue."""

_OTHERS = (BrokenChain, ConcurrentAppend, OwnershipLost, RunNotFound)
"""Why a store refuses a run that another owner has taken over, changed or deleted."""


class Owner(Protocol):
    """The registry that a worker is in, as the worker sees it."""

    def settled(self, worker: Worker) -> None:
        """*worker* has nothing left to do, and all of it is durable."""
        ...

    def over(self, worker: Worker) -> None:
        """The run of *worker* has finished, and all of it is stored; the run was released by that."""
        ...

    def waits(self, worker: Worker) -> None:
        """*worker* only waits, for time or a signal, and all of that is stored."""
        ...

    def wake(self, worker: Worker) -> None:
        """*worker* has something to do: load the values that it needs, and let it take its turn then."""
        ...

    def load_history(
        self, worker: Worker, then: Callable[[], object], finally_: Callable[[], object] | None = None
    ) -> None:
        """Load the history of the run of *worker*, and call *then*."""
        ...

    def replace(self, worker: Worker) -> None:
        """The run of *worker*, which was parked and drives nothing more, goes on: build the next worker of it."""
        ...

    def crashed(self, worker: Worker, error: BaseException) -> None:
        """*worker* has raised *error*."""
        ...

    def cancel_orphans(self, worker: Worker) -> None:
        """The run of *worker* was cancelled, and is undone itself: it is over when its children are."""
        ...


class Worker:
    """Drives one run, and writes its log."""

    __slots__ = (
        "_has_attempts",
        "_is_eager",
        "_policies",
        "at_once",
        "attempts",
        "dispatcher",
        "has_told_children",
        "heard",
        "id",
        "is_in_lane",
        "is_opening",
        "is_settled",
        "is_strict",
        "lanes",
        "left_after",
        "life",
        "lost",
        "monotonic",
        "needed",
        "observer",
        "options",
        "orphans",
        "owes_notice",
        "owner",
        "period",
        "presence",
        "queue",
        "reason",
        "report",
        "run",
        "sleeping",
        "state",
        "taken_over",
        "units",
        "unsaved",
        "untimed_until",
        "upcoming",
        "values",
    )

    def __init__(
        self,
        dispatcher: Dispatcher,
        run: Run,
        options: RunOptions,
        owner: Owner,
        unsaved: UnsavedLog | None = None,
    ) -> None:
        """
        Take over *run*.

        Args:
            owner: told when there is nothing left to do and everything is durable, and when this worker crashes.
            unsaved: the unsaved events of a run that is stored; the run is a new one if not given.
        """
        self.dispatcher, self.run, self.options, self.owner = dispatcher, run, options, owner
        self.id = run.id
        """The name of the run."""
        self.report = Reporter(run, options.hooks)
        self._policies: RunPolicies | None = None
        self.queue = RunQueue()
        """The runnables in flight."""
        self.upcoming: Activation | None = None
        """The only runnable of the run, while it waits for the log and nothing else: see :mod:`.straight_lane`."""
        self.is_in_lane = False
        """Whether that one is running; its calls about the run wait until it has ended."""
        self.needed = 0
        """How many events must be durable before that one starts."""
        is_plain = options.hooks is None and not options.check_arguments
        self.lanes = dispatcher.lanes.get(options.executor, NO_LANES) if is_plain else NO_LANES
        """By place of a function: its lane, if there is no hook, and neither checks nor a scheduler come between."""
        self._has_attempts = False
        self.attempts: Attempts
        """Takes its runnables from their slot to their outcome; made for the first that is in flight."""
        known = "running" if unsaved is None else run.memory.status
        self.state: RunStatus = known if known in FINISHED else "running"
        self.reason = "" if run.memory.cancelled is None else text_of_undoing(run) or run.memory.cancelled
        self.lost: Exception | None = None
        """Why nothing can be written any more; set by :meth:`lose`."""
        self.period = 0
        """How often it was given something to do."""
        self.observer: Callable[[Worker], None] | None = None
        """Told whenever something was stored or has ended, while a caller waits for that."""
        self.is_settled = False
        """Whether nothing is left to do, and all of it is as durable as it should be."""
        self.life: Life = "driving"
        """Whether it starts runnables; changed by its own methods alone, as *presence* is."""
        self.presence: Presence = "here"
        """Whether the runner still has the run."""
        self.left_after: int
        """Once it has left: how often runs had been deleted when it left, or when the store last had it."""
        self._is_eager = options.checkpoints.lag is not None
        """Whether everything is written as soon as possible."""
        self.is_strict = options.checkpoints.lag == 0
        """Whether nothing starts before all that it needs is durable."""
        self.unsaved = UnsavedLog(run) if unsaved is None else unsaved
        if options.snapshot_every is not None and dispatcher.has_snapshots:
            self.unsaved.snapshot_every(options.snapshot_every)
        self.values: RunValues | None = dispatcher.residency.admit(self, options.keep_values_for)
        """Its values that are in memory, if they are counted or kept for a time."""
        self.sleeping: Sleeping | None = None
        """Wakes the run, if it was restored without its values."""
        self.monotonic = dispatcher.monotonic
        self.untimed_until = 0.0
        """Events before this time (monotonic clock) need no timestamp."""
        self.at_once = 0
        """How many more runnables may run in the event loop in this turn, before other runs continue."""
        self.units = 0
        """How many runnables have completed since the last checkpoint."""
        self.owes_notice = options.on_complete is not None and has_news(run)
        """Whether on_complete is still to be called, now that the run is idle."""
        self.heard = 0
        """The number of the last message that it has taken from its inbox."""
        self.orphans: tuple[str, ...] = ()
        """Children that are to be cancelled with the run, which was; until then it counts as unfinished."""
        if run.memory.cancelled is not None and self.unsaved.status != "cancelled":
            self.orphans = orphans(run)
        self.has_told_children = False
        """Whether all of these know that they are cancelled."""
        self.is_opening = False
        """Whether another turn is scheduled, to make more elements of a large collection ready."""
        self.taken_over: TakenOver | None = None
        """Work that is held back until the log records that the previous owner died."""
        run.is_driven, run.memory.page = True, PAGE
        if run.memory.ready:
            run.memory.newly_ready[:] = run.memory.opened()

    @property
    def policies(self) -> RunPolicies:
        """The policies in force; made when something asks for them, or begins to wait: most runs have none."""
        if self._policies is None:
            tables = self.dispatcher.policy_tables[self.options.executor]
            self._policies = self.run.known_policies = RunPolicies(self.run, tables, self.dispatcher.clock)
        return self._policies

    @property
    def acknowledged(self) -> int:
        """How many events are durable."""
        return self.unsaved.acknowledged

    @property
    def created_at(self) -> float | None:
        """When the run was created; None until it is written."""
        return self.unsaved.created_at

    @property
    def snapshots(self) -> SnapshotWriter:
        """The writer of the snapshots of the run, which knows what its future needs."""
        return self.unsaved.snapshots

    def evicted(self, freed: Evicted) -> None:
        """Values of the run have left memory."""
        self.report.values_evicted(freed.facts, freed.bytes)

    @property
    def unwritten(self) -> int:
        """How many events of a stored run still have to be written; 0 if another owner has taken the run over."""
        if not self.acknowledged or isinstance(self.lost, _OTHERS) or self.unsaved.is_dropped:
            return 0
        return len(self.run.memory.log) - self.acknowledged

    @property
    def outcome(self) -> RunOutcome | None:
        """The outcome of the run, if it has finished and that is being stored."""
        return self.unsaved.outcome

    @property
    def chain(self) -> bytes:
        """The hash of the log up to its last durable event."""
        return self.unsaved.link

    @property
    def stored_status(self) -> RunStatus | None:
        """The status of the run in the store."""
        return self.unsaved.status

    @property
    def is_status_stored(self) -> bool:
        """Whether the store knows the status of the run."""
        is_busy = self.upcoming is not None or self.queue.by_key
        return self.stored_status == ("running" if is_busy else status_to_store(self))

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight, nothing can be started, and nothing waits."""
        memory = self.run.memory
        return not self.queue.by_key and not memory.ready and not memory.waiting

    @property
    def starts(self) -> bool:
        """Whether it starts what may start."""
        return self.life == "driving"

    @property
    def accepts(self) -> bool:
        """Whether the run takes changes: it is not being released, and its end is not being stored."""
        return self.presence == "here"

    @property
    def takes_messages(self) -> bool:
        """Whether it takes messages from its inbox; after a crash, the next worker does."""
        return self.presence == "here" and self.life != "crashed"

    @property
    def has_left(self) -> bool:
        """Whether the run has finished, and is not in the runner any more."""
        return self.presence == "left"

    @property
    def has_crashed(self) -> bool:
        """Whether it does nothing more, since its own code has raised an exception."""
        return self.life == "crashed"

    @property
    def may_rest(self) -> bool:
        """Whether nothing but its runnables could keep the run in memory."""
        return self.takes_messages and not self.is_in_lane and self.lost is None

    @property
    def may_sleep(self) -> bool:
        """Whether the run only waits, and all of it is stored, so that it need not be in memory."""
        return self.life == "driving" and self.may_rest and self.only_waits and self.is_stored

    @property
    def wake_at(self) -> float | None:
        """When the run, which only waits, has to be woken; None if time alone does not wake it."""
        return self.unsaved.next_due

    @property
    def only_waits(self) -> bool:
        """Whether something waits for time or a signal, and there is nothing else to do."""
        memory = self.run.memory
        return bool(memory.waiting) and not memory.ready and not self.queue.by_key

    # -- notifications --------------------------------------------------------------------------

    def changed(self) -> None:
        """The run has something new to do: an input, or the retry of a dead letter."""
        self.period += 1
        self.report.busy()
        if self.run.memory.undo is not None and self.run.memory.is_undoing:
            self.reason = text_of_undoing(self.run)
        if self.options.on_complete is not None:
            self.owes_notice = True
        self.told()

    def told(self) -> None:
        """Write the events that a caller has added to the run, and continue."""
        if self.life == "driving":  # one that was parked is settled as it is
            self.is_settled = False
        if self.options.checkpoints.takes_input_first:
            self.checkpoint()
        self.dispatcher.guard(self, self.turn)

    def has_timer(self, key: Key) -> bool:
        """Whether what waits at *key* still waits, here."""
        return self.life == "driving" and key in (self.run.memory.waiting or ())

    def time_is_up(self, key: Key, due: float) -> None:
        """End what waits at *key*, which is *due*, unless another run is about to continue this one, and its waits."""
        if self.accepts:
            self.dispatcher.guard(self, self._fire, key, due)

    def _fire(self, key: Key, due: float) -> None:
        if fire_timer(self.run, key, max(due, self.dispatcher.clock.time())):
            self.untimed_until = 0.0
            self.told()

    def take_message(self, number: int) -> None:
        """The next append takes the message with this *number* from the inbox: what it said has happened."""
        self.heard = number
        self.unsaved.take(number)
        self.checkpoint()

    def give(self, context: Mapping[str, Any]) -> None:
        """Let components of the run read *context*, in front of the context that it has."""
        self.options, self.run.context = self.options.with_context(context), {**self.run.context, **context}

    def revised(self) -> None:
        """The log of the run may have been revised: keep what is in flight if it is the same work as before."""
        ready, upcoming = self.run.memory.ready, self.upcoming
        same = {each for each in self.queue.by_key.values() if ready.get(each.activation.key) is each.activation}
        if len(same) != len(self.queue.by_key):
            self._give_up(same)
        if upcoming is not None:
            self.upcoming = upcoming if ready.get(upcoming.key) is upcoming else None
        if isinstance(self.run.memory.log[-1], ev.RunUpgraded):
            self.unsaved.version = self.run.workflow.version

    def check_open(self) -> None:
        """
        Refuse to change a run that is closed or can no longer be written.

        Raises:
            RunClosed: the run has finished.
            RunParked: the store has refused what has happened in it.
        """
        if self.state in FINISHED:
            raise RunClosed(self.id, self.reason, status=self.state)
        if self.lost is not None:
            raise RunParked(self.id, self.reason) from self.lost

    def check_takes_more(self) -> None:
        """
        Refuse what a run that is being undone does not take, besides what :meth:`check_open` refuses.

        Raises:
            RunClosed: the run has finished, or was cancelled and is being undone.
            RunParked: as :meth:`check_open`.
        """
        self.check_open()
        if self.run.memory.cancelled is not None:
            raise RunClosed(self.id, self.run.memory.cancelled)

    def checkpoint(self) -> None:
        """Write everything that has happened."""
        self.dispatcher.journal.note(self)

    def die(self) -> None:
        """Do nothing more after a crash, so that wrong state is neither written nor used."""
        self.life = LIFE[self.life]["crash"]
        self.abandon()
        if self.observer is not None:  # a stop waits no longer for what was in flight
            self.observer(self)

    def stop(self) -> list[InFlight]:
        """Start nothing more; return the runnables that executors have."""
        self.life = LIFE[self.life]["stop"]
        if self.dispatcher.scheduler is not None:
            advance_all(self)
        for inflight in self.queue.in_state("encoding"):  # it has ended, and must not run again because of its size
            if inflight.state == "encoding":  # else a listener has stopped the run meanwhile
                self.dispatcher.guard(self, encode_rest, self, inflight)
        in_flight = self.queue.by_key.values()  # what waits, in line or for a child, is not waited for
        dispatcher = self.dispatcher  # and what the next owner can have, goes on without this one
        waits = {each for each in in_flight if each.is_started and not dispatcher.is_lent(each)}
        kept = {each for each in waits if not dispatcher.is_left(each)}
        self._give_up(kept | set(self.queue.in_state("committing")))
        return list(self.queue.by_key.values())

    def abandon(self, kept: Container[InFlight] = ()) -> None:
        """Abandon all runnables in flight except those *kept*; that uses up no attempt."""
        if self.dispatcher.scheduler is not None and self.life != "crashed":
            advance_all(self)
        self._give_up(kept)

    def _give_up(self, kept: Container[InFlight] = ()) -> None:
        """Abandon the runnables in flight except those *kept*; the last places in a rate are the cheapest to return."""
        self.upcoming = None
        for inflight in self.queue.drop(kept):
            self.attempts.give_up(inflight)

    def sleep(self) -> None:
        """Do nothing more: the run only waits, and leaves memory."""
        self.life = LIFE[self.life]["stop"]
        self.begin_leaving()

    def begin_leaving(self) -> None:
        """Accept nothing more: the run is being released, or its end is being stored."""
        self.presence = PRESENCE[self.presence]["leave"]

    def stay(self) -> None:
        """Accept changes again: no other run takes the place of this one; one that was stopped meanwhile leaves."""
        if self.life == "driving":
            self.presence = PRESENCE[self.presence]["stay"]
            for key, due, is_relative in timers(self.run.memory):  # some may have been up meanwhile
                self.dispatcher.timers.add(self, key, due, is_relative=is_relative)

    def end(self, deletions: int) -> None:
        """The run has finished, is stored and was released; *deletions* is how many runs were deleted before."""
        self.presence, self.left_after = PRESENCE[self.presence]["end"], deletions

    def lose(self, error: Exception) -> None:
        """Nothing can be written any more."""
        self.lost = error

    def forget(self) -> None:
        """Drop the unsaved events: the run is stopped with ``persist=False``."""
        self.unsaved.drop()

    def park(self, reason: str) -> None:
        """Set the run aside until a person looks at it."""
        self.abandon()
        self.life = LIFE[self.life]["stop"]
        self.state, self.reason, self.is_settled = "parked", reason, True
        self.checkpoint()

    def cancel(self, reason: str, by: str | None = None, *, undo: bool = True) -> None:
        """
        Close the run: nothing more happens, except that what it has done is undone, if *undo* says so (ADR 61).

        A run that has nothing left to do but its on_complete is not stored as finished yet, and can be cancelled.
        One that is being undone goes on with that; without *undo*, it ends at once.

        Raises:
            RunClosed, RunParked: as :meth:`check_open`.
        """
        memory = self.run.memory
        if memory.cancelled is not None and (undo or memory.undo is None or not self.is_undoing):
            return
        if self.state != "cancelled" and not is_to_call_back(self):
            self.check_open()
        check_text_or_none("reason", reason)
        check_text_or_none("by", by)
        self.report.busy()
        work = to_undo(self) if undo else NOTHING_TO_UNDO
        self.abandon(work.kept)
        undoes = undo and (work.is_something or bool(children_with(self.run)))
        record(memory, ev.RunCancelled(len(memory.log) + 1, reason, by, undoes, work.stopped))
        self.owes_notice, self.orphans, self.has_told_children = False, orphans(self.run), False
        if work.is_something:
            self._undo(by)
            return
        self.state, self.reason = "cancelled", memory.cancelled or ""
        if self.life == "driving":  # callers that wait for on_complete, which is not called any more, are told too
            self.is_settled = False
        self.checkpoint()
        self._update_state()

    @property
    def is_undoing(self) -> bool:
        """Whether the run was cancelled, and something is still to be undone, perhaps in its children."""
        return self.run.memory.is_undoing or (bool(self.orphans) and self.run.memory.undo is not None)

    def _undo(self, by: str | None) -> None:
        """Start what undoes the run, also if it was parked."""
        retry_stuck(self, by)
        self.reason = text_of_undoing(self.run)
        if self.life != "driving" and self.state == "parked":
            self.checkpoint()
            self.owner.replace(self)
            return
        self.state = "running"
        self.checkpoint()
        self.told()

    def noticed(self, period: int) -> None:
        """Record that on_complete was called for everything up to *period*."""
        memory = self.run.memory
        if self.life == "crashed" or self.lost is not None or self.state == "cancelled":
            return
        if self.period == period and self.owes_notice:  # else there is more to tell, or it was noted before
            self.owes_notice = False
            record(memory, ev.Notified(len(memory.log) + 1))
        self.is_settled = False
        self.dispatcher.guard(self, self.turn)

    # -- one turn --------------------------------------------------------------------------------

    def turn(self) -> None:
        """Queue what has become ready, announce events to the journal, start what may start, and update the state."""
        if self.life != "driving" or self.is_in_lane:
            return
        memory = self.run.memory
        if self.sleeping is not None and (memory.ready or memory.newly_waiting):
            self.state = "running"
            self.owner.wake(self)
            return
        log = memory.log
        self.at_once = AT_ONCE
        queue, unsaved = self.queue, self.unsaved
        upcoming = self.upcoming  # the usual case: nothing has happened since it was found, and the store has it all
        if upcoming is not None and self.needed == len(log) == unsaved.acknowledged and memory.unopened is None:
            if start_upcoming(self, upcoming):
                return
            if self.upcoming is None and queue.slots_used and self.needed == len(log) and self.life == "driving":
                self.state = "running"  # an executor has it
                return
        while True:
            if memory.newly_waiting:
                start_waits(self)
            if memory.unopened is not None:
                open_more(self)
            ready = memory.newly_ready
            if ready:
                if len(ready) == 1 and not queue.by_key and self.upcoming is None and goes_straight(self, ready[0]):
                    self.upcoming, self.needed = ready.pop(), len(log)
                else:
                    queue_ready(self)
            known, stored = len(log), unsaved.acknowledged
            if known != stored:
                if self._is_eager:
                    self.dispatcher.journal.note(self)
                else:
                    self.write_if_due()
            upcoming = self.upcoming
            if upcoming is not None:
                if self.needed > stored and (self.is_strict or not self._runs_ahead(upcoming.node, self.needed)):
                    self.state = "running"
                    return
                if start_upcoming(self, upcoming):
                    return
            elif queue.line and (queue.line[0].needed <= stored or not self.is_strict):
                self.start()
                if memory.unopened is not None:
                    open_for_others(self)
            if known == len(log) or self.life != "driving":  # else something has ended at once
                break
        if queue.by_key and self.life == "driving":
            self.state = "running" if queue.slots_used or queue.line else "waiting"
        else:
            self._update_state()

    def expect_attempts(self) -> None:
        """Get ready for a runnable in flight: a run whose steps all run in the event loop never has one."""
        if not self._has_attempts:
            self._has_attempts, self.attempts = True, Attempts(self, self.dispatcher, self.policies)

    def write_if_due(self) -> None:
        """Announce unsaved events to the journal, if the strategy says that it is time."""
        strategy = self.options.checkpoints
        due = self._is_eager or (strategy.every is not None and self.units >= strategy.every)
        if due or (strategy.at_idle and self.is_idle):
            self.dispatcher.journal.note(self)
            self.at_once = 0  # nothing more before the journal has had its turn

    def start(self) -> None:
        """Start queued runnables whose dependencies are durable enough, while there are slots."""
        queue, unsaved = self.queue, self.unsaved
        line = queue.line
        if not unsaved.acknowledged:  # the run may turn out to exist: then all of this has happened before
            return
        while line and queue.slots_used - queue.spread < self.options.max_concurrency:
            if queue.barrier > 0:  # perhaps since just now: something has ended at once
                return
            inflight = line[0]
            if inflight.is_spread and queue.spread >= MOST_SPREAD:
                return
            activation = inflight.activation
            if inflight.needed > unsaved.acknowledged and not self._may_start(inflight):
                return
            if self.run.memory.ready.get(activation.key) is activation:
                queue.start_first()
                self.attempts.proceed(inflight)
            else:
                queue.move(inflight, "done")

    def _may_start(self, inflight: InFlight) -> bool:
        """Whether *inflight* may start although not all its dependencies are durable."""
        if inflight.activation.node.transaction or (inflight.policy is not None and inflight.is_durable):
            if not self._is_eager:
                self.checkpoint()
            return False
        return self._runs_ahead(inflight.activation.node, inflight.needed)

    def _runs_ahead(self, node: FunctionNode, needed: int) -> bool:
        """Whether *node* may start although not all of the *needed* events are durable; the first ones must be."""
        lag, acknowledged = self.options.checkpoints.lag, self.unsaved.acknowledged
        if lag is None or not acknowledged:
            return acknowledged > 0
        allowed = 0 if node.is_relay else lag  # a step of a saga never does
        return needed - allowed <= acknowledged

    def _update_state(self) -> None:
        """Update the state of the run, and notify its owner if it is settled."""
        if self.life != "driving":  # it has crashed, perhaps just now, while it started something
            return
        memory = self.run.memory
        if self.queue.by_key or memory.ready or memory.waiting:
            self.state = "running" if self.upcoming or self.queue.slots_used or self.queue.line else "waiting"
            if self.state == "waiting" and self.only_waits:
                self._store_wait()
            return
        if self.state != "cancelled":
            self._conclude()
        if self.queue.barrier and is_to_call_back(self):  # a callback can kill the process too
            if self.queue.barrier == UNNOTED and self.taken_over is not None:
                self.taken_over.note("")
            return
        writes = self.options.checkpoints.at_idle or self.state == "cancelled"  # which cancel() has promised
        if writes and not self.is_stored:
            self.checkpoint()
        else:
            self._rest()

    def _rest(self) -> None:
        """Tell the owner that the run is settled, unless it knows; a run that has finished was concluded before."""
        if self.orphans and self.state == "cancelled" and self.run.memory.undo is not None:
            return  # it is undone in its children
        if not self.is_settled and self.life == "driving":
            self.is_settled = True
            self.queue.rest()
            self.owner.settled(self)

    def _store_wait(self) -> None:
        """Store that the run waits, and tell its owner once that is done."""
        if self.is_stored:
            self.queue.rest()
            if self.observer is not None:
                self.observer(self)
            self.owner.waits(self)
        elif self.options.checkpoints.at_idle:
            self.checkpoint()

    def _conclude(self) -> None:
        """Set the state of the run and its reason, now that nothing is left to do."""
        self.reason = stuck(self.run)
        self.state = "parked" if self.reason else self.run.memory.status
        if self.state == "cancelled":  # it is undone
            self.reason, self.owes_notice = self.run.memory.cancelled or "", False
            if self.orphans and self.life == "driving":
                self.owner.cancel_orphans(self)
        if self.state == "failed":
            self.reason = text_of_failures(self.run)

    @property
    def is_stored(self) -> bool:
        """Whether the store has all events, and knows the status."""
        return self.unsaved.is_empty and (self.unsaved.status == status_to_store(self) or self.unsaved.is_dropped)

    # -- what comes of attempts ------------------------------------------------------------------

    def ended(self, attempts: Iterable[tuple[InFlight, Outcome]]) -> None:
        """Process the outcomes of *attempts*, and continue."""
        for inflight, outcome in attempts:
            if not inflight.is_straight or not end_straight(self, inflight, outcome):
                self.attempts.ended(inflight, outcome)
        self.turn()

    def finish(self, inflight: InFlight, outcome: Outcome) -> None:
        """Add the outcome to the run."""
        if outcome.added and is_partial(self.run):  # what the new components read may be in the history
            self.owner.load_history(self, lambda: self._finish_later(inflight, outcome))
            return
        policy, result = inflight.policy, inflight.result
        self.queue.move(inflight, "done")
        self.fold(inflight.activation, outcome, None if result is None else result.encoded, inflight.waited)
        if inflight.receipt is not None:
            self.unsaved.end_task(inflight.receipt)
        if policy is not None or self.options.hooks is not None:  # a listener may stop or cancel the run
            self.report.finished(inflight, outcome)
        if self.observer is not None:
            self.observer(self)
        if policy is not None and policy.checkpoint_after:
            self.queue.hold(len(self.run.memory.log))
            self.checkpoint()
        elif outcome.status == "open":  # whatever the strategy: the step is not to run again
            self.checkpoint()

    def _finish_later(self, inflight: InFlight, outcome: Outcome) -> None:
        """Add the outcome to the run, now that its history is loaded, and continue."""
        if inflight.state != "done":  # else the run was cancelled or stopped meanwhile
            self.finish(inflight, outcome)
            self.turn()

    def fold(
        self, activation: Activation, outcome: Outcome, encoded: Encoded | None, waited: dict[Wait, float] | None = None
    ) -> None:
        """Add the *outcome* of *activation*, which has *waited*, to the run; its value may be *encoded* already."""
        self.units += 1
        if waited is not None or self.monotonic() >= self.untimed_until:
            outcome = replace(outcome, timing=self.timing(waited))
        if self.run.memory.ready.get(activation.key) is activation:
            self.run.apply_outcome(activation, outcome)
        else:
            self.run.apply(outcome)
        if encoded is not None and (self._is_eager or len(encoded.data) > HASHED):
            self.unsaved.keep(encoded)

    def timing(self, waited: dict[Wait, float] | None = None) -> ev.Timing:
        """Return the time, for an event that happens now, and how long its component has *waited* before."""
        self.untimed_until = self.monotonic() + ev.PRECISION
        at = self.dispatcher.clock.time()
        if waited is None:
            return ev.Timing(at)
        return ev.Timing(at, **{reason: round(seconds, 6) for reason, seconds in waited.items()})

    # -- what the journal tells ------------------------------------------------------------------

    def segment(self, at: float, most: int = MOST) -> Append | None:
        """
        Return the unsaved events, *most* of them, as an append *at* this time.

        None if there are none, or if they cannot be written.
        """
        if self.lost is not None:
            return None
        is_busy = self.upcoming is not None or self.queue.by_key
        if is_busy and (lone := self.unsaved.lone(at)) is not None:  # the usual case
            self.units = 0
            return lone
        if self.life != "driving" and self.is_idle and self.state in ("running", "waiting"):
            self._conclude()  # the last of it has ended while the run was stopped
        try:
            status: RunStatus = "running" if is_busy else status_to_store(self)
            reason = reason_to_store(self) if self.orphans else self.reason
            append = self.unsaved.append(status, reason, at, most)
        except HistoryNotLoaded:  # the outcome of the run is in the history
            self.dispatcher.journal.hold(self)
            self.owner.load_history(self, self.checkpoint, lambda: self.dispatcher.journal.rejoin(self))
            return None
        if append is not None:
            self.units = 0
            if append.release:  # what would change the run now would be written by a worker that does not own it
                self.presence = PRESENCE[self.presence]["leave"]
        return append

    def committed(self, append: Append) -> None:
        """*append* is durable: what waited for it may start."""
        unsaved, is_over = self.unsaved, False
        unsaved.stored(append)
        if self.values is not None:
            self.values.stored()
        if self.queue.barrier:
            self.queue.stored(unsaved.acknowledged)
            if self.taken_over is not None:
                self.taken_over.stored()
        if not append.only_events:
            is_over = append.release
            if append.create and bus.workflow_start:
                self.report.begun(self.dispatcher.clock.time)
            if unsaved.is_behind:
                self.checkpoint()
        if self.observer is not None:
            self.observer(self)
        try:  # what Dispatcher.guard does, without a call for each commit of each run
            if is_over:
                self._rest()
            else:
                self.turn()
        except BaseException as error:  # noqa: BLE001 - it is handled there
            self.dispatcher.crashed(self, error)
        if is_over:
            self.owner.over(self)

    def refused(self, error: Exception) -> None:
        """The store has refused an append for good: another owner has the run, or the store or its data is damaged."""
        self.abandon()
        self.life = LIFE[self.life]["stop"]
        self.lose(error)
        self.state, self.reason, self.is_settled = "parked", text_of(error), True
        if isinstance(error, RunExists | UniqueKeyTaken):  # only the caller that creates or retries the run gets it
            self.report.exists()
        else:
            self.report.lost(error)
        if self.observer is not None:
            self.observer(self)
        self.owner.settled(self)

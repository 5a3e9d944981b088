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
2. A runnable is never in flight twice, and at most ``max_concurrency`` runnables are in flight at once.
3. Callers that wait for the run are told only when all its events are as durable as the strategy requires.
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
from weft.core.run.waits import fire_timer
from weft.errors import (
    BrokenChain,
    ConcurrentAppend,
    HistoryNotLoaded,
    OwnershipLost,
    RunClosed,
    RunExists,
    RunNotFound,
    RunParked,
)
from weft.log import Encoded
from weft.log.ext_types import HASHED
from weft.log.outcome import RunOutcome
from weft.log.snapshot import SnapshotWriter
from weft.policy.run_policies import RunPolicies
from weft.ports.store import FINISHED, Append, RunStatus
from weft.runner.durability.rehydration import Sleeping, is_partial
from weft.runner.durability.residency import Evicted, RunValues
from weft.runner.durability.takeover import Takeover
from weft.runner.durability.unsaved import MOST, UnsavedLog
from weft.runner.execution.attempts import Attempts
from weft.runner.execution.chain_progress import advance_all
from weft.runner.execution.dispatcher import Dispatcher
from weft.runner.execution.inflight import InFlight, Wait
from weft.runner.execution.intake import queue_ready, start_waits
from weft.runner.execution.large_collections import open_more
from weft.runner.execution.large_values import encode_rest
from weft.runner.execution.reporting import Reporter
from weft.runner.execution.run_queue import UNNOTED, RunQueue
from weft.runner.execution.status import (
    has_news,
    is_to_call_back,
    orphans,
    status_to_store,
    stuck,
    text_of_failures,
)
from weft.runner.execution.straight_lane import end_straight
from weft.runner.options import RunOptions
from weft.telemetry import bus

AT_ONCE: Final = 16
"""How many runnables of one run may run in the event loop before other runs continue."""

State = RunStatus

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

    def load_history(self, worker: Worker, then: Callable[[], object]) -> None:
        """Load the history of the run of *worker*, and call *then*."""
        ...

    def crashed(self, worker: Worker, error: BaseException) -> None:
        """*worker* has raised *error*."""
        ...


class Worker:
    """Drives one run, and writes its log."""

    __slots__ = (
        "_has_attempts",
        "_is_eager",
        "_is_strict",
        "_lane",
        "_needed",
        "_own_lane",
        "_policies",
        "_takeover",
        "_test_lane",
        "at_once",
        "attempts",
        "dispatcher",
        "has_left",
        "heard",
        "id",
        "is_dead",
        "is_in_lane",
        "is_leaving",
        "is_opening",
        "is_settled",
        "is_stopping",
        "left_after",
        "lost",
        "monotonic",
        "observer",
        "options",
        "orphans",
        "owes_notice",
        "owner",
        "period",
        "queue",
        "reason",
        "report",
        "run",
        "sleeping",
        "state",
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
        """Whether that one is running; what the run is told by it meanwhile waits until it has ended."""
        self._needed = 0
        """How many events must be durable before that one starts."""
        lanes = dispatcher.lanes if options.hooks is None and not options.check_arguments else {}
        self._test_lane = lanes.get("inline")
        """The lane of its conditions and maps, if no hook wants to know and arguments are not checked."""
        self._own_lane = lanes.get(options.executor)
        """The lane of its plain functions, if no hook wants to know and no scheduler groups them."""
        self._lane = self._own_lane
        """The lane of the upcoming runnable."""
        self._has_attempts = False
        self.attempts: Attempts
        """Takes its runnables from their slot to their outcome; made for the first that is in flight."""
        known = "running" if unsaved is None else run.memory.status
        self.state: State = known if known in FINISHED else "running"
        self.reason = run.memory.cancelled or ""
        self.lost: Exception | None = None
        """Why nothing can be written any more."""
        self.period = 0
        """How often it was given something to do."""
        self.observer: Callable[[Worker], None] | None = None
        """Told whenever something was stored or has ended, while a caller waits for that."""
        self.is_settled = False
        """Whether nothing is left to do, and all of it is as durable as it should be."""
        self.is_dead = False
        self.is_stopping = False
        """Whether nothing more is to be started."""
        self.is_leaving = False
        """Whether the run is being released, so that it accepts nothing more."""
        self.has_left = False
        """Whether the run has finished, and is not in the runner any more."""
        self.left_after: int
        """Then: how often runs had been deleted when it left, or when the store last had it."""
        self._is_eager = options.checkpoints.lag is not None
        """Whether everything is written as soon as possible."""
        self._is_strict = options.checkpoints.lag == 0
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
        """Until when the events of the run need not say when they happened, on the monotonic clock."""
        self.at_once = 0
        """How many more runnables may run in the event loop in this turn, before other runs continue."""
        self.units = 0
        """How many runnables have completed since the last checkpoint."""
        self.owes_notice = options.on_complete is not None and has_news(run)
        """Whether on_complete is still to be called, now that the run is idle."""
        self.heard = 0
        """The number of the last message that it has taken from its inbox."""
        self.orphans = orphans(run) if self.state == "cancelled" and self.unsaved.status != "cancelled" else ()
        """Children that are to be cancelled with the run, which was; until then it counts as unfinished."""
        self.is_opening = False
        """Whether another turn is scheduled, to make more elements of a large collection ready."""
        self._takeover: Takeover | Callable[[], object] | None = None
        """Until the log notes that an owner of the run died: what it has to note, then what starts when it has."""
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
    def may_sleep(self) -> bool:
        """Whether the run only waits, and all of it is stored, so that it need not be in memory."""
        is_well = not (self.is_stopping or self.is_leaving or self.is_dead or self.is_in_lane) and self.lost is None
        return is_well and self.only_waits and self.is_stored

    @property
    def wake_at(self) -> float | None:
        """When the run, which only waits, has to be woken; None if time alone does not wake it."""
        return self.unsaved.next_due

    @property
    def only_waits(self) -> bool:
        """Whether something waits for time or a signal, and there is nothing else to do."""
        memory = self.run.memory
        return bool(memory.waiting) and not memory.ready and not self.queue.by_key

    # -- what it is told -------------------------------------------------------------------------

    def changed(self) -> None:
        """The run has something new to do: an input, or the retry of a dead letter."""
        self.period += 1
        self.report.busy()
        if self.options.on_complete is not None:
            self.owes_notice = True
        self.told()

    def told(self) -> None:
        """Write the events that a caller has added to the run, and continue."""
        if not self.is_stopping:  # one that was parked is settled as it is
            self.is_settled = False
        if self.options.checkpoints.takes_input_first:
            self.checkpoint()
        self.dispatcher.guard(self, self.turn)

    def has_timer(self, key: Key) -> bool:
        """Whether what waits at *key* still waits, here."""
        return not self.is_stopping and key in (self.run.memory.waiting or ())

    def time_is_up(self, key: Key, due: float) -> None:
        """End what waits at *key*, which is *due*."""
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
        """Let components of the run read *context*, over what it has."""
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

    def checkpoint(self) -> None:
        """Write everything that has happened."""
        self.dispatcher.journal.note(self)

    def die(self) -> None:
        """Do nothing more after a crash, so that wrong state is neither written nor used."""
        self.is_dead = self.is_stopping = True
        self.abandon()
        if self.observer is not None:  # a stop waits no longer for what was in flight
            self.observer(self)

    def revive(self) -> None:
        """Let the supervisor count the next crash: this worker could not be replaced."""
        self.is_dead = False

    def stop(self) -> list[InFlight]:
        """Start nothing more; return the runnables that executors have."""
        self.is_stopping = True
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

    def abandon(self) -> None:
        """Abandon all runnables in flight; that uses up no attempt."""
        if self.dispatcher.scheduler is not None and not self.is_dead:
            advance_all(self)
        self._give_up()

    def _give_up(self, kept: Container[InFlight] = ()) -> None:
        """Abandon the runnables in flight except those *kept*; the last places in a rate are the cheapest to return."""
        self.upcoming = None
        for inflight in self.queue.drop(kept):
            self.attempts.give_up(inflight)

    def take_over(self, takeover: Takeover) -> None:
        """Start nothing before the log says that an owner of the run died; it says so when something is to start."""
        self._takeover, self.queue.barrier = takeover, UNNOTED

    def note_deaths(self) -> None:
        """Write how many owners have died, if the log says another number, although nothing has started yet."""
        takeover = self._takeover
        is_open = self.lost is None and not self.is_leaving and self.state not in FINISHED
        if isinstance(takeover, Takeover) and takeover.is_news and is_open:
            self._note_deaths(takeover, self.unsaved.epoch - 1, "")

    def note_takeover(self, component: str, start: Callable[[], object] | None = None) -> None:
        """Write that an owner of the run died and *component* is about to start; then *start* it."""
        takeover = self._takeover
        assert isinstance(takeover, Takeover)  # noqa: S101
        self._note_deaths(takeover, self.unsaved.epoch, component)
        self._takeover = start
        self.queue.hold(len(self.run.memory.log))

    def _note_deaths(self, takeover: Takeover, epoch: int, component: str) -> None:
        """Write how many owners have died, and that the one of this *epoch* was the last that started something."""
        memory, now = self.run.memory, self.dispatcher.clock.time()
        record(memory, ev.RunTakenOver(len(memory.log) + 1, takeover.deaths, epoch, component, now))
        self.checkpoint()

    def _start_noted(self) -> None:
        """Start what was waiting for the log to say that the run was taken over, if it does."""
        start = self._takeover
        if callable(start) and not self.queue.barrier:
            self._takeover = None
            self.dispatcher.guard(self, start)

    def sleep(self) -> None:
        """Do nothing more: the run only waits, and leaves memory."""
        self.is_stopping = self.is_leaving = True

    def forget(self) -> None:
        """Drop the unsaved events: the run is stopped with ``persist=False``."""
        self.unsaved.drop()

    def park(self, reason: str) -> None:
        """Set the run aside until a person looks at it."""
        self.abandon()
        self.is_stopping = True
        self.state, self.reason, self.is_settled = "parked", reason, True
        self.checkpoint()

    def cancel(self, reason: str, by: str | None = None) -> None:
        """
        Close the run: nothing more happens.

        A run that has nothing left to do but its on_complete is not stored as finished yet, and can be cancelled.

        Raises:
            RunClosed, RunParked: as :meth:`check_open`.
        """
        if not is_to_call_back(self):
            self.check_open()
        check_text_or_none("reason", reason)
        check_text_or_none("by", by)
        memory = self.run.memory
        self.report.busy()
        self.abandon()
        record(memory, ev.RunCancelled(len(memory.log) + 1, reason, by))
        self.state, self.reason, self.owes_notice = "cancelled", reason, False
        if not self.is_stopping:  # callers that wait for on_complete, which is not called any more, are told too
            self.is_settled = False
        self.orphans = orphans(self.run)
        self.checkpoint()
        self._update_state()

    def noticed(self, period: int) -> None:
        """Record that on_complete was called for everything up to *period*."""
        memory = self.run.memory
        if self.is_dead or self.lost is not None or self.state == "cancelled":
            return
        if self.period == period and self.owes_notice:  # else there is more to tell, or it was noted before
            self.owes_notice = False
            record(memory, ev.Notified(len(memory.log) + 1))
        self.is_settled = False
        self.dispatcher.guard(self, self.turn)

    # -- one turn --------------------------------------------------------------------------------

    def turn(self) -> None:
        """Queue what has become ready, announce events to the journal, start what may start, and update the state."""
        if self.is_stopping or self.is_in_lane:
            return
        memory = self.run.memory
        if self.sleeping is not None and (memory.ready or memory.newly_waiting):
            self.state = "running"
            self.owner.wake(self)
            return
        log = memory.log
        self.at_once = AT_ONCE
        queue, unsaved = self.queue, self.unsaved
        upcoming = self.upcoming  # as nearly always: nothing has happened since it was found, and the store has it all
        if upcoming is not None and self._needed == len(log) == unsaved.acknowledged and memory.unopened is None:
            if self._start_upcoming(upcoming):
                return
            if self.upcoming is None and queue.slots_used and self._needed == len(log) and not self.is_stopping:
                self.state = "running"  # an executor has it
                return
        while True:
            if memory.newly_waiting:
                start_waits(self)
            if memory.unopened is not None:
                open_more(self)
            ready = memory.newly_ready
            if ready:
                if len(ready) == 1 and not queue.by_key and self.upcoming is None and self._goes_straight(ready[0]):
                    self.upcoming, self._needed = ready.pop(), len(log)
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
                if self._needed > stored and (self._is_strict or not self._runs_ahead(upcoming.node, self._needed)):
                    self.state = "running"
                    return
                if self._start_upcoming(upcoming):
                    return
            elif queue.line and (queue.line[0].needed <= stored or not self._is_strict):
                self.start()
            if known == len(log) or self.is_stopping:  # else something has ended at once
                break
        if queue.by_key and not self.is_stopping:
            self.state = "running" if queue.slots_used or queue.line else "waiting"
        else:
            self._update_state()

    def _goes_straight(self, activation: Activation) -> bool:
        """Whether *activation*, the only one, can take the straight lane: no policy, deadline or earlier attempt."""
        memory, node = self.run.memory, activation.node
        self._lane = self._test_lane if node.is_test or node.is_fan else self._own_lane
        return not (
            self._lane is None
            or node.is_async
            or node.transaction
            or (memory.workflow.policies if memory.rules is None else memory.rules)
            or memory.has_deadlines
            or memory.attempts
            or memory.dispatched
            or memory.retried
        )

    def _start_upcoming(self, upcoming: Activation) -> bool:
        """
        Start the *upcoming* runnable; return whether exactly one has followed it, and waits for the store in its place.

        That is what the next round of :meth:`turn` would find for a run that is strict and has nothing in flight: a
        quarter of the operations of a turn.
        """
        lane = self._lane
        assert lane is not None  # noqa: S101
        if not lane.start(self, upcoming) or not self._is_strict or self.is_stopping:
            return False
        memory = self.run.memory
        ready = memory.newly_ready
        if len(ready) != 1 or memory.unopened is not None:
            return False
        following, known = ready[0], len(memory.log)
        node = following.node
        is_alike = known == self._needed + 1 and lane is self._own_lane  # nothing but its own event has come since
        is_other = node.is_test or node.is_fan or node.is_async or node.transaction
        if (not is_alike or is_other) and not self._goes_straight(following):
            return False
        ready.clear()
        self.upcoming, self._needed = following, known
        self.dispatcher.journal.note(self)
        return True

    def queue_upcoming(self, activation: Activation) -> InFlight:
        """Queue the upcoming runnable: it is not the only one any more, or it cannot take the straight lane."""
        inflight = InFlight(activation, needed=self._needed)
        self.expect_attempts()
        self.queue.add(inflight)
        self.upcoming = None
        return inflight

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
        while line and queue.slots_used < self.options.max_concurrency:
            if queue.barrier > 0:  # perhaps since just now: something has ended at once
                return
            inflight = line[0]
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
        """Work out the state of the run, and tell its owner if it is settled."""
        if self.is_stopping:  # it has crashed, perhaps just now, while it started something
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
            if self.queue.barrier == UNNOTED:
                self.note_takeover("")
            return
        if self.options.checkpoints.at_idle and not self.is_stored:
            self.checkpoint()
        else:
            self._rest()

    def _rest(self) -> None:
        """Tell the owner that the run is settled, unless it knows; a run that has finished was concluded before."""
        if not self.is_settled and not self.is_stopping:
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
        """Work out how the run stands, now that nothing is left to do, and why."""
        self.reason = stuck(self.run)
        self.state = "parked" if self.reason else self.run.memory.status
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
        if is_busy and (lone := self.unsaved.lone(at)) is not None:  # as nearly always
            self.units = 0
            return lone
        if self.is_stopping and self.is_idle and self.state in ("running", "waiting"):
            self._conclude()  # the last of it has ended while the run was stopped
        try:
            append = self.unsaved.append("running" if is_busy else status_to_store(self), self.reason, at, most)
        except HistoryNotLoaded:  # the outcome of the run is in the history
            self.owner.load_history(self, self.checkpoint)
            return None
        if append is not None:
            self.units = 0
            if append.release:  # what would change the run now would be written by a worker that does not own it
                self.is_leaving = True
        return append

    def committed(self, append: Append) -> None:
        """*append* is durable: what waited for it may start."""
        unsaved = self.unsaved
        unsaved.stored(append)
        if self.values is not None:
            self.values.stored()
        if append.create and bus.workflow_start:
            self.report.begun(self.dispatcher.clock.time)
        if self.queue.barrier:
            self.queue.stored(unsaved.acknowledged)
            self._start_noted()
        if unsaved.is_behind:
            self.checkpoint()
        if self.observer is not None:
            self.observer(self)
        try:  # what Dispatcher.guard does, without a call for each commit of each run
            if append.release:
                self._rest()
            else:
                self.turn()
        except BaseException as error:  # noqa: BLE001 - it is handled there
            self.dispatcher.crashed(self, error)
        if append.release:
            self.owner.over(self)

    def refused(self, error: Exception) -> None:
        """The store has refused an append for good: another owner has the run, or the store or its data is damaged."""
        self.abandon()
        self.is_stopping, self.lost = True, error
        self.state, self.reason, self.is_settled = "parked", text_of(error), True
        if isinstance(error, RunExists):  # only the creator of the run is told
            self.report.exists()
        else:
            self.report.lost(error)
        if self.observer is not None:
            self.observer(self)
        self.owner.settled(self)

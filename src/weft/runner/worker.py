"""
One run being driven.  A state machine: it has no thread and no task of its own, and only moves when it is told.

    apply what has ended ──► fold ──► hand events to the journal ──► start what may start
            ▲                                   │                           │
            └──────────── an executor ◄─────────┴── durable enough? ◄───────┘

States: **running** (something is under way or can be started), **waiting** (only for time or a limit), **idle**
(nothing to do, takes more input), **parked** (needs a person), and the closed one, **cancelled**.

What always holds:

1. Nothing starts before what it depends on is as durable as the strategy asks for.
2. The same runnable is never under way twice, and never more than ``max_concurrency`` at once.
3. Whoever waits for the run is told only when all that it did is as durable as the strategy asks for.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from msgspec.structs import replace

from weft.core import events as ev
from weft.core.fold import record
from weft.core.plan import Plan
from weft.core.run import Run
from weft.core.runnable import Outcome, Runnable, bind
from weft.core.scope import Activation, Key
from weft.errors import QueueTimeout, RunExists, SilentStep, StepTimeout, UnencodableValue
from weft.log import Encoder, Segment, chain, check_encodable
from weft.policy.decision import has_queued_too_long, is_silent
from weft.policy.driver import Attempt, Await, Begun, Conditions, Pause, Raised, Reply, Returned, conduct
from weft.policy.policy import Policy
from weft.policy.table import PolicyTable
from weft.ports.store import FIRST_EPOCH, Append, RunStatus
from weft.runner.flight import Flight
from weft.runner.office import Office
from weft.runner.options import RunOptions
from weft.runner.reporting import Reporter

_log = logging.getLogger("weft.runner")

State = Literal["running", "waiting", "idle", "parked", "cancelled"]
_NO_POLICY = Policy()


class Worker:
    """Drives one run, and writes its log."""

    def __init__(
        self,
        office: Office,
        run: Run,
        options: RunOptions,
        settled: Callable[[Worker], None],
        *,
        epoch: int = FIRST_EPOCH,
        stored: int = 0,
        link: bytes = b"",
        status: RunStatus | None = None,
    ) -> None:
        """
        Take over *run*.

        Args:
            settled: called when there is nothing left to do and all of it is durable.
            epoch: the epoch in which this runner owns the run.
            stored: how many events the store has; none of a run that is new.
            link: the head of the hash chain there.
            status: what the store says of the run.
        """
        self.office, self.run, self.options, self.epoch = office, run, options, epoch
        self.id = run.id
        """The name of the run."""
        self.report = Reporter(run, options.hooks)
        self.state: State = "running" if run.memory.cancelled is None else "cancelled"
        self.reason = run.memory.cancelled or ""
        self.acknowledged = stored
        """How many events are durable."""
        self.lost: Exception | None = None
        """Why nothing can be written any more."""
        self.period = 0
        """How often it was given something to do."""
        self.observer: Callable[[Worker], None] | None = None
        """Told whenever something was stored or has ended, while somebody waits for that."""
        self.is_settled = False
        """Whether nothing is left to do, and all of it is as durable as it should be."""
        self.is_dead = False
        self._settled = settled
        self._encoder = Encoder()
        self._link = link
        self._stored_status = status
        self._written: Segment | None = None
        """What is being stored."""
        self._line: deque[tuple[int, Flight]] = deque()
        """What is ready: with the number of events that must be durable before it starts."""
        self._flights: dict[Key, Flight] = {}
        self._active = 0
        """How many attempts are with executors, or in line for one."""
        self._units = 0
        """How many runnables have completed since the last checkpoint."""
        self._barrier = 0
        """How many events must be durable before anything starts: a policy has asked for it (``checkpoint_after``)."""
        is_news = bool(run.memory.received) and run.memory.notified < len(run.memory.log)
        self._owes_notice = options.on_complete is not None and is_news
        self._is_stopping = False
        self._table: tuple[Plan, Any, PolicyTable] | None = None
        run.is_driven = True
        run.memory.fresh[:] = run.memory.offered()

    # -- what it is told -------------------------------------------------------------------------

    def changed(self) -> None:
        """The run was given something: input, policies, another chance for a letter."""
        self.is_settled = False
        self.period += 1
        if self.options.on_complete is not None:
            self._owes_notice = True
        if self.options.checkpoints.takes_input_first:
            self.office.journal.note(self)
        self.office.guard(self, self.turn)

    def checkpoint(self) -> None:
        """Write everything that has happened."""
        self.office.journal.note(self)

    @property
    def is_durable(self) -> bool:
        """Whether the store has everything."""
        return self.acknowledged == len(self.run.memory.log)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way and nothing can be started."""
        return not self._flights and not self._line and not self.run.memory.ready

    @property
    def has_flights(self) -> bool:
        """Whether something is under way."""
        return bool(self._flights)

    def die(self) -> None:
        """Touch nothing more: whatever is wrong here must not spread."""
        self.is_dead = self._is_stopping = True
        self.abandon()

    def revive(self) -> None:
        """Be ready to be told of the next crash."""
        self.is_dead = False

    def stop(self) -> list[Flight]:
        """Start nothing more; return what executors have."""
        self._is_stopping = True
        self._line.clear()
        for key, flight in list(self._flights.items()):
            if not self.office.is_started(flight):  # it stands in line, or waits for time or a limit
                self._give_up(flight)
                del self._flights[key]
        return list(self._flights.values())

    def abandon(self) -> None:
        """Lose interest in all that is under way; no attempt is burnt by that."""
        for flight in self._flights.values():
            self._give_up(flight)
        self._flights.clear()
        self._line.clear()
        self._active = 0

    def _give_up(self, flight: Flight) -> None:
        """Lose interest in *flight*, and leave the limits that it was let through."""
        self.office.abandon(flight)
        if flight.conversation is not None:
            flight.conversation.close()

    def forget(self) -> None:
        """Drop what has not been written: the run was stopped without being persisted."""
        self.abandon()
        self._is_stopping = True
        self.acknowledged = len(self.run.memory.log)

    # -- one turn --------------------------------------------------------------------------------

    def turn(self) -> None:
        """Take in what became ready, hand over what happened, start what may start, and see whether that was all."""
        if self._is_stopping:
            return
        memory = self.run.memory
        if memory.fresh:
            self._take_in()
        if len(memory.log) != self.acknowledged:
            self._hand_over()
        if self._line:
            self._start()
        self._look_around()

    def _take_in(self) -> None:
        """Put what became ready in line; of what is durable, note that it is about to start."""
        memory = self.run.memory
        offered, memory.fresh = memory.fresh, []
        if self.options.hooks is not None and self.options.hooks.transform is not None:
            offered = self._transformed(offered)
        now = self.office.monotonic()
        for activation in offered:
            if activation.key in self._flights or memory.ready.get(activation.key) is not activation:
                continue
            policy, _ = self._policy(activation)
            begun = self._begun(activation.key) if memory.attempts or memory.dispatched else None
            flight = Flight(activation, policy, begun, ready_since=now)
            if policy is not None:
                flight.priority = policy.priority
                if policy.execution_mode == "durable":
                    self._note_dispatch(flight)
                if policy.queue_timeout is not None:
                    flight.queue_timer = self.office.later(policy.queue_timeout, self, self._queued_too_long, flight)
            self._flights[activation.key] = flight
            self._line.append((len(memory.log), flight))

    def _transformed(self, offered: list[Activation]) -> list[Activation]:
        memory = self.run.memory
        runnables = [bind(activation, memory, self.run.context) for activation in offered]
        by_key = {activation.key: activation for activation in offered}
        wanted = [by_key[runnable.key] for runnable in self.report.transformed(runnables) if runnable.key in by_key]
        left = set(by_key) - {activation.key for activation in wanted}
        memory.fresh.extend(by_key[key] for key in by_key if key in left)
        return wanted

    def _begun(self, key: Key) -> Begun | None:
        memory = self.run.memory
        failed = (memory.attempts or {}).get(key)
        dispatched = (memory.dispatched or {}).get(key, 0)
        if failed is None:
            return Begun(dispatched) if dispatched else None
        return Begun(max(failed.last, dispatched), failed.failed, failed.retry_at, failed.since)

    def _note_dispatch(self, flight: Flight) -> None:
        memory, (name, inputs) = self.run.memory, flight.activation.key
        attempt = 1 + (flight.begun.attempts if flight.begun else 0)
        record(memory, ev.RunnableDispatched(len(memory.log) + 1, name, inputs, attempt))

    def _hand_over(self) -> None:
        """Let the journal know that there is something to write, if it is time for that."""
        strategy = self.options.checkpoints
        due = strategy.lag is not None or (strategy.every is not None and self._units >= strategy.every)
        if due or (strategy.at_idle and self.is_idle):
            self.office.journal.note(self)

    def _start(self) -> None:
        """Start what is in line, as far as it is durable enough and there is room."""
        line, lag = self._line, self.options.checkpoints.lag
        if not self.acknowledged:  # the run may turn out to exist: then all of this has happened before
            return
        if self._barrier > self.acknowledged:
            return
        while line and self._active < self.options.max_concurrency:
            needed, flight = line[0]
            is_careful = flight.policy is not None and flight.policy.execution_mode == "durable"
            if lag is not None and needed - (0 if is_careful else lag) > self.acknowledged:
                return
            if is_careful and needed > self.acknowledged:
                self.checkpoint()
                return
            line.popleft()
            if flight.is_over or self.run.memory.ready.get(flight.activation.key) is not flight.activation:
                self._flights.pop(flight.activation.key, None)
                continue
            self._active += 1
            if flight.is_paused:
                flight.is_paused = False
                self._go_on(flight, None)
            elif flight.attempt is None:
                self._launch(flight)
            else:
                self._take_place(flight)

    def _look_around(self) -> None:
        """Work out the state of the run, and tell whoever waits if it is settled."""
        if self._is_stopping:  # it has crashed, perhaps just now, while it started something
            return
        if not self.is_idle:
            self.state = "running" if self._active or self._line else "waiting"
            return
        if self.state != "cancelled":
            self.reason = self._stuck()
            self.state = "parked" if self.reason else "idle"
        strategy = self.options.checkpoints
        if strategy.at_idle and not self.is_durable:
            self.office.journal.note(self)
        elif not self.is_settled:
            self.is_settled = True
            self._settled(self)

    def _stuck(self) -> str:
        """Say what keeps the run from its end until a person looks at it; nothing if it has come to one."""
        letters = [letter for letter in (self.run.memory.letters or {}).values() if letter.activation.node.undoes]
        if not letters:
            return ""
        event = letters[0].event
        failed = ", ".join(repr(letter.event.component) for letter in letters)
        return (
            f"a saga cannot be undone: {failed} failed for good, {event.error.type}: {event.error.message}; "
            "retry() goes on from there, discard() goes on without it"
        )

    # -- attempts --------------------------------------------------------------------------------

    def _launch(self, flight: Flight) -> None:
        """Begin: with a driver if the policy matters before an attempt fails, or if there were attempts before."""
        runnable = flight.runnable = bind(flight.activation, self.run.memory, self.run.context)
        policy, is_guarded = self._policy(flight.activation)
        if is_guarded or flight.begun is not None or runnable.deadline is not None:
            self._converse(flight, policy or _NO_POLICY, begun=flight.begun or Begun())
            self._go_on(flight, None)
        else:
            flight.attempt = Attempt(runnable, None)
            self._take_place(flight)

    def _converse(
        self, flight: Flight, policy: Policy, *, failed: BaseException | None = None, begun: Begun | None = None
    ) -> None:
        runnable = flight.runnable
        assert runnable is not None  # noqa: S101

        def current() -> Policy:
            return self._policy(flight.activation)[0] or _NO_POLICY

        office = self.office
        told = partial(self.report.falling_back, flight)
        given = Conditions(office.clock.time, office.counters, office.draw, runnable.deadline, current, told)
        flight.conversation = conduct(runnable, policy, given, failed, begun=begun or Begun())

    def _go_on(self, flight: Flight, reply: Reply) -> None:
        """Tell the driver of *flight* what came of its last instruction, and do the next one."""
        flight.disarm()
        conversation = flight.conversation
        assert conversation is not None  # noqa: S101
        try:
            instruction = conversation.send(reply)
        except StopIteration as end:
            self._finish(flight, end.value)
            return
        match instruction:
            case Attempt():
                flight.attempt = instruction
                self._prepare_attempt(flight)
            case Pause(seconds, after):
                if after is not None:
                    self._note_failure(after)
                self._wait(flight, [self.office.later(seconds, self, self._resumed, flight)])
            case Await(key, seconds):
                timers = [self.office.watch(key, self, self._resumed, flight)]
                if seconds is not None:
                    timers.append(self.office.later(seconds, self, self._resumed, flight))
                self._wait(flight, timers)

    def _prepare_attempt(self, flight: Flight) -> None:
        """Start the attempt; a further one of a durable step only once the log says so."""
        attempt = flight.attempt
        assert attempt is not None  # noqa: S101
        number = attempt.runnable.attempt
        durable = flight.policy is not None and flight.policy.execution_mode == "durable"
        noted = (self.run.memory.dispatched or {}).get(flight.activation.key, 0)
        if durable and noted < number:
            memory, (name, inputs) = self.run.memory, flight.activation.key
            record(memory, ev.RunnableDispatched(len(memory.log) + 1, name, inputs, number))
            self._active -= 1
            self._line.append((len(memory.log), flight))
            self.turn()
        else:
            self._take_place(flight)

    def _note_failure(self, after: ev.AttemptFailed) -> None:
        memory = self.run.memory
        seq = len(memory.log) + 1
        record(memory, replace(after, seq=seq))
        self.report.retrying(after, self.office.clock.time())
        self._hand_over()

    def _wait(self, flight: Flight, timers: list[Any]) -> None:
        for timer in timers:
            flight.arm(timer)
        self._active -= 1
        self._start()
        self._look_around()

    def _resumed(self, flight: Flight) -> None:
        """What *flight* waited for has come."""
        if flight.is_over or self._is_stopping:
            return
        flight.disarm()
        flight.is_paused = True
        self._line.append((0, flight))
        self.turn()

    # -- with an executor ------------------------------------------------------------------------

    def _take_place(self, flight: Flight) -> None:
        """Hand the attempt to its executor."""
        node, policy = flight.activation.node, flight.policy
        if node.is_async:
            flight.executor = "async"
        elif node.is_test or node.is_fan:
            flight.executor = "inline"
        else:
            flight.executor = (policy.executor if policy is not None else None) or self.options.executor
        flight.is_aloft = True
        self.office.submit(self, flight)

    def taking_off(self, flight: Flight) -> None:
        """The attempt is about to start."""
        attempt, policy = flight.attempt, flight.policy
        assert attempt is not None  # noqa: S101
        flight.disarm()
        if flight.queue_timer is not None:
            flight.queue_timer.cancel()
            flight.queue_timer = None
        now = flight.started = flight.last_sign = self.office.monotonic()
        if attempt.timeout is not None:
            flight.arm(self.office.later(attempt.timeout, self, self._timed_out, flight, attempt.timeout))
        if policy is not None and policy.heartbeat is not None:
            attempt.runnable.pulse = lambda: _beat(flight, self.office.monotonic)
            flight.arm(self.office.later(policy.heartbeat, self, self._listened, flight, now))
        self.report.started(flight, self.office.clock.time)

    def landed(self, flight: Flight, outcome: Outcome) -> None:
        """The attempt has ended."""
        flight.disarm()
        flight.is_aloft = False
        flight.spent_ns += outcome.duration_ns
        self.report.ended(flight, outcome)
        if flight.conversation is not None:
            ok = outcome.status == "completed"
            reply = Returned(outcome.result, outcome.added) if ok else Raised(outcome.error or RuntimeError("failed"))
            self._go_on(flight, reply)
        elif outcome.status == "completed" or flight.policy is None:
            self._finish(flight, outcome)
        else:
            self._converse(flight, flight.policy, failed=outcome.error, begun=flight.begun)
            self._go_on(flight, None)

    def _finish(self, flight: Flight, outcome: Outcome) -> None:
        """Take the outcome into the run."""
        flight.is_over = True
        self._active -= 1
        self._units += 1
        if flight.conversation is not None:
            flight.conversation.close()
        key = flight.activation.key
        self._flights.pop(key, None)
        if outcome.status == "completed" and not flight.activation.node.is_test:
            try:
                check_encodable(outcome.result, key[0])
            except UnencodableValue as error:
                outcome = replace(outcome, status="failed", result=None, error=error)
        self.report.finished(flight, outcome)
        self.run.apply(_with_duration(outcome, flight.spent_ns))
        if self.observer is not None:
            self.observer(self)
        policy = flight.policy
        if policy is not None and policy.checkpoint_after:
            self._barrier = len(self.run.memory.log)
            self.checkpoint()

    def _timed_out(self, flight: Flight, timeout: float) -> None:
        """The time of the attempt is up, unless it spent some of it waiting for a worker."""
        began = self.office.started(flight)
        remaining = timeout if began is None else timeout - (self.office.monotonic() - began)
        if remaining > _EARLY:
            flight.arm(self.office.later(remaining, self, self._timed_out, flight, timeout))
            return
        self._cut_short(flight, StepTimeout(flight.activation.node.name, timeout))

    def _listened(self, flight: Flight, since: float) -> None:
        """See whether the attempt has given a sign of life since then."""
        policy = self._policy(flight.activation)[0]
        if policy is None or policy.heartbeat is None:
            return
        now = self.office.monotonic()
        began = self.office.started(flight)
        last = max(since, flight.last_sign, now if began is None else began)
        if is_silent(policy, last_sign=last, now=now + _EARLY):
            self._cut_short(flight, SilentStep(flight.activation.node.name, policy.heartbeat))
        else:
            wait = policy.heartbeat - (now - last)
            flight.arm(self.office.later(wait, self, self._listened, flight, last))

    def _queued_too_long(self, flight: Flight) -> None:
        """The runnable has waited to be started for as long as it may."""
        policy = self._policy(flight.activation)[0]
        if flight.is_over or policy is None or policy.queue_timeout is None:
            return
        if not has_queued_too_long(policy, ready_since=flight.ready_since, now=self.office.monotonic() + _EARLY):
            return
        if any(waiting is flight for _, waiting in self._line):
            self._line = deque(item for item in self._line if item[1] is not flight)
            self._active += 1
        elif flight.timers:  # it waits for a limit
            self._active += 1
        runnable = flight.runnable = flight.runnable or bind(flight.activation, self.run.memory, self.run.context)
        flight.attempt = None
        if flight.conversation is not None:  # it is about a limit that is no longer waited for
            flight.conversation.close()
            flight.conversation = None
        self.landed(flight, _failed(runnable, QueueTimeout(runnable.component, policy.queue_timeout)))
        self.turn()

    def _cut_short(self, flight: Flight, error: StepTimeout) -> None:
        """Stop the attempt that is under way."""
        runnable = flight.runnable
        assert runnable is not None  # noqa: S101
        self.office.withdraw(flight)
        spent = self.office.monotonic() - flight.started
        self.report.timed_out(flight, spent, error)
        self.landed(flight, _failed(runnable, error, spent))
        self.turn()

    # -- policies --------------------------------------------------------------------------------

    def _policy(self, activation: Activation) -> tuple[Policy | None, bool]:
        """Return the policy of *activation* that holds now, and whether it matters before an attempt fails."""
        memory = self.run.memory
        if memory.retried and activation.key in memory.retried:
            return memory.retried[activation.key], True
        rules = memory.workflow.policies if memory.rules is None else memory.rules
        if not rules:
            return None, False
        plan, known = activation.scope.plan, self._table
        if known is None or known[0] is not plan or known[1] is not rules:
            known = self._table = (plan, rules, self.office.table(plan, rules))
        return known[2].of(activation.node.name)

    # -- the journal -----------------------------------------------------------------------------

    def segment(self) -> Append | None:
        """Return what there is to write: the events since the last time, and the status if it has changed."""
        memory = self.run.memory
        log = memory.log
        events = log[self.acknowledged :]
        status = self._status()
        if not events and status == self._stored_status:
            return None
        self._units = 0
        is_new = self._stored_status is None
        if events:
            segment = self._written = self._encoder.segment(events)
            body, facts, definitions = segment.body, segment.facts, segment.definitions
            self._link = chain(self._link, body)
        else:
            body, facts, definitions = b"", {}, {}
        return Append(
            run=memory.run_id,
            expected=self.acknowledged,
            epoch=self.epoch,
            count=len(events),
            body=body,
            chain=self._link,
            at=self.office.clock.time(),
            status=None if status == self._stored_status else status,
            reason=self.reason,
            create=is_new,
            workflow=memory.workflow.name if is_new else None,
            version=memory.workflow.version if is_new else None,
            facts=facts,
            definitions=definitions,
        )

    def _status(self) -> RunStatus:
        if self.state in ("parked", "cancelled"):
            return self.state
        return "idle" if self.is_idle and not self._owes_notice and not self.run.memory.fresh else "running"

    def committed(self, append: Append) -> None:
        """*append* is durable: what waited for it may start."""
        self.acknowledged = append.head
        if self._written is not None:
            self._encoder.stored(self._written)
            self._written = None
        if append.status is not None:
            self._stored_status = append.status
        if self.observer is not None:
            self.observer(self)
        self.office.guard(self, self.turn)

    def refused(self, error: Exception) -> None:
        """Nothing can be written: this worker is not the writer any more, or the store or what it has is broken."""
        self.abandon()
        self._is_stopping, self.lost = True, error
        self.state, self.reason, self.is_settled = "parked", str(error), True
        if not isinstance(error, RunExists):  # whoever creates a run is told, and that is all
            self.report.lost(error)
        self._settled(self)

    def noticed(self, period: int) -> None:
        """Whoever wanted to know that the run is idle has been told, of what it did until *period*: log that too."""
        memory = self.run.memory
        if self.is_dead or self.lost is not None:
            return
        if self.period == period:  # else there is more to tell, and only that it was told is worth a note
            self._owes_notice = False
            record(memory, ev.Notified(len(memory.log) + 1))
        self.is_settled = False
        self.office.guard(self, self.turn)

    @property
    def owes_notice(self) -> bool:
        """Whether somebody still has to be told that the run is idle."""
        return self._owes_notice

    def park(self, reason: str) -> None:
        """Set the run aside until a person looks at it."""
        self.abandon()
        self._is_stopping = True
        self.state, self.reason, self.is_settled = "parked", reason, True
        self.office.journal.note(self)

    def cancel(self, reason: str) -> None:
        """Close the run: nothing more happens."""
        memory = self.run.memory
        self.abandon()
        record(memory, ev.RunCancelled(len(memory.log) + 1, reason))
        self.state, self.reason = "cancelled", reason
        self._owes_notice = False
        self.office.journal.note(self)
        self._look_around()


_EARLY = 0.0005
"""How many seconds too early a timer may fire."""


def _beat(flight: Flight, monotonic: Callable[[], float]) -> None:
    flight.last_sign = monotonic()


def _with_duration(outcome: Outcome, spent_ns: int) -> Outcome:
    return outcome if outcome.duration_ns == spent_ns else replace(outcome, duration_ns=spent_ns)


def _failed(runnable: Runnable, error: BaseException, spent: float = 0.0) -> Outcome:
    spent_ns = int(spent * 1e9)
    return Outcome(*runnable.key, "failed", None, error, runnable.attempt, spent_ns, run_id=runnable.run_id)

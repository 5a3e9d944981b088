"""
Flies what a worker starts: attempts, waits between them, timeouts, signs of life, until there is an outcome.

    launched ──► with an executor ──► landed ──► finished
        ▲              │                │
        └── a pause or a limit ◄────────┘   (as its policy says)

A flight without a policy that matters goes the short way; for any other, the driver of the policies is asked what
to do next, and is told what came of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from weft.calling import is_ctrl_c
from weft.core import events as ev
from weft.core.failure import PROPAGATES
from weft.core.fold.fold import record
from weft.core.run.runnable import Outcome, Runnable, bind
from weft.errors import QueueTimeout, RunnerClosed, SilentStep, StepTimeout
from weft.policy.decision import first_wait, given_back, has_queued_too_long, is_silent
from weft.policy.driver import Ask, Attempt, Await, Begun, Conditions, Pause, Raised, Reply, Returned, conduct
from weft.policy.policy import Policy
from weft.runner.execution.dispatcher import Office
from weft.runner.execution.inflight import Flight
from weft.runner.execution.policies import Rulebook
from weft.runner.execution.policy_call import Inquiry, inquiry
from weft.telemetry import bus

if TYPE_CHECKING:
    from weft.runner.execution.worker import Worker

_NO_POLICY = Policy()
_EARLY = 0.0005
"""How many seconds too early a timer may fire."""


class Pilot:
    """Takes the flights of one worker from their launch to their outcome."""

    __slots__ = ("_office", "_rules", "_worker")

    def __init__(self, worker: Worker, office: Office, rules: Rulebook) -> None:
        self._worker, self._office, self._rules = worker, office, rules

    # -- attempts --------------------------------------------------------------------------------

    def proceed(self, flight: Flight) -> None:
        """It is the turn of *flight*: begin, or go on after a wait."""
        if flight.is_paused:
            flight.is_paused = False
            self._go_on(flight, None)
            return
        if flight.attempt is not None:
            self._take_place(flight)
            return
        worker, policy = self._worker, flight.policy
        run = worker.run
        runnable = flight.runnable = bind(flight.activation, run.memory, run.context)
        # A driver is needed if the policy matters before an attempt fails, or if there were attempts before.
        if flight.is_guarded or flight.begun is not None or runnable.deadline is not None:
            self._converse(flight, policy or _NO_POLICY, begun=flight.begun or Begun())
            self._go_on(flight, None)
            return
        outcome = None
        if policy is None and worker.at_once:
            worker.at_once -= 1
            outcome = self._office.run_at_once(worker, flight, runnable)
        if flight.is_over:  # it has cancelled its own run, or somebody who was told of it has
            return
        if outcome is None:
            flight.attempt = Attempt(runnable, None)
            self._take_place(flight)
        else:
            self.landed(flight, outcome)

    def _converse(
        self, flight: Flight, policy: Policy, *, failed: BaseException | None = None, begun: Begun | None = None
    ) -> None:
        runnable = flight.runnable
        assert runnable is not None  # noqa: S101

        def current() -> Policy:
            return self._rules.of(flight.activation)[0] or _NO_POLICY

        office = self._office
        told = partial(self._worker.report.falling_back, flight)
        given = Conditions(office.clock.time, office.counters, office.draw, runnable.deadline, current, told)
        try:
            flight.conversation = conduct(runnable, policy, given, failed, begun=begun or Begun())
        except PROPAGATES as error:  # there is no key: that fails the attempts, and does not end the program
            if is_ctrl_c(error):
                raise
            runnable = flight.runnable = replace(runnable, broken=error, own_key="")
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
        except PROPAGATES as error:  # a function of the policy wants to end the program, and ends one runnable
            if is_ctrl_c(error):
                raise
            assert flight.runnable is not None  # noqa: S101
            self._finish(flight, _failed(flight.runnable, error))
            return
        match instruction:
            case Attempt():
                flight.attempt, flight.is_asking = instruction, False
                self._prepare(flight, instruction)
            case Ask(question):
                about = flight.runnable if flight.attempt is None else flight.attempt.runnable
                assert about is not None  # noqa: S101
                flight.attempt, flight.is_asking = Attempt(inquiry(about, question), None), True
                self._take_place(flight)
            case Pause(seconds, after, unless, _):
                if after is not None:
                    self._note_failure(flight, after)
                waits: list[Any] = [self._later(seconds, self._resumed, flight)]
                if unless is not None:
                    stiles, worker = self._office.turnstiles, self._worker
                    waits.append(stiles.wait(unless, worker, flight, self._resumed, one_by_one=False))
                flight.awaited_until = self._office.monotonic() + seconds
                self._wait(flight, instruction, waits)
            case Await(key, seconds):
                timers: list[Any] = [self._office.turnstiles.wait(key, self._worker, flight, self._resumed)]
                if seconds is not None:
                    timers.append(self._later(seconds, self._resumed, flight))
                self._wait(flight, instruction, timers)

    def _prepare(self, flight: Flight, attempt: Attempt) -> None:
        """Start the attempt; a further one of a durable step only once the log says so."""
        memory, key, number = self._worker.run.memory, flight.activation.key, attempt.runnable.attempt
        flight.policy = self._rules.of(flight.activation)[0]
        if flight.is_durable and (memory.dispatched or {}).get(key, 0) < number:
            record(memory, ev.RunnableDispatched(len(memory.log) + 1, *key, number))
            flight.needed = len(memory.log)
            self._worker.line_up_again(flight)
        else:
            self._take_place(flight)

    def _note_failure(self, flight: Flight, after: ev.AttemptFailed) -> None:
        worker = self._worker
        memory = worker.run.memory
        record(memory, replace(after, seq=len(memory.log) + 1))
        worker.report.retrying(after, self._office.clock.time())
        if flight.is_durable:  # its wait and its attempts outlive this process, whatever the strategy
            worker.checkpoint()
        else:
            worker.hand_over()

    def reconsider(self, flight: Flight) -> None:
        """The policies have changed: if *flight* waits for time or a limit, let it begin again under its new one."""
        policy, flight.is_guarded = self._rules.of(flight.activation)
        is_waiting = bool(flight.timers) or flight.is_paused
        if flight.conversation is None or flight.is_aloft or not is_waiting or policy == flight.policy:
            if not self._office.is_started(flight):
                flight.policy = policy
                if flight.conversation is None:
                    self._note_delay(flight)
            return
        flight.policy = policy
        self._office.withdraw(flight)
        flight.conversation.close()
        key = flight.activation.key
        if key in (self._worker.run.memory.attempts or {}):
            flight.begun = self._rules.begun(key)
        self._note_delay(flight)
        flight.conversation = flight.attempt = None
        flight.is_asking = False
        flight.priority = 0 if policy is None else policy.priority
        if flight.is_paused:  # it stands in line already
            flight.is_paused = False
        else:
            self._worker.line_up(flight)

    def _wait(self, flight: Flight, awaited: Pause | Await, timers: list[Any]) -> None:
        flight.awaited = awaited
        if self._worker.is_stopping:
            for timer in timers:
                timer.cancel()
            self._worker.drop(flight)
            return
        for timer in timers:
            flight.arm(timer)
        self._worker.make_room()

    def _resumed(self, flight: Flight) -> None:
        """What *flight* waited for has come."""
        if flight.is_over or self._worker.is_stopping:
            return
        flight.disarm()
        flight.is_paused = True
        self._worker.line_up(flight)
        self._worker.turn()

    # -- with an executor ------------------------------------------------------------------------

    def _take_place(self, flight: Flight) -> None:
        """Hand the attempt to its executor."""
        if self._worker.is_stopping and (self._office.is_closing or not flight.is_asking):
            self._worker.drop(flight)
            return
        node, policy = flight.activation.node, flight.policy
        if flight.is_asking:
            flight.executor = "inline" if self._worker.options.executor == "inline" else "thread"
        elif node.is_async:
            flight.executor = "async"
        elif node.is_test or node.is_fan:
            flight.executor = "inline"
        else:
            flight.executor = (policy.executor if policy is not None else None) or self._worker.options.executor
        attempt = flight.attempt
        if attempt is not None and attempt.until is not None:
            remaining = attempt.until - self._office.clock.time()
            if remaining <= 0:  # the log took too long
                self.landed(flight, _failed(attempt.runnable, StepTimeout(node.name, attempt.timeout or 0.0)))
                return
            flight.started = self._office.monotonic()
            flight.arm(self._later(remaining, self._timed_out, flight, attempt))
        flight.is_aloft = True
        self._office.submit(self._worker, flight)

    def taking_off(self, flight: Flight) -> None:
        """The attempt is about to start."""
        attempt, policy, office = flight.attempt, flight.policy, self._office
        assert attempt is not None  # noqa: S101
        flight.disarm()
        if flight.queue_timer is not None:
            flight.queue_timer.cancel()
            flight.queue_timer = None
        attempt.runnable.family, flight.children = office.family, None
        now = flight.started = flight.last_sign = office.monotonic()
        if flight.is_asking:
            return
        flight.runnable = attempt.runnable
        if attempt.begins is not None:
            attempt.begins()
        if attempt.timeout is not None:
            flight.arm(self._later(self._left(flight, attempt), self._timed_out, flight, attempt))
        if policy is not None and policy.heartbeat is not None:
            attempt.runnable.pulse = lambda: _beat(flight, office.monotonic)
            flight.arm(self._later(policy.heartbeat, self._listened, flight, now))
        self._worker.report.started(flight, office.clock.time)

    def landed(self, flight: Flight, outcome: Outcome) -> None:
        """The attempt has ended."""
        if flight.timers:
            flight.disarm()
        flight.is_aloft = False
        if outcome.error is not None and isinstance(outcome.error, RunnerClosed) and self._office.is_closing:
            self._worker.drop(flight)  # it needed the runner, a child for instance: closing burns no attempt
            return
        if flight.is_asking:
            assert flight.attempt is not None  # noqa: S101
            answer = cast("Inquiry", flight.attempt.runnable).answer
            self._go_on(flight, Returned(answer) if outcome.error is None else Raised(outcome.error))
            return
        if flight.executor == "inline" and flight.attempt is not None:
            outcome = _in_time(flight.attempt, outcome)
        flight.spent_ns += outcome.duration_ns
        is_complete = outcome.status == "completed"
        if bus.runnable_stop or not is_complete:
            self._worker.report.ended(flight, outcome)
        if flight.conversation is not None:
            error = RuntimeError("failed") if outcome.error is None else outcome.error
            self._go_on(flight, Returned(outcome.result, outcome.added) if is_complete else Raised(error))
        elif is_complete:
            self._finish(flight, outcome)
        else:
            flight.policy = policy = self._rules.of(flight.activation)[0]
            if policy is None:
                self._finish(flight, outcome)
            else:
                self._converse(flight, policy, failed=outcome.error, begun=flight.begun)
                self._go_on(flight, None)

    def _finish(self, flight: Flight, outcome: Outcome) -> None:
        flight.is_over = True
        if flight.conversation is not None:
            flight.conversation.close()
        if outcome.duration_ns != flight.spent_ns:
            outcome = replace(outcome, duration_ns=flight.spent_ns)
        self._worker.finish(flight, outcome)

    # -- time ------------------------------------------------------------------------------------

    def await_start(self, flight: Flight) -> bool:
        """
        Return whether *flight* has to wait before its first attempt, of which the log knows since when.

        Fail it if it has not started in time, counted from when it may; unless it had started before.
        """
        policy = flight.policy
        if policy is None or (flight.begun is not None and flight.begun.attempts):
            return False
        wait = 0.0
        if policy.delay or policy.scheduled_at is not None:
            self._note_delay(flight)
            since = 0.0 if flight.begun is None else flight.begun.since
            wait = first_wait(policy, now=self._office.clock.time(), since=since)
        if policy.queue_timeout is not None:
            flight.ready_since += wait
            flight.queue_timer = self._later(wait + policy.queue_timeout, self._queued_too_long, flight)
        return wait > 0

    def _note_delay(self, flight: Flight) -> None:
        """Note since when *flight* waits, so that a delay does not start over with the process."""
        memory, key, policy = self._worker.run.memory, flight.activation.key, flight.policy
        if policy is None or not policy.delay or flight.begun is not None:
            return
        if key in memory.ready and key not in (memory.dispatched or {}):
            record(memory, ev.RunnableDelayed(len(memory.log) + 1, *key, self._office.clock.time()))
            flight.begun, flight.needed = self._rules.begun(key), len(memory.log)

    def _later(self, seconds: float, call: Callable[..., object], *args: object) -> Any:
        return self._office.later(seconds, self._worker, call, *args)

    def _timed_out(self, flight: Flight, attempt: Attempt, lost: float = 0.0, given: float = 0.0) -> None:
        """
        The time of the attempt is up, unless it spent some of it waiting for a worker, or the loop was held.

        What has ended and was not collected yet has no start any more (``_left``), and is never ended here.  If the
        timer came late, the loop was held, and the attempt goes on for a while: the sum of that is *given*, and *lost*
        is for how long the loop was held.
        """
        left = self._left(flight, attempt) + lost + given
        if left > _EARLY:
            flight.arm(self._later(left, self._timed_out, flight, attempt, lost, given))
            return
        more = given_back(-left, timeout=attempt.timeout or 0.0, given=given)
        if more:
            flight.arm(self._later(more, self._timed_out, flight, attempt, lost - left, given + more))
            return
        self._cut_short(flight, StepTimeout(flight.activation.node.name, attempt.timeout or 0.0))

    def _left(self, flight: Flight, attempt: Attempt) -> float:
        """Return how long the attempt may go on: a timeout counts from when it began to run, a deadline does not."""
        began, left = self._office.started(flight), attempt.timeout or math.inf
        if began is not None:
            left -= self._office.monotonic() - began
        return left if attempt.until is None else min(left, attempt.until - self._office.clock.time())

    def _listened(self, flight: Flight, since: float, given: float = 0.0) -> None:
        """
        See whether the attempt has given a sign of life since then.

        A coroutine cannot give one while the loop is held: as :meth:`_timed_out`, it is then *given* more time.
        """
        policy = self._rules.of(flight.activation)[0]
        if policy is None or policy.heartbeat is None:
            return
        now = self._office.monotonic()
        began = self._office.started(flight)
        is_waiting = began is None or self._office.is_lent(flight)
        last = max(since, flight.last_sign, now if is_waiting or began is None else began)
        if last > since:
            given = 0.0
        if not is_silent(policy, last_sign=last + given, now=now + _EARLY):
            wait = policy.heartbeat + given - (now - last)
            flight.arm(self._later(wait, self._listened, flight, last, given))
            return
        more = given_back(now - last - given - policy.heartbeat, timeout=policy.heartbeat, given=given)
        if more:
            flight.arm(self._later(more, self._listened, flight, last, given + more))
        else:
            self._cut_short(flight, SilentStep(flight.activation.node.name, policy.heartbeat))

    def _queued_too_long(self, flight: Flight) -> None:
        """The runnable has waited to be started for as long as it may."""
        policy = self._rules.of(flight.activation)[0]
        if flight.is_over or policy is None or policy.queue_timeout is None:
            return
        now = self._office.monotonic()
        if not has_queued_too_long(policy, ready_since=flight.ready_since, now=now + _EARLY):
            remaining = flight.ready_since + policy.queue_timeout - now  # it was changed
            flight.queue_timer = self._later(remaining, self._queued_too_long, flight)
            return
        worker = self._worker
        worker.take_out_of_line(flight)
        runnable = flight.runnable = flight.runnable or bind(flight.activation, worker.run.memory, worker.run.context)
        flight.attempt, flight.is_asking = None, False
        if flight.conversation is not None:  # it is about a limit that is no longer waited for
            flight.conversation.close()
            flight.conversation = None
        self.landed(flight, _failed(runnable, QueueTimeout(runnable.component, policy.queue_timeout)))
        worker.turn()

    def _cut_short(self, flight: Flight, error: StepTimeout) -> None:
        """Stop the attempt that is under way."""
        runnable = flight.runnable
        assert runnable is not None  # noqa: S101
        self._office.withdraw(flight)
        spent = self._office.monotonic() - flight.started
        self._worker.report.timed_out(flight, spent, error)
        self.landed(flight, _failed(runnable, error, spent))
        self._worker.turn()

    def give_up(self, flight: Flight) -> None:
        """Lose interest in *flight*, and leave the limits that it was let through."""
        self._office.abandon(flight)
        if flight.conversation is not None:
            flight.conversation.close()


def _beat(flight: Flight, monotonic: Callable[[], float]) -> None:
    flight.last_sign = monotonic()


def _in_time(attempt: Attempt, outcome: Outcome) -> Outcome:
    """Return *outcome*, or that it came too late: what runs in the loop cannot be cut short, only dropped."""
    if attempt.timeout is None:
        return outcome
    spent = outcome.duration_ns / 1e9
    return (
        outcome
        if spent <= attempt.timeout
        else _failed(attempt.runnable, StepTimeout(outcome.component, attempt.timeout), spent)
    )


def _failed(runnable: Runnable, error: BaseException, spent: float = 0.0) -> Outcome:
    spent_ns = int(spent * 1e9)
    return Outcome(*runnable.key, "failed", None, error, runnable.attempt, spent_ns, run_id=runnable.run_id)

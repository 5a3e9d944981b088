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
from weft.policy.driver import Attempt, Await, Begun, CallPolicy, Conditions, Pause, Raised, Reply, Returned, conduct
from weft.policy.policy import Policy
from weft.runner.execution.dispatcher import Dispatcher
from weft.runner.execution.inflight import InFlight
from weft.runner.execution.policies import RunPolicies
from weft.runner.execution.policy_call import PolicyCall, policy_call
from weft.telemetry import bus

if TYPE_CHECKING:
    from weft.runner.execution.worker import Worker

_NO_POLICY = Policy()
_EARLY = 0.0005
"""How many seconds too early a timer may fire."""


class Attempts:
    """Takes the flights of one worker from their launch to their outcome."""

    __slots__ = ("_dispatcher", "_queue", "_rules", "_worker")

    def __init__(self, worker: Worker, dispatcher: Dispatcher, rules: RunPolicies) -> None:
        self._worker, self._dispatcher, self._rules, self._queue = worker, dispatcher, rules, worker.queue

    # -- attempts --------------------------------------------------------------------------------

    def proceed(self, inflight: InFlight) -> None:
        """It is the turn of *flight*: begin, or go on after a wait."""
        if inflight.awaited is not None:
            inflight.awaited = None
            self._go_on(inflight, None)
            return
        if inflight.attempt is not None:
            if isinstance(inflight.attempt.runnable, PolicyCall):
                self._queue.move(inflight, "calling_policy")
            self._take_place(inflight)
            return
        worker, policy = self._worker, inflight.policy
        run = worker.run
        runnable = inflight.runnable = bind(inflight.activation, run.memory, run.context)
        # A driver is needed if the policy matters before an attempt fails, or if there were attempts before.
        if inflight.is_guarded or inflight.begun is not None or runnable.deadline is not None:
            self._start_instructions(inflight, policy or _NO_POLICY, begun=inflight.begun or Begun())
            self._go_on(inflight, None)
            return
        outcome = None
        if policy is None and worker.at_once:
            worker.at_once -= 1
            outcome = self._dispatcher.run_at_once(worker, inflight, runnable)
        if inflight.state == "done":  # it has cancelled its own run, or a listener has
            return
        if outcome is None:
            inflight.attempt = Attempt(runnable, None)
            self._take_place(inflight)
        else:
            self.landed(inflight, outcome)

    def _start_instructions(
        self, inflight: InFlight, policy: Policy, *, failed: BaseException | None = None, begun: Begun | None = None
    ) -> None:
        runnable = inflight.runnable
        assert runnable is not None  # noqa: S101

        def current() -> Policy:
            return self._rules.of(inflight.activation)[0] or _NO_POLICY

        dispatcher = self._dispatcher
        told = partial(self._worker.report.falling_back, inflight)
        given = Conditions(
            dispatcher.clock.time, dispatcher.counters, dispatcher.draw, runnable.deadline, current, told
        )
        try:
            inflight.instructions = conduct(runnable, policy, given, failed, begun=begun or Begun())
        except PROPAGATES as error:  # there is no key: that fails the attempts, and does not end the program
            if is_ctrl_c(error):
                raise
            runnable = inflight.runnable = replace(runnable, broken=error, own_key="")
            inflight.instructions = conduct(runnable, policy, given, failed, begun=begun or Begun())

    def _go_on(self, inflight: InFlight, reply: Reply) -> None:
        """Tell the driver of *flight* what came of its last instruction, and do the next one."""
        inflight.disarm()
        instructions = inflight.instructions
        assert instructions is not None  # noqa: S101
        try:
            instruction = instructions.send(reply)
        except StopIteration as end:
            self._finish(inflight, end.value)
            return
        except PROPAGATES as error:  # a function of the policy wants to end the program, and ends one runnable
            if is_ctrl_c(error):
                raise
            assert inflight.runnable is not None  # noqa: S101
            self._finish(inflight, _failed(inflight.runnable, error))
            return
        if inflight.state == "done":  # a listener has cancelled the run
            return
        match instruction:
            case Attempt():
                inflight.attempt = instruction
                if inflight.state == "calling_policy":
                    self._queue.move(inflight, "executing")
                self._prepare(inflight, instruction)
            case CallPolicy(question):
                about = inflight.runnable if inflight.attempt is None else inflight.attempt.runnable
                assert about is not None  # noqa: S101
                inflight.attempt = Attempt(policy_call(about, question), None)
                self._queue.move(inflight, "calling_policy")
                self._take_place(inflight)
            case Pause(seconds, after, unless, _):
                if after is not None:
                    self._note_failure(inflight, after)
                    if inflight.has_ended:  # a listener has cancelled the run
                        return
                waits: list[Any] = [self._later(seconds, self._resumed, inflight)]
                if unless is not None:
                    queues, worker = self._dispatcher.limit_queues, self._worker
                    waits.append(queues.wait(unless, worker, inflight, self._resumed, one_by_one=False))
                inflight.awaited_until = self._dispatcher.monotonic() + seconds
                self._wait(inflight, instruction, waits)
            case Await(key, seconds):
                timers: list[Any] = [self._dispatcher.limit_queues.wait(key, self._worker, inflight, self._resumed)]
                if seconds is not None:
                    timers.append(self._later(seconds, self._resumed, inflight))
                self._wait(inflight, instruction, timers)

    def _prepare(self, inflight: InFlight, attempt: Attempt) -> None:
        """Start the attempt; a further one of a durable step only once the log says so."""
        memory, key, number = self._worker.run.memory, inflight.activation.key, attempt.runnable.attempt
        inflight.policy = self._rules.of(inflight.activation)[0]
        if inflight.is_durable and (memory.dispatched or {}).get(key, 0) < number:
            record(memory, ev.RunnableDispatched(len(memory.log) + 1, *key, number))
            inflight.needed = len(memory.log)
            self._worker.queue_again(inflight)
        else:
            self._take_place(inflight)

    def _note_failure(self, inflight: InFlight, after: ev.AttemptFailed) -> None:
        worker = self._worker
        memory = worker.run.memory
        record(memory, replace(after, seq=len(memory.log) + 1))
        worker.report.retrying(after, self._dispatcher.clock.time())
        if inflight.is_durable:  # its wait and its attempts outlive this process, whatever the strategy
            worker.checkpoint()
        else:
            worker.hand_over()

    def reconsider(self, inflight: InFlight) -> None:
        """The policies have changed: if *flight* waits for time or a limit, let it begin again under its new one."""
        policy, inflight.is_guarded = self._rules.of(inflight.activation)
        is_waiting = inflight.awaited is not None  # or has waited, and is queued
        if inflight.instructions is None or not is_waiting or policy == inflight.policy:
            if not inflight.is_started:
                inflight.policy = policy
                if inflight.instructions is None:
                    self._note_delay(inflight)
            return
        inflight.policy = policy
        self._dispatcher.withdraw(inflight)
        inflight.instructions.close()
        key = inflight.activation.key
        if key in (self._worker.run.memory.attempts or {}):
            inflight.begun = self._rules.begun(key)
        self._note_delay(inflight)
        inflight.instructions = inflight.attempt = inflight.awaited = None
        inflight.priority = 0 if policy is None else policy.priority
        if inflight.state == "waiting":
            self._queue.move(inflight, "queued")

    def _wait(self, inflight: InFlight, awaited: Pause | Await, timers: list[Any]) -> None:
        if self._worker.is_stopping:
            for timer in timers:
                timer.cancel()
            self._worker.drop(inflight)
            return
        inflight.awaited = awaited
        for timer in timers:
            inflight.arm(timer)
        self._queue.move(inflight, "waiting")

    def _resumed(self, inflight: InFlight) -> None:
        """What *flight* waited for has come."""
        if inflight.state != "waiting" or self._worker.is_stopping:
            return
        inflight.disarm()
        self._queue.move(inflight, "queued")
        self._worker.turn()

    # -- with an executor ------------------------------------------------------------------------

    def _take_place(self, inflight: InFlight) -> None:
        """Hand the attempt to its executor."""
        is_call = inflight.state == "calling_policy"
        if self._worker.is_stopping and (self._dispatcher.is_closing or not is_call):
            self._worker.drop(inflight)
            return
        node, policy = inflight.activation.node, inflight.policy
        if is_call:
            inflight.executor = "inline" if self._worker.options.executor == "inline" else "thread"
        elif node.is_async:
            inflight.executor = "async"
        elif node.is_test or node.is_fan:
            inflight.executor = "inline"
        else:
            inflight.executor = (policy.executor if policy is not None else None) or self._worker.options.executor
        attempt = inflight.attempt
        if attempt is not None and attempt.until is not None:
            remaining = attempt.until - self._dispatcher.clock.time()
            if remaining <= 0:  # the log took too long
                self.landed(inflight, _failed(attempt.runnable, StepTimeout(node.name, attempt.timeout or 0.0)))
                return
            inflight.started = self._dispatcher.monotonic()
            inflight.arm(self._later(remaining, self._timed_out, inflight, attempt))
        self._dispatcher.submit(self._worker, inflight)

    def taking_off(self, inflight: InFlight) -> None:
        """The attempt is about to start."""
        attempt, policy, dispatcher = inflight.attempt, inflight.policy, self._dispatcher
        assert attempt is not None  # noqa: S101
        inflight.disarm()
        if inflight.queue_timer is not None:
            inflight.queue_timer.cancel()
            inflight.queue_timer = None
        attempt.runnable.family, inflight.children = dispatcher.family, None
        now = inflight.started = inflight.last_sign = dispatcher.monotonic()
        if inflight.state == "calling_policy":
            return
        inflight.runnable = attempt.runnable
        if attempt.begins is not None:
            attempt.begins()
        if attempt.timeout is not None:
            inflight.arm(self._later(self._left(inflight, attempt), self._timed_out, inflight, attempt))
        if policy is not None and policy.heartbeat is not None:
            attempt.runnable.pulse = lambda: _beat(inflight, dispatcher.monotonic)
            inflight.arm(self._later(policy.heartbeat, self._listened, inflight, now))
        self._worker.report.started(inflight, dispatcher.clock.time)

    def landed(self, inflight: InFlight, outcome: Outcome) -> None:
        """The attempt has ended."""
        if inflight.timers:
            inflight.disarm()
        if outcome.error is not None and isinstance(outcome.error, RunnerClosed) and self._dispatcher.is_closing:
            self._worker.drop(inflight)  # it needed the runner, a child for instance: closing burns no attempt
            return
        if inflight.state == "calling_policy":
            assert inflight.attempt is not None  # noqa: S101
            answer = cast("PolicyCall", inflight.attempt.runnable).answer
            self._go_on(inflight, Returned(answer) if outcome.error is None else Raised(outcome.error))
            return
        if inflight.executor == "inline" and inflight.attempt is not None:
            outcome = _in_time(inflight.attempt, outcome)
        inflight.spent_ns += outcome.duration_ns
        is_complete = outcome.status == "completed"
        if bus.runnable_stop or not is_complete:
            self._worker.report.ended(inflight, outcome)
            if inflight.state == "done":  # a listener has cancelled the run
                return
        if inflight.instructions is not None:
            error = RuntimeError("failed") if outcome.error is None else outcome.error
            self._go_on(inflight, Returned(outcome.result, outcome.added) if is_complete else Raised(error))
        elif is_complete:
            self._finish(inflight, outcome)
        else:
            inflight.policy = policy = self._rules.of(inflight.activation)[0]
            if policy is None:
                self._finish(inflight, outcome)
            else:
                self._start_instructions(inflight, policy, failed=outcome.error, begun=inflight.begun)
                self._go_on(inflight, None)

    def _finish(self, inflight: InFlight, outcome: Outcome) -> None:
        if inflight.instructions is not None:
            inflight.instructions.close()
        if outcome.duration_ns != inflight.spent_ns:
            outcome = replace(outcome, duration_ns=inflight.spent_ns)
        self._worker.finish(inflight, outcome)

    # -- time ------------------------------------------------------------------------------------

    def await_start(self, inflight: InFlight) -> bool:
        """
        Return whether *flight* has to wait before its first attempt, of which the log knows since when.

        Fail it if it has not started in time, counted from when it may; unless it had started before.
        """
        policy = inflight.policy
        if policy is None or (inflight.begun is not None and inflight.begun.attempts):
            return False
        wait = 0.0
        if policy.delay or policy.scheduled_at is not None:
            self._note_delay(inflight)
            since = 0.0 if inflight.begun is None else inflight.begun.since
            wait = first_wait(policy, now=self._dispatcher.clock.time(), since=since)
        if policy.queue_timeout is not None:
            inflight.ready_since += wait
            inflight.queue_timer = self._later(wait + policy.queue_timeout, self._queued_too_long, inflight)
        return wait > 0

    def _note_delay(self, inflight: InFlight) -> None:
        """Note since when *flight* waits, so that a delay does not start over with the process."""
        memory, key, policy = self._worker.run.memory, inflight.activation.key, inflight.policy
        if policy is None or not policy.delay or inflight.begun is not None:
            return
        if key in memory.ready and key not in (memory.dispatched or {}):
            record(memory, ev.RunnableDelayed(len(memory.log) + 1, *key, self._dispatcher.clock.time()))
            inflight.begun, inflight.needed = self._rules.begun(key), len(memory.log)

    def _later(self, seconds: float, call: Callable[..., object], *args: object) -> Any:
        return self._dispatcher.later(seconds, self._worker, call, *args)

    def _timed_out(self, inflight: InFlight, attempt: Attempt, lost: float = 0.0, given: float = 0.0) -> None:
        """
        The time of the attempt is up, unless it spent some of it waiting for a worker, or the loop was held.

        What has ended and was not collected yet has no start any more (``_left``), and is never ended here.  If the
        timer came late, the loop was held, and the attempt goes on for a while: the sum of that is *given*, and *lost*
        is for how long the loop was held.
        """
        left = self._left(inflight, attempt) + lost + given
        if left > _EARLY:
            inflight.arm(self._later(left, self._timed_out, inflight, attempt, lost, given))
            return
        more = given_back(-left, timeout=attempt.timeout or 0.0, given=given)
        if more:
            inflight.arm(self._later(more, self._timed_out, inflight, attempt, lost - left, given + more))
            return
        self._cut_short(inflight, StepTimeout(inflight.activation.node.name, attempt.timeout or 0.0))

    def _left(self, inflight: InFlight, attempt: Attempt) -> float:
        """Return how long the attempt may go on: a timeout counts from when it began to run, a deadline does not."""
        began, left = self._dispatcher.started(inflight), attempt.timeout or math.inf
        if began is not None:
            left -= self._dispatcher.monotonic() - began
        return left if attempt.until is None else min(left, attempt.until - self._dispatcher.clock.time())

    def _listened(self, inflight: InFlight, since: float, given: float = 0.0) -> None:
        """
        See whether the attempt has given a sign of life since then.

        A coroutine cannot give one while the loop is held: as :meth:`_timed_out`, it is then *given* more time.
        """
        policy = self._rules.of(inflight.activation)[0]
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
            inflight.arm(self._later(wait, self._listened, inflight, last, given))
            return
        more = given_back(now - last - given - policy.heartbeat, timeout=policy.heartbeat, given=given)
        if more:
            inflight.arm(self._later(more, self._listened, inflight, last, given + more))
        else:
            self._cut_short(inflight, SilentStep(inflight.activation.node.name, policy.heartbeat))

    def _queued_too_long(self, inflight: InFlight) -> None:
        """The runnable has waited to be started for as long as it may."""
        policy = self._rules.of(inflight.activation)[0]
        if inflight.has_ended or policy is None or policy.queue_timeout is None:
            return
        now = self._dispatcher.monotonic()
        if not has_queued_too_long(policy, ready_since=inflight.ready_since, now=now + _EARLY):
            remaining = inflight.ready_since + policy.queue_timeout - now  # it was changed
            inflight.queue_timer = self._later(remaining, self._queued_too_long, inflight)
            return
        worker = self._worker
        self._queue.move(inflight, "executing")
        runnable = inflight.runnable = inflight.runnable or bind(
            inflight.activation, worker.run.memory, worker.run.context
        )
        inflight.attempt = inflight.awaited = None
        if inflight.instructions is not None:  # it is about a limit that is no longer waited for
            inflight.instructions.close()
            inflight.instructions = None
        self.landed(inflight, _failed(runnable, QueueTimeout(runnable.component, policy.queue_timeout)))
        worker.turn()

    def _cut_short(self, inflight: InFlight, error: StepTimeout) -> None:
        """Stop the attempt that is under way."""
        runnable = inflight.runnable
        assert runnable is not None  # noqa: S101
        self._dispatcher.withdraw(inflight)
        spent = self._dispatcher.monotonic() - inflight.started
        self._worker.report.timed_out(inflight, spent, error)
        self.landed(inflight, _failed(runnable, error, spent))
        self._worker.turn()

    def give_up(self, inflight: InFlight) -> None:
        """Lose interest in *flight*, and leave the limits that it was let through."""
        self._dispatcher.withdraw(inflight)
        if inflight.instructions is not None:
            inflight.instructions.close()


def _beat(inflight: InFlight, monotonic: Callable[[], float]) -> None:
    inflight.last_sign = monotonic()


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

"""
Takes the runnables of one run from their slot to their outcome, as their policies say.

    it has a slot ──► its executor has the attempt ──► the attempt has ended ──► its outcome is in the run
          ▲                                                     │
          └───────── a pause, a limit, or the log ◄─────────────┘   (as its policy says)

A runnable without a policy that matters is handed to its executor directly.  For any other, the policy driver
(``weft.policy.driver``) yields the next instruction, and receives the result of each.
"""

from __future__ import annotations

from functools import partial
from inspect import GEN_RUNNING, getgeneratorstate
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from weft.calling import is_ctrl_c
from weft.core import events as ev
from weft.core.failure import PROPAGATES
from weft.core.fold.fold import record
from weft.core.run.runnable import Outcome, bind
from weft.errors import QueueTimeout, RunnerClosed, StepTimeout
from weft.log import encode_once, needs_encoding
from weft.log.module_names import kind_of
from weft.log.value_encoder import SHORT
from weft.policy.decision import first_wait
from weft.policy.driver import (
    Attempt,
    Await,
    AwaitTurn,
    Begun,
    CallPolicy,
    Conditions,
    Overtaken,
    Pause,
    Raised,
    Reply,
    Returned,
    Value,
    conduct,
)
from weft.policy.policy import Policy
from weft.policy.run_policies import RunPolicies
from weft.runner.execution.chain_progress import begin_chain, chain_ended, end_chain
from weft.runner.execution.chains import chain_for
from weft.runner.execution.checked_arguments import checked
from weft.runner.execution.dispatcher import QUEUE, Dispatcher
from weft.runner.execution.external import announce_attempt, has_been_completed, token_for
from weft.runner.execution.inflight import InFlight
from weft.runner.execution.large_values import PendingResult, encode_result
from weft.runner.execution.outcomes import failed, in_time
from weft.runner.execution.policy_call import PolicyCall, policy_call
from weft.runner.execution.transactions import commits, is_repeated, open_for
from weft.telemetry import bus

if TYPE_CHECKING:
    from weft.runner.execution.worker import Worker

_NO_POLICY = Policy()


class Attempts:
    """The attempts of one worker: carries out the instructions of policy drivers, and reports the results to them."""

    __slots__ = ("_dispatcher", "_policies", "_queue", "_worker")

    def __init__(self, worker: Worker, dispatcher: Dispatcher, policies: RunPolicies) -> None:
        self._worker, self._dispatcher, self._policies, self._queue = worker, dispatcher, policies, worker.queue

    # -- with a slot -----------------------------------------------------------------------------

    def proceed(self, inflight: InFlight) -> None:
        """Continue with *inflight*, which has a slot: begin, ask its driver after a wait, or make its attempt."""
        if inflight.awaited is not None:
            inflight.awaited = None
            self._go_on(inflight, None)
            return
        if inflight.attempt is not None:
            if inflight.calls_policy:
                self._queue.move(inflight, "calling_policy")
            else:
                inflight.executor = self._executor(inflight)
            self._hand_over(inflight, inflight.attempt)
            return
        worker, policy = self._worker, inflight.policy
        runnable = bind(inflight.activation, worker.run.memory, worker.run.context)
        if worker.options.check_arguments:
            runnable = checked(runnable)
        inflight.runnable = runnable
        if inflight.outside is not None:
            error, inflight.outside = inflight.outside, None
            self._start_driver(inflight, policy or _NO_POLICY, failed=error, begun=inflight.begun)
            self._go_on(inflight, None)
            return
        # A driver is needed if the policy matters before an attempt fails, or if there were attempts before.
        if inflight.is_guarded or inflight.begun is not None or runnable.deadline is not None:
            self._start_driver(inflight, policy or _NO_POLICY, begun=inflight.begun or Begun())
            self._go_on(inflight, None)
            return
        inflight.executor = self._executor(inflight)
        if policy is None and worker.at_once and not self._queue.barrier:
            worker.at_once -= 1
            queue = self._dispatcher.queues[inflight.executor]
            is_held = queue.may_start is not None and not queue.may_start()
            if queue.run is not None and not runnable.node.is_async and not queue.line and not is_held:
                runnable.runner = self._dispatcher.step_runner
                if bus.runnable_start or worker.options.hooks is not None:
                    worker.report.started(inflight, self._dispatcher)
                if inflight.state == "done":  # a listener has cancelled the run
                    return
                outcome = queue.run(runnable)
                if not inflight.has_ended:  # else it has cancelled its own run
                    self.ended(inflight, outcome)
                return
        attempt = inflight.attempt = Attempt(runnable, None)
        if (scheduler := self._dispatcher.scheduler) is not None and policy is None:
            executor = self._dispatcher.queues[inflight.executor].executor
            if getattr(executor, "in_process", False):
                inflight.chain = chain_for(worker, scheduler, inflight.activation, runnable)
        self._hand_over(inflight, attempt)

    def _executor(self, inflight: InFlight) -> str:
        """Return the name of the executor that *inflight* is for."""
        node, policy = inflight.activation.node, inflight.policy
        spreads = self._dispatcher.spreads
        if policy is not None and policy.queue is not None and spreads is not None and spreads(self._worker, inflight):
            return QUEUE
        if node.is_async:
            return "async"
        if node.is_test or node.is_fan:
            return "inline"
        if node.transaction:  # it cannot cross to another process, and its calls wait for the event loop
            return "thread"
        return (policy.executor if policy is not None else None) or self._worker.options.executor

    def _hand_over(self, inflight: InFlight, attempt: Attempt) -> None:
        """Hand the *attempt* to its executor."""
        worker = self._worker
        if worker.life != "driving" and (self._dispatcher.is_closing or inflight.state != "calling_policy"):
            self.drop(inflight)
            return
        if attempt.until is not None:
            remaining = attempt.until - self._dispatcher.clock.time()
            if remaining <= 0:  # the log took too long
                error = StepTimeout(inflight.activation.node.name, attempt.timeout or 0.0)
                self.ended(inflight, failed(attempt.runnable, error))
                return
            self._dispatcher.timeouts.watch_line(worker, inflight, attempt, remaining)
        if inflight.activation.node.transaction and inflight.state != "calling_policy":
            open_for(worker, inflight, attempt)
        self._dispatcher.queues[inflight.executor].submit(worker, inflight, attempt)

    def make_again(self, inflight: InFlight) -> None:
        """Make the last attempt of *inflight* again, without counting it: its transaction was lost."""
        if inflight.handle is not None:
            self._worker.report.abandoned(inflight, self._dispatcher.monotonic())
        assert inflight.attempt is not None  # noqa: S101
        self._hand_over(inflight, inflight.attempt)

    # -- what the driver says --------------------------------------------------------------------

    def _start_driver(
        self, inflight: InFlight, policy: Policy, *, failed: BaseException | None = None, begun: Begun | None = None
    ) -> None:
        runnable = inflight.runnable
        assert runnable is not None  # noqa: S101

        def current() -> Policy:
            return self._policies.of(inflight.activation)[0] or _NO_POLICY

        dispatcher = self._dispatcher
        if runnable.deadline is not None or policy.deadline is not None:
            since = (begun.since if begun else None) or dispatcher.clock.time()
            own = None if policy.deadline is None else since + policy.deadline
            dispatcher.dangers.starts(self._worker, inflight, since, own)
        told = partial(self._worker.report.falling_back, inflight)
        given = Conditions(
            *(dispatcher.clock.time, dispatcher.counters, dispatcher.draw, runnable.deadline, current, told),
            monotonic=dispatcher.monotonic,
        )
        try:
            inflight.instructions = conduct(runnable, policy, given, failed, begun=begun or Begun())
        except PROPAGATES as error:  # there is no key: that fails the attempts, and does not end the program
            if is_ctrl_c(error):
                raise
            runnable = inflight.runnable = replace(runnable, broken=error, own_key="")
            inflight.instructions = conduct(runnable, policy, given, failed, begun=begun or Begun())

    def _go_on(self, inflight: InFlight, reply: Reply) -> None:
        """Tell the driver of *inflight* the result of its last instruction, and carry out the next one."""
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
            self._finish(inflight, failed(inflight.runnable, error))
            return
        if inflight.state == "done":  # a listener has cancelled the run
            instructions.close()
            return
        match instruction:
            case Attempt():
                inflight.attempt = instruction
                if inflight.state == "calling_policy":
                    self._queue.move(inflight, "executing")
                self._prepare(inflight, instruction)
            case CallPolicy(question, until):
                about = inflight.runnable if inflight.attempt is None else inflight.attempt.runnable
                assert about is not None  # noqa: S101
                left = None if until is None else max(0.0, until - self._dispatcher.clock.time())
                attempt = inflight.attempt = Attempt(policy_call(about, question), left, until)
                inflight.executor = "inline" if self._worker.options.executor == "inline" else "thread"
                self._queue.move(inflight, "calling_policy")
                self._hand_over(inflight, attempt)
            case Pause() | Await() | AwaitTurn():
                self._wait(inflight, instruction)

    def _prepare(self, inflight: InFlight, attempt: Attempt) -> None:
        """Make the *attempt*; a further one of a durable step only once the log says so."""
        memory, key, number = self._worker.run.memory, inflight.activation.key, attempt.runnable.attempt
        inflight.policy = self._policies.of(inflight.activation)[0]
        if inflight.is_durable and (memory.dispatched or {}).get(key, 0) < number:
            announce_attempt(self._worker, inflight, number, inflight.policy or _NO_POLICY)
            attempt.runnable.token = token_for(self._worker, inflight)
            inflight.needed = len(memory.log)
            self._queue.move(inflight, "queued")
            self._worker.write_if_due()
        else:
            attempt.runnable.token = token_for(self._worker, inflight)
            inflight.executor = self._executor(inflight)
            self._hand_over(inflight, attempt)

    # -- waiting ---------------------------------------------------------------------------------

    def _wait(self, inflight: InFlight, awaited: Pause | Await | AwaitTurn) -> None:
        """Free the slot of *inflight* while it waits for time or a limit; the caller starts the next runnable."""
        if isinstance(awaited, Pause) and awaited.after is not None:
            self._note_failure(inflight, awaited.after)
            if inflight.state == "done":  # a listener has cancelled the run
                return
        if not self._worker.starts:
            self.drop(inflight)
            return
        inflight.awaited, inflight.waiting_since = awaited, self._dispatcher.monotonic()
        if not isinstance(awaited, Await):
            inflight.called = None
        self._queue.move(inflight, "waiting")
        dispatcher, worker, seconds = self._dispatcher, self._worker, awaited.seconds
        if seconds is not None:
            inflight.awaited_until = dispatcher.monotonic() + seconds
            inflight.arm(dispatcher.timeouts.later(seconds, worker, self._resumed, inflight))
        if isinstance(awaited, AwaitTurn):
            inflight.executor = self._executor(inflight)
            inflight.arm(dispatcher.rate_queues.wait(awaited, worker, inflight, self._resumed))
        elif isinstance(awaited, Await):
            inflight.arm(dispatcher.limit_queues.wait(awaited.key, worker, inflight, self._resumed))

    def _note_failure(self, inflight: InFlight, after: ev.AttemptFailed) -> None:
        worker = self._worker
        memory = worker.run.memory
        now, failed = self._dispatcher.clock.time(), inflight.failed
        spent = 0 if failed is None else failed.duration_ns
        record(memory, replace(after, seq=len(memory.log) + 1, at=now, duration_ns=spent))
        if inflight.receipt is not None:
            worker.unsaved.end_task(inflight.receipt)
            inflight.receipt = None
        worker.report.retrying(inflight, after, now)
        if inflight.is_durable:  # its wait and its attempts outlive this process, whatever the strategy
            worker.checkpoint()
        else:
            worker.write_if_due()

    def _resumed(self, inflight: InFlight) -> None:
        """Queue *inflight* again: its wait is over."""
        if inflight.state != "waiting" or not self._worker.starts:
            return
        inflight.disarm()
        inflight.end_wait(self._dispatcher.monotonic())
        self._queue.move(inflight, "queued")
        self._worker.turn()

    def reconsider(self, inflight: InFlight) -> None:
        """Let *inflight* begin again under its new policy, if that has changed and it waits for time or a limit."""
        if inflight.chain is not None:
            inflight.chain.is_halted = True
        policy, inflight.is_guarded = self._policies.of(inflight.activation)
        has_waited = inflight.awaited is not None  # and does still, or is queued
        if inflight.instructions is None or not has_waited or policy == inflight.policy:
            if not inflight.is_started:
                inflight.policy = policy
                if inflight.instructions is None:
                    self._note_delay(inflight)
            return
        inflight.policy = policy
        inflight.disarm()
        inflight.end_wait(self._dispatcher.monotonic())
        inflight.instructions.close()
        key = inflight.activation.key
        if key in (self._worker.run.memory.attempts or {}):
            inflight.begun = self._policies.begun(key)
        self._note_delay(inflight)
        inflight.instructions = inflight.attempt = inflight.awaited = None
        inflight.priority = 0 if policy is None else policy.priority
        if inflight.state == "waiting":
            self._queue.move(inflight, "queued")

    def await_start(self, inflight: InFlight) -> bool:
        """
        Return whether *inflight* has to wait before its first attempt, of which the log knows since when.

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
            self._dispatcher.timeouts.watch_start(self._worker, inflight, wait + policy.queue_timeout)
        return wait > 0

    def _note_delay(self, inflight: InFlight) -> None:
        """Note since when *inflight* waits, so that a delay does not start over with the process."""
        memory, key, policy = self._worker.run.memory, inflight.activation.key, inflight.policy
        if policy is None or not policy.delay or inflight.begun is not None:
            return
        if key in memory.ready and key not in (memory.dispatched or {}):
            record(memory, ev.RunnableDelayed(len(memory.log) + 1, *key, self._dispatcher.clock.time()))
            inflight.begun, inflight.needed = self._policies.begun(key), len(memory.log)

    # -- what becomes of an attempt --------------------------------------------------------------

    def held(self, inflight: InFlight) -> None:
        """Move *inflight* from the queue of its executor back to that of its run: a policy holds the run."""
        inflight.disarm()
        inflight.chain = None
        self._queue.move(inflight, "queued")

    def overtaken(self, inflight: InFlight) -> None:
        """Let *inflight* wait again: another attempt has taken its turn while it was queued for its executor."""
        self._go_on(inflight, Overtaken())
        self._dispatcher.loop.call_soon(self._dispatcher.guard, self._worker, self._worker.turn)  # it has left its slot

    def starting(self, inflight: InFlight, attempt: Attempt) -> None:
        """The *attempt* is about to start."""
        policy, dispatcher = inflight.policy, self._dispatcher
        if inflight.timers:
            inflight.disarm()
        if inflight.queue_timer is not None and inflight.executor != QUEUE:  # else it waits for a worker of the fleet
            inflight.end_queue_timer()
        attempt.runnable.runner, inflight.children = dispatcher.step_runner, None
        inflight.started = inflight.last_sign = dispatcher.monotonic()
        if inflight.state == "calling_policy":
            if attempt.timeout is not None:
                dispatcher.timeouts.watch(self._worker, inflight, attempt, None)
            return
        inflight.runnable = attempt.runnable
        if inflight.chain is not None:
            begin_chain(self._worker, inflight, inflight.chain)
        if policy is not None or attempt.timeout is not None:
            dispatcher.timeouts.watch(self._worker, inflight, attempt, policy)
        if bus.runnable_start or self._worker.options.hooks is not None:
            self._worker.report.started(inflight, dispatcher)

    def ended(self, inflight: InFlight, outcome: Outcome) -> None:
        """The attempt has ended: encode its value, which is part of the attempt, and go on with its outcome."""
        if inflight.state == "done":  # it was given up meanwhile
            return
        if inflight.timers:
            inflight.disarm()
        if inflight.queue_timer is not None:
            inflight.end_queue_timer()
        if outcome.receipt is not None:
            inflight.receipt = outcome.receipt
        if inflight.chain is not None:
            chain_ended(self._worker, inflight, inflight.chain, outcome)
            return
        if inflight.policy is not None and has_been_completed(self._worker, inflight):
            self.drop(inflight)
            return
        if outcome.error is not None and isinstance(outcome.error, RunnerClosed) and self._dispatcher.is_closing:
            self.drop(inflight)  # it needed the runner, a child for instance: closing does not cost an attempt
            return
        if inflight.transaction is not None and outcome.status != "completed" and is_repeated(self._worker, inflight):
            return
        made = outcome.result
        if inflight.state == "calling_policy":
            answer = _answer(inflight)
            made = answer.value if isinstance(answer, Value) else None
        elif inflight.executor == "inline" and inflight.attempt is not None:
            outcome = in_time(inflight.attempt, outcome)
        if kind_of(made) not in SHORT and outcome.status == "completed" and needs_encoding(made):
            node = inflight.activation.node
            if not node.is_test:
                inflight.result = PendingResult(outcome, encode_once(made, node.name))
                encode_result(self._worker, inflight)  # which goes on with the outcome
                return
        self.go_on_with(inflight, outcome)

    def go_on_with(self, inflight: InFlight, outcome: Outcome) -> None:
        """Report the *outcome* of the attempt, whose value is encoded, and do as the policy says."""
        if inflight.state == "calling_policy":
            self._go_on(inflight, Returned(_answer(inflight)) if outcome.error is None else Raised(outcome.error))
            return
        if inflight.transaction is not None and commits(self._worker, inflight, outcome):
            return
        inflight.spent_ns += outcome.duration_ns
        is_complete = outcome.status == "completed"
        if not is_complete:
            inflight.failed = outcome
        elif bus.runnable_stop:
            self._worker.report.ended(inflight, outcome)
            if inflight.state == "done":  # a listener has cancelled the run
                return
        if inflight.instructions is not None:
            error = RuntimeError("failed") if outcome.error is None else outcome.error
            spent = outcome.duration_ns
            if is_complete and inflight.attempt is not None and inflight.attempt.until is not None:
                self._dispatcher.dangers.took(self._worker, inflight, self._dispatcher.monotonic() - inflight.started)
            self._go_on(inflight, Returned(outcome.result, outcome.added, spent) if is_complete else Raised(error))
        elif is_complete:
            self._finish(inflight, outcome)
        else:
            inflight.policy = policy = self._policies.of(inflight.activation)[0]
            if policy is None:
                self._finish(inflight, outcome)
            else:
                self._start_driver(inflight, policy, failed=outcome.error, begun=inflight.begun)
                self._go_on(inflight, None)

    def cut_short(self, inflight: InFlight, error: StepTimeout) -> None:
        """Stop the attempt, which has failed with *error*."""
        runnable = inflight.runnable
        assert runnable is not None  # noqa: S101
        self._dispatcher.withdraw(inflight)
        spent = self._dispatcher.monotonic() - inflight.started
        if inflight.state != "calling_policy":
            self._worker.report.timed_out(inflight, spent, error)
        if inflight.state == "done":  # a listener has cancelled the run
            return
        self.ended(inflight, failed(runnable, error, spent))
        self._worker.turn()

    def not_started(self, inflight: InFlight, seconds: float) -> None:
        """Fail *inflight*, which has waited here, for a limit or for its executor, for longer than *seconds*."""
        worker = self._worker
        inflight.end_wait(self._dispatcher.monotonic())
        self._queue.move(inflight, "executing")
        runnable = inflight.runnable or bind(inflight.activation, worker.run.memory, worker.run.context)
        inflight.runnable, inflight.attempt, inflight.awaited = runnable, None, None
        if inflight.instructions is not None:  # it is about a limit that is no longer waited for
            inflight.instructions.close()
            inflight.instructions = None
        self.ended(inflight, failed(runnable, QueueTimeout(runnable.component, seconds)))
        worker.turn()

    def _finish(self, inflight: InFlight, outcome: Outcome) -> None:
        if inflight.state == "done":  # a listener has cancelled the run
            return
        if inflight.instructions is not None:
            inflight.instructions.close()
        if outcome.status not in ("completed", "open"):
            self._worker.report.gave_up(inflight, outcome)
            if inflight.has_ended:  # a listener has cancelled the run
                return
        if outcome.duration_ns != inflight.spent_ns:
            outcome = replace(outcome, duration_ns=inflight.spent_ns)
        self._worker.finish(inflight, outcome)

    def drop(self, inflight: InFlight) -> None:
        """Abandon *inflight*, which would have to wait: the run is being stopped."""
        self._queue.move(inflight, "done")
        self.give_up(inflight)
        if self._worker.observer is not None:
            self._worker.observer(self._worker)

    def give_up(self, inflight: InFlight) -> None:
        """Abandon *inflight*, and release the limits that had admitted it."""
        self._dispatcher.withdraw(inflight, leave=not self._worker.starts)
        if inflight.transaction is not None:
            inflight.transaction.give_up()
        if inflight.chain is not None:
            end_chain(self._worker, inflight, inflight.chain)
        if inflight.handle is not None:
            self._worker.report.abandoned(inflight, self._dispatcher.monotonic())
        instructions = inflight.instructions
        if instructions is not None and getgeneratorstate(instructions) != GEN_RUNNING:  # else it is closed later
            instructions.close()


def _answer(inflight: InFlight) -> Any:
    """Return the value that the function of the policy returned."""
    assert inflight.attempt is not None  # noqa: S101
    return cast("PolicyCall", inflight.attempt.runnable).answer

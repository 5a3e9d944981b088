"""
Verifies, at the end of a simulation, the logs of its runs against the attempts that were made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from weft.core import events as ev
from weft.core.components.saga import Saga
from weft.core.fold.fold import record
from weft.core.run.run import Run
from weft.core.run.runnable import bind
from weft.log import decode, encode
from weft.testing.simulation.attempt_log import AttemptLog, Execution
from weft.testing.simulation.children import Family, Stored, doomed
from weft.testing.simulation.outcomes import REACHED, differences
from weft.testing.simulation.policy_calls import misled
from weft.testing.simulation.scenario import TIGHT, Scenario, Trial

_EARLY = 1e-3
"""How many seconds too early a timer may fire."""
_UNTRIED = ("weft.errors.DeadlineExceeded", "weft.errors.CircuitOpen", "weft.errors.QueueTimeout")
"""The errors of runnables that were never attempted."""


def examine(stored: Stored, trial: Trial, scenario: Scenario, attempts: AttemptLog, *, is_cancelled: bool) -> list[str]:
    """Return what is wrong with a run, which should be cancelled or have done everything."""
    record, run = stored.record, stored.run
    problems: list[str] = []
    if record.owner is not None:
        problems.append(f"still owned by {record.owner}")
    wanted = {"cancelled"} if is_cancelled else REACHED if _finishes(run, scenario) else {"idle"}
    if record.status not in wanted:
        problems.append(f"its status is {record.status!r} ({record.reason}), not {' or '.join(sorted(wanted))}")
    if is_cancelled:
        return [*problems, *_not_undone(run)]
    problems += differences(record, run)
    if run.is_runnable:
        problems.append(f"something is left to do: {run.prepare()}")
    is_forsaken = run.id not in scenario.runs and not run.memory.is_ending  # its parent was cancelled before it sent it
    if run.memory.received != len(trial.inputs) and not (is_forsaken and not run.memory.received):
        problems.append(f"it has had {run.memory.received} inputs of {len(trial.inputs)}")
    if trial.repairable and run.dead_letters:
        problems.append(f"dead letters are left: {run.dead_letters}")
    problems += _History(run, trial, scenario, attempts).problems()
    if not problems and scenario.deadline != TIGHT:
        problems += trial.check(run)
    return problems


def _not_undone(run: Run) -> list[str]:
    """Return which transactions of *run*, which was cancelled so that it is undone, were not compensated."""
    log = run.log()
    place = next((event.seq for event in log if isinstance(event, ev.RunCancelled) and event.undo), None)
    if place is None or not isinstance(log[0], ev.WorkflowDefined):
        return []
    ended = {
        (event.component, event.inputs)
        for event in log[place:]
        if isinstance(event, ev.ReactionOccurred | ev.RunnableSkipped)
    }
    problems: list[str] = []
    for component, inputs in Run.from_log(log[: place - 1], context=run.context).memory.open_all():
        owner, _, part = component.rpartition(".")
        saga = run.workflow.components.get(owner)
        if not isinstance(saga, Saga) or part not in saga.deeds:
            continue
        done = list(saga.deeds.values())[: list(saga.deeds).index(part)]
        for deed in (each for each in done if each.undo is not None):
            name = f"{owner}.{deed.undo_name}"
            if not any(other == name and known[: len(inputs)] == inputs for other, known in ended):
                problems.append(f"{name} has not undone what was done at {inputs} when the run was cancelled")
    return problems


def _finishes(run: Run, scenario: Scenario) -> bool:
    """Return whether *run* should have finished: a client has told it to, or it was started so, as a child is."""
    is_root = run.id in scenario.runs
    return scenario.ends != "open" if is_root else any(getattr(event, "last", False) for event in run.log())


def examine_family(members: Family, root: str, trial: Trial, scenario: Scenario, attempts: AttemptLog) -> list[str]:
    """Return what is wrong with the run *root*, and with all runs that it has started."""
    closed = doomed(members, root, is_cancelled=root in attempts.cancelled) | (attempts.cancelled & members.keys())
    run = members[root].run
    problems = [f"{root}: {each}" for each in _examined(members[root], trial, scenario, attempts, closed)]
    if Run.from_log(decode(encode(run.log()), workflow=run.workflow), context=trial.context) != run:
        problems.append(f"{root}: it is not the fold of its log")
    child_trial, child_scenario = replace(trial, inputs=(None,), check=_unknown), replace(scenario, deadline=None)
    for name, member in members.items():
        if name != root:
            wrong = _examined(member, child_trial, child_scenario, attempts, closed)
            problems += [f"{name}: {each}" for each in wrong]
    if not problems and scenario.deadline != TIGHT and root not in closed:
        runs = {name: member.run for name, member in members.items()}
        problems += [f"{root}: {each}" for each in trial.check_children(runs[root], runs)]
    return problems


def _unknown(_: Run) -> tuple[str, ...]:
    """Find nothing: only the check of the parent knows what a child should produce."""
    return ()


def _examined(member: Stored, trial: Trial, scenario: Scenario, attempts: AttemptLog, closed: set[str]) -> list[str]:
    return examine(member, trial, scenario, attempts, is_cancelled=member.record.id in closed)


class _Life:
    """The history of one runnable in the log, from its first attempt to its end."""

    def __init__(self) -> None:
        self.failures: list[ev.AttemptFailed] = []
        """The attempts that have failed since it was last retried."""
        self.endings: list[Any] = []
        """How it ended; several times, if it was a dead letter that was retried."""
        self.chances: list[ev.RunnableRetried] = []


class _History:
    """Compares the log of a run with its attempts."""

    def __init__(self, run: Run, trial: Trial, scenario: Scenario, attempts: AttemptLog) -> None:
        self.run, self.trial, self.scenario, self.attempts = run, trial, scenario, attempts
        self.retries = scenario.retries if scenario.rules or not run.workflow.policies else None
        """How many retries there are; None if the workflow has its own policies."""
        self.lives: dict[str, _Life] = {}
        """By idempotency key."""
        self.undoes: set[str] = set()
        """The compensations, which no deadline of an input stops."""

    def problems(self) -> list[str]:
        found = list(self._read())
        for key, life in self.lives.items():
            if life.endings:
                found += self._ended(life, self.attempts.of(key))
                retries = None if self._may_be_untried(life.endings[-1]) else self.retries
                found += misled(self.attempts.asked(key), life.endings[-1], retries=retries)
        mine = [each for each in self.attempts.executions if each.run == self.run.id]
        strangers = {each.key for each in mine} - {key for key, life in self.lives.items() if life.endings}
        if strangers and self.scenario.strategy.lag == 0:
            names = sorted({each.component for each in mine if each.key in strangers})
            found.append(f"executed, and not in the log: {names}")
        given = sum(event.values is not None for life in self.lives.values() for event in life.chances)
        if given < self.attempts.amended[self.run.id]:
            found.append(
                f"{self.attempts.amended[self.run.id]} dead letters got another input, and the log has {given}"
            )
        return [*found, *self._late(mine)]

    def _read(self) -> Iterator[str]:
        """Go through the log; yield what is wrong with its attempts."""
        twin = Run(self.run.workflow, id=self.run.id, context=self.run.context)
        memory = twin.memory
        for event in self.run.log()[1:]:
            is_wait = (getattr(event, "component", ""), getattr(event, "inputs", ())) in (memory.waiting or ())
            if isinstance(event, (ev.AttemptFailed, ev.RunnableRetried, *ev.ENDINGS)) and not is_wait:
                letter = (memory.letters or {}).get((event.component, event.inputs))
                activation = memory.ready[event.component, event.inputs] if letter is None else letter.activation
                key = bind(activation, memory, twin.context).idempotency_key
                if activation.node.undoes:
                    self.undoes.add(event.component)
                yield from self._told(event, self.lives.setdefault(key, _Life()), key)
            record(memory, event)

    def _told(self, event: Any, life: _Life, key: str) -> Iterator[str]:
        name, failures = f"{event.component}{event.inputs}", life.failures
        match event:
            case ev.AttemptFailed():
                if failures and event.attempt <= failures[-1].attempt:
                    yield f"attempt {event.attempt} of {name} failed after attempt {failures[-1].attempt} had"
                for each in _after(self.attempts.of(key), event):
                    if not life.chances and each.began + _EARLY < event.retry_at:
                        early = event.retry_at - each.began
                        yield f"attempt {each.attempt} of {name} was {early:.3f} seconds too early"
                failures.append(event)
            case ev.RunnableRetried():
                life.chances.append(event)
                failures.clear()
            case _:
                life.endings.append(event)
                yield from self._counted(name, event, len(failures))

    def _counted(self, name: str, event: Any, failures: int) -> Iterator[str]:
        """Yield a problem if there were too many retries before the end, or too few before a failure."""
        if self.retries is None:
            return
        if failures > self.retries:
            yield f"{failures} attempts of {name} were retried, with {self.retries} retries"
        is_final = isinstance(event, ev.RunnableFailed) and event.error.type not in _UNTRIED
        is_final = is_final and not (event.component in self.trial.policies and self.scenario.deadline == TIGHT)
        if is_final and failures < self.retries:
            yield f"{name} was given up after {failures} of {self.retries} retries"

    def _is_retry(self, execution: Execution) -> bool:
        """Whether a retry that may have been lost in a crash explains *execution*: the log runs behind."""
        letter = (execution.run, execution.component, execution.inputs, execution.life)
        return self.scenario.strategy.lag != 0 and letter in self.attempts.retried

    def _ended(self, life: _Life, executions: list[Execution]) -> Iterator[str]:
        event = life.endings[-1]
        name = f"{event.component}{event.inputs}"
        may_be_untried = self._may_be_untried(event)
        if not executions:
            if not may_be_untried:
                yield f"{name} has ended and was never executed"
            return
        for ended, chance in zip(life.endings, [*life.chances, None], strict=False):
            until = float("inf") if chance is None else chance.seq
            late = [each for each in executions if ended.seq <= each.durable < until and not self._is_retry(each)]
            if late and (chance is None or self.scenario.strategy.lag == 0):
                yield f"{name} was executed in life {late[0].life}, when its outcome was durable"
        attempt = event.attempts if isinstance(event, ev.RunnableFailed | ev.RunnableSkipped) else event.attempt
        if executions[-1].attempt != attempt and not may_be_untried:
            yield f"{name} says attempt {attempt}, and the last one executed was {executions[-1].attempt}"
        policies = self.scenario.policies_of(event.component)
        is_mended = (
            event.component in self.trial.repairable and self.run.id in self.attempts.mended
        )  # perhaps not durably
        is_durable = policies and all(policy.execution_mode == "durable" for policy in policies)
        if is_durable and not life.chances and not is_mended:
            numbers = [each.attempt for each in executions]
            if numbers != sorted(set(numbers)):
                yield f"{name} is durable, and its attempts were numbered {numbers}"

    def _may_be_untried(self, event: Any) -> bool:
        """Return whether a policy alone, without an attempt, may have caused this ending."""
        is_limited = event.component in self.trial.losable or self.scenario.deadline == TIGHT
        rescued = event.component in self.trial.policies  # by a fallback, if it is too late for an attempt
        return is_limited and (rescued or isinstance(event, ev.RunnableFailed | ev.RunnableSkipped))

    def _late(self, executions: list[Execution]) -> Iterator[str]:
        """Yield the attempts that were started after a deadline: of their policy, or of all inputs."""
        given = [event for event in self.run.log() if isinstance(event, ev.InputReceived)]
        if self.scenario.deadline is not None and given and all(event.at is not None for event in given):
            last = max(event.at or 0.0 for event in given) + self.scenario.deadline
            for each in executions:
                if each.began > last + _EARLY and each.component not in self.undoes:
                    yield f"{each.component}{each.inputs} was started {each.began - last:.3f} seconds too late"
        for key, life in self.lives.items():
            for failed in life.failures:
                limits = [policy.deadline for policy in self.scenario.policies_of(failed.component)]
                ends = [failed.since + limit for limit in limits if limit is not None]
                if not ends or len(ends) < len(limits):
                    continue
                for each in _after(self.attempts.of(key), failed):
                    if each.began > max(ends) + _EARLY:
                        yield f"attempt {each.attempt} of {each.component} came after its deadline"


def _after(executions: list[Execution], failed: ev.AttemptFailed) -> list[Execution]:
    """Return the attempts after the one that *failed* according to the log; others of its number were lost."""
    numbers = [each.attempt for each in executions]
    if failed.attempt not in numbers:
        return []
    last = len(numbers) - 1 - numbers[::-1].index(failed.attempt)
    return executions[last + 1 :]

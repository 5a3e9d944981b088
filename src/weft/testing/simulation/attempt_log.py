"""
Records every attempt, lets some of them fail, and reports at once those that should not have begun.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

import msgspec

from weft.core import events as ev
from weft.core.lineage.history import PagedLog
from weft.core.run.runnable import Runnable
from weft.runner.durability.takeover import MOST, NO_PROGRESS
from weft.runner.execution.policy_call import PolicyCall
from weft.testing.simulation.committed import Committed
from weft.testing.simulation.executor import Ending, Late
from weft.testing.simulation.limit_checks import LimitChecks
from weft.testing.simulation.policy_calls import Question, question, repeated
from weft.testing.simulation.scenario import TIGHT, TIMEOUT, Scenario, Trial
from weft.typing import Address


class Flaky(Exception):
    """A step failed because the simulation drew it."""


class FlakyLate(Flaky, Late):
    """The same, after the step had done its work."""


class Execution(msgspec.Struct):
    """One attempt that was begun."""

    run: str
    component: str
    inputs: tuple[Address, ...]
    key: str
    """The idempotency key that is derived from its inputs."""
    own_key: str | None
    """The key of its policy, if that has one."""
    attempt: int
    life: int
    durable: int
    """How many events of its run were durable when it began."""
    began: float
    ending: Ending | None = None
    """None, if its process died first."""
    is_lost: bool = False
    """Whether its worker has crashed since."""
    token: str | None = None
    """The token that it handed out, if it is of an external step: then its return does not end the step."""


class AttemptLog:
    """Watches the executors of all processes; *seen* says what is durable of each run."""

    def __init__(
        self, dice: Random, trial: Trial, scenario: Scenario, seen: Committed, tell: Callable[[str], None]
    ) -> None:
        self._dice, self._scenario, self._seen, self._tell = dice, scenario, seen, tell
        self._patient = trial.patient
        self._repairable, self._breakable = trial.repairable, trial.repairable | trial.losable
        self._sagas = {name for name, component in trial.workflow.components.items() if component.kind == "saga"}
        nodes = trial.workflow.compiled.nodes
        self._compensations = {name for name, node in nodes.items() if getattr(node, "undoes", False)}
        self._limits = LimitChecks(scenario, but=trial.repairable)
        self.executions: list[Execution] = []
        self.problems: list[str] = []
        self._by_key: dict[str, list[Execution]] = {}
        self._last: tuple[Runnable | None, str] = (None, "")
        """The last runnable that was looked at, and its key: it is usually looked at several times in a row."""
        self._asked: dict[str, list[Question]] = {}
        """By key: the calls of functions of policies."""
        self._flakes: dict[str, int] = {}
        """By key: how many attempts still fail."""
        self._broken: dict[str, str] = {}
        """By key of a runnable that fails until it is repaired: its run."""
        self.mended: set[str] = set()
        """The runs of which a dead letter was retried."""
        self.retried: set[tuple[str, str, tuple[Address, ...], int]] = set()
        """Run, component and inputs of each dead letter that was retried, and the life in which it was."""
        self._hung: set[str] = set()
        self._in_flight: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self.life = 0
        """The number of the present process."""
        self._closed: set[int] = set()
        """The lives that ended with a close: all their events are stored."""
        self.cancelled: set[str] = set()
        """The runs that were reported as cancelled, and the children that are cancelled with them."""
        self.undoing: set[str] = set()
        """The runs whose cancellation was acknowledged: from then on nothing but compensations starts."""
        self.amended: Counter[str] = Counter()
        """By run: how many retries of dead letters with another input were acknowledged."""
        self._starts: dict[str, list[tuple[int, int]]] = {}
        """By run: the lives in which something of it began, and how many of its events were durable then."""
        self._progress: dict[str, int] = {}
        """By run: the last event of those that were seen that was progress; its history may not be in memory."""
        self._crashed: set[int] = set()
        """The lives that ended with a crash."""
        self._counts_deaths = scenario.has_plain_lives and not trial.children
        """Whether the store counts the same deaths as this log."""
        self._reopened: set[str] = set()
        """The runs of which a client has retried or discarded a dead letter in this life."""

    def new_life(self, now: float) -> None:
        """Note that a process has begun; the attempts in flight of the last one are lost."""
        self.life += 1
        self._in_flight.clear()
        self._refused.clear()
        self._hung.clear()
        self._reopened.clear()
        self._limits.begin_life(now)

    def closed(self) -> None:
        """Note that the runner of this process was closed, and reported that everything is written."""
        self._closed.add(self.life)

    def ended(self, *, has_crashed: bool) -> None:
        """Note that a process has ended."""
        if has_crashed:
            self._crashed.add(self.life)

    def resumed_by_hand(self, run: str) -> None:
        """Note that a client has resumed *run*, which was parked: it may be started again."""
        self._starts.pop(run, None)
        if len(self._crashed) < MOST:
            self.problems.append(f"{run} is parked after {len(self._crashed)} crashes")

    def of(self, key: str) -> list[Execution]:
        """Return the executions under an idempotency key, in order."""
        return self._by_key.get(key, [])

    def asked(self, key: str) -> list[Question]:
        """Return the calls of functions of policies for the runnable of an idempotency key, in order."""
        return self._asked.get(key, [])

    def deleted(self, run: str) -> None:
        """Note that *run* was deleted: a later run with its id has done nothing yet."""
        self.executions = [each for each in self.executions if each.run != run]
        for key in [key for key, begun in self._by_key.items() if begun[0].run == run]:
            del self._by_key[key]
            self._asked.pop(key, None)
        del self.amended[run]
        self._starts.pop(run, None)
        self._progress.pop(run, None)

    def reopen(self, run: str) -> None:
        """Note that a client changes *run*, which may have failed: it may execute something again."""
        self._reopened.add(run)

    def mend(self, run: str, component: str, inputs: tuple[Address, ...]) -> None:
        """Repair everything of *run* that was broken, since its dead letter at *inputs* is retried."""
        self.mended.add(run)
        self.retried.add((run, component, inputs, self.life))
        self._broken = {key: broken for key, broken in self._broken.items() if broken != run}

    def _key(self, runnable: Runnable) -> str:
        """Return the key that identifies *runnable* in all runs, whatever its policy says."""
        known, key = self._last
        if known is not runnable:
            key = runnable.lineage.idempotency_key(runnable.run_id, *runnable.key)
            self._last = runnable, key
        return key

    # -- how an attempt goes ---------------------------------------------------------------------

    def lasts(self, runnable: Runnable) -> float:
        """Return how long an attempt takes."""
        key = self._key(runnable)
        if isinstance(runnable, PolicyCall):
            return self._dice.choice((0.0, 0.01, 1.0))
        if self._flakes.get(key, 0) > 0 and self._is_limited(runnable) and self._dice.random() < 0.5:
            self._hung.add(key)
            return 100 * TIMEOUT
        if runnable.on_heartbeat is not None and not self._is_timed(runnable) and self._dice.random() < 0.3:
            return 3 * TIMEOUT  # longer than its heartbeat allows
        return self._dice.choice((0.0, 0.001, 0.01, 0.3, 1.0))

    def beats(self, runnable: Runnable) -> float:
        """Return how often an attempt sends a heartbeat."""
        return 0.0 if self._key(runnable) in self._hung else TIMEOUT / 3

    def _is_limited(self, runnable: Runnable) -> bool:
        """Return whether a hanging attempt is ended, even if its policy changes meanwhile."""
        if runnable.component in self._repairable and runnable.run_id in self.mended:  # under its own policy
            return False
        policies = self._scenario.policies_of(runnable.component)
        is_timed = all(each.timeout is not None for each in policies)
        return bool(policies) and (is_timed or all(each.heartbeat is not None for each in policies))

    def _is_timed(self, runnable: Runnable) -> bool:
        return any(each.timeout is not None for each in self._scenario.policies_of(runnable.component))

    def refuses(self, runnable: Runnable) -> bool:
        """Return whether an executor refuses an attempt."""
        run = runnable.run_id
        if self._refused[run] >= 2 or self._dice.random() >= self._scenario.refusals:
            return False
        self._refused[run] += 1
        for execution in self.executions:  # outcomes that were not collected are lost with their worker
            if execution.run == run and execution.life == self.life:
                execution.is_lost = True
        self._tell(f"{run} crashes at {runnable.component}{runnable.inputs}")
        return True

    def begins(self, runnable: Runnable) -> BaseException | None:
        """Note that an attempt begins, or a function of a policy is called."""
        key, run, now = self._key(runnable), runnable.run_id, asyncio.get_running_loop().time()
        component, durable = runnable.component, self._seen.heads.get(run, 0)
        self._in_flight[run] += 1
        self._check_starts(run, durable, runnable)
        if self._in_flight[run] > self._scenario.max_concurrency:
            self.problems.append(f"{run}: {self._in_flight[run]} runnables are in flight at once")
        if isinstance(runnable, PolicyCall):
            asked = question(runnable, attempts=len(self.of(key)), durable=durable)
            self._tell(f"{run} calls the {asked.kind} of {asked.name}")
            if self._scenario.deadline != TIGHT:  # otherwise there may be no time for an attempt
                self.problems += repeated(self.asked(key), asked)
            self._asked.setdefault(key, []).append(asked)
            return None
        own, attempt = runnable.own_key, runnable.attempt
        new = Execution(run, component, runnable.inputs, key, own, attempt, self.life, durable, now)
        new.token = runnable.token
        self._tell(f"{run} executes {component}{runnable.inputs}, attempt {attempt}")
        self._check(new)
        self._check_sources(new, runnable)
        for wrong in self._limits.begins(run, component, now):
            self.problems.append(f"{run}: {component}{runnable.inputs}: {wrong}")
        self.executions.append(new)
        self._by_key.setdefault(key, []).append(new)
        if not self._fails(new):
            return None
        is_late = component in self._patient and self._dice.random() < 0.5
        return (FlakyLate if is_late else Flaky)(f"attempt {attempt} of {component}")

    def _fails(self, new: Execution) -> bool:
        key, dice, scenario = new.key, self._dice, self._scenario
        if key not in self._flakes:
            is_flaky = dice.random() < scenario.flakes
            self._flakes[key] = dice.randint(0, scenario.retries) if is_flaky else 0
            if new.component in self._breakable and dice.random() < scenario.breaks:
                self._flakes[key], self._broken[key] = 0, new.run
        if key in self._broken:
            return True
        self._flakes[key] -= 1
        return self._flakes[key] >= 0

    def ends(self, runnable: Runnable, ending: Ending) -> None:
        """Note that an attempt has ended."""
        if isinstance(runnable, PolicyCall):
            self.asked(self._key(runnable))[-1].ending = ending
            self._in_flight[runnable.run_id] -= 1
            return
        begun = self.of(self._key(runnable))
        if not begun:  # its run was deleted meanwhile
            self._in_flight[runnable.run_id] -= 1
            return
        execution = begun[-1]
        execution.ending = ending
        self._in_flight[execution.run] -= 1
        if execution.key in self._hung and ending != "cancelled":
            self.problems.append(f"{execution.run}: {execution.component}{execution.inputs} hung, and was not ended")
        self._hung.discard(execution.key)
        self._limits.ends(execution.component, ending, asyncio.get_running_loop().time())

    # -- attempts that must not begin ------------------------------------------------------------

    def _check(self, new: Execution) -> None:
        name, before = f"{new.run}: {new.component}{new.inputs}", self.of(new.key)
        if before and before[-1].token != new.token:  # that one was used: this is another attempt
            before = []
        is_repeated = before and before[-1].life == new.life and before[-1].ending in (None, "completed")
        if is_repeated and not before[-1].is_lost:
            how = "has completed" if before[-1].ending else "is in flight"
            self.problems.append(f"{name} {how} and is executed again")
        is_kept = before and before[-1].life in self._closed and before[-1].ending == "completed"
        if is_kept and not before[-1].is_lost:
            self.problems.append(f"{name} had completed when its runner was closed, and is executed again")
        if before and before[-1].own_key != new.own_key:
            self.problems.append(f"{name} has the key {new.own_key!r} and had {before[-1].own_key!r}")
        lag = self._scenario.strategy.lag
        if lag and self._is_part_of_saga(new.component):
            lag = 0
        latest = max((each if isinstance(each, int) else each[0] for each in new.inputs), default=0)
        if lag is not None and latest - lag > new.durable:
            self.problems.append(f"{name} was started when {new.durable} events were durable")
        if new.run in self.cancelled:
            self.problems.append(f"{name} was started after the run was cancelled")
        elif new.run in self.undoing and new.component not in self._compensations:
            self.problems.append(f"{name} was started after cancelling the run was acknowledged")
        status = self._seen.statuses.get(new.run)
        if status in ("completed", "failed") and new.run not in self._reopened:
            self.problems.append(f"{name} was started after the run had finished: {status}")
        if not new.durable:
            self.problems.append(f"{name} was started before the run was stored")

    def _check_starts(self, run: str, durable: int, runnable: Runnable) -> None:
        """
        Check that *run* is not started again after it was started in each of the last three processes, and these have
        died without progress.
        """
        log = runnable.lineage.log
        events = log.known_events() if isinstance(log, PagedLog) else log
        made = (event.seq for event in reversed(events) if not isinstance(event, NO_PROGRESS) and event.seq <= durable)
        progress = self._progress[run] = max(next(made, 0), self._progress.get(run, 0))
        starts = self._starts.setdefault(run, [])
        fatal = {life for life, at in starts if life in self._crashed and at >= progress}
        # Where values leave memory, the event that was the progress may have left too.
        is_evicted = self._scenario.memory_budget is not None or self._scenario.keep_values_for is not None
        is_known = not (isinstance(log, PagedLog) and is_evicted)
        if self._counts_deaths and is_known and {self.life - before for before in range(1, MOST + 1)} <= fatal:
            self.problems.append(f"{run} is started again after {len(fatal)} processes have died without progress")
        starts.append((self.life, durable))

    def _check_sources(self, new: Execution, runnable: Runnable) -> None:
        """Check that results with ``checkpoint_after`` are durable before anything uses them."""
        for address in new.inputs:
            seq = address if isinstance(address, int) else address[0]
            if seq <= new.durable:  # including an Absent, which is not in the log
                continue
            event = runnable.lineage.log[seq - 1]
            source = getattr(event, "component", "")
            is_wait = isinstance(event, ev.SignalTaken | ev.TimerFired)  # nothing is executed, so no policy applies
            is_sure = source and not is_wait and source not in self._repairable  # which may have had its own policy
            policies = self._scenario.policies_of(source) if is_sure else ()
            if policies and all(policy.checkpoint_after for policy in policies):
                self.problems.append(f"{new.run}: {new.component}{new.inputs} was started before {source} was stored")

    def _is_part_of_saga(self, component: str) -> bool:
        """Return whether *component* is a transaction or a compensation, which never run ahead of durability."""
        is_part = any(component.startswith(f"{saga}.") for saga in self._sagas)
        return is_part and not component.endswith((".on_complete", ".on_abort"))

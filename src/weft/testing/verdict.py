"""
Whether a simulated runner did what it promises: what was executed, and what its log came to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from weft.core import events as ev
from weft.core.fold import record
from weft.core.run import Run
from weft.core.runnable import Runnable, bind
from weft.core.workflow import Workflow
from weft.log import decode, decode_segments, encode, references, verify
from weft.policy import DEFAULT
from weft.policy.policy import Policy
from weft.stores import MemoryStore
from weft.testing.executor import Ending
from weft.testing.plot import TIMEOUT, Plot, Trial
from weft.typing import Address


class Flaky(Exception):
    """A step failed because a die said so."""


class Execution(msgspec.Struct):
    """One attempt that was begun."""

    run: str
    component: str
    inputs: tuple[Address, ...]
    key: str
    attempt: int
    life: int
    durable: int
    """How many events of its run were durable when it began."""
    ending: Ending | None = None
    """None, if its process died first."""
    is_lost: bool = False
    """Whether its worker has crashed since."""


class Witness:
    """Sees every attempt begin and end, and lets some of them fail."""

    def __init__(self, dice: Random, plot: Plot, store: MemoryStore, tell: Callable[[str], None]) -> None:
        self._dice, self._plot, self._store, self._tell = dice, plot, store, tell
        self.executions: list[Execution] = []
        self.problems: list[str] = []
        self._by_key: dict[str, list[Execution]] = {}
        self._flakes: dict[str, int] = {}
        """By key: how many attempts still fail."""
        self._under_way: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._life = 0
        self.cancelled: set[str] = set()
        """The runs whose end was acknowledged."""

    def new_life(self) -> None:
        """A process has begun; what the last one had under way is lost."""
        self._life += 1
        self._under_way.clear()
        self._refused.clear()

    def of(self, key: str) -> list[Execution]:
        """Return the executions under an idempotency key, in order."""
        return self._by_key.get(key, [])

    @property
    def keys(self) -> set[str]:
        """Everything that was ever executed."""
        return set(self._by_key)

    # -- while it runs ---------------------------------------------------------------------------

    def lasts(self, runnable: Runnable) -> float:
        """Say how long an attempt takes."""
        if (
            self._flakes.get(runnable.idempotency_key, 0) > 0
            and self._is_limited(runnable)
            and self._dice.random() < 0.5
        ):
            return 100 * TIMEOUT
        return self._dice.choice((0.0, 0.001, 0.01, 0.3, 1.0))

    def _is_limited(self, runnable: Runnable) -> bool:
        policy = self.policy_of(runnable.component)
        return policy is not None and policy.timeout is not None

    def policy_of(self, component: str) -> Policy | None:
        """Return the policy that holds for *component*: rules name components, the last one is for all others."""
        for matcher, policy in self._plot.rules:
            if matcher in (component, component.partition(".")[0], DEFAULT):
                return policy
        return None

    def refuses(self, runnable: Runnable) -> bool:
        """Say whether an executor does not take an attempt."""
        run = runnable.run_id or ""
        if self._refused[run] >= 2 or self._dice.random() >= self._plot.refusals:
            return False
        self._refused[run] += 1
        for execution in self.executions:  # what has ended and was not collected is lost with its worker
            if execution.run == run and execution.life == self._life:
                execution.is_lost = True
        self._tell(f"{run} crashes at {runnable.component}{runnable.inputs}")
        return True

    def begins(self, runnable: Runnable) -> BaseException | None:
        """An attempt begins."""
        key, run = runnable.idempotency_key, runnable.run_id or ""
        execution = Execution(
            run, runnable.component, runnable.inputs, key, runnable.attempt, self._life, self._head(run)
        )
        self._tell(f"{run} executes {runnable.component}{runnable.inputs}, attempt {runnable.attempt}")
        self._check(execution)
        self.executions.append(execution)
        self._by_key.setdefault(key, []).append(execution)
        self._under_way[run] += 1
        if self._under_way[run] > self._plot.max_concurrency:
            self.problems.append(f"{run}: {self._under_way[run]} runnables are under way at once")
        if key not in self._flakes:
            is_flaky = self._dice.random() < self._plot.flakes
            self._flakes[key] = self._dice.randint(0, self._plot.retries) if is_flaky else 0
        if self._flakes[key] > 0:
            self._flakes[key] -= 1
            return Flaky(f"attempt {runnable.attempt} of {runnable.component}")
        return None

    def ends(self, runnable: Runnable, ending: Ending) -> None:
        """An attempt has ended."""
        execution = self._by_key[runnable.idempotency_key][-1]
        execution.ending = ending
        self._under_way[execution.run] -= 1

    def _head(self, run: str) -> int:
        stored = self._store._runs.get(run)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return 0 if stored is None else stored.record.head

    def _check(self, new: Execution) -> None:
        before = self.of(new.key)
        is_repeated = before and before[-1].life == new.life and before[-1].ending in (None, "completed")
        if is_repeated and not before[-1].is_lost:
            how = "has completed" if before[-1].ending else "is under way"
            self.problems.append(f"{new.run}: {new.component}{new.inputs} {how} and is executed again")
        lag = self._plot.strategy.lag
        latest = max((each if isinstance(each, int) else each[0] for each in new.inputs), default=0)
        if lag is not None and latest - lag > new.durable:
            self.problems.append(
                f"{new.run}: {new.component}{new.inputs} was started when {new.durable} events were durable"
            )
        if new.run in self.cancelled:
            self.problems.append(f"{new.run}: {new.component}{new.inputs} was started after the run was cancelled")
        if not new.durable:
            self.problems.append(f"{new.run}: {new.component} was started before the run was stored")


# -- afterwards ----------------------------------------------------------------------------------


async def examine(
    store: MemoryStore, name: str, workflow: Workflow, trial: Trial, plot: Plot, witness: Witness
) -> tuple[int, list[str]]:
    """Return how many events the run *name* has, and what is wrong with it."""
    loaded = await store.load_since(name, 0)
    stored = loaded.record
    problems: list[str] = []
    if stored.owner is not None:
        problems.append(f"still owned by {stored.owner}")
    wanted_status = "cancelled" if name in witness.cancelled else "idle"
    if stored.status != wanted_status:
        problems.append(f"its status is {stored.status!r} ({stored.reason}), not {wanted_status!r}")
    bodies = [segment.body for segment in loaded.segments]
    wanted = references(bodies)
    definitions = await store.load_definitions(wanted.definitions)
    facts = await store.load_facts(name, wanted.facts)
    verify(bodies, facts=facts, definitions=definitions, head=stored.chain, position=stored.head)
    events = decode_segments(bodies, definitions=definitions, facts=facts, workflow=workflow)
    run = Run.from_log(events, context=trial.context)
    if Run.from_log(decode(encode(run.log()), workflow=workflow), context=trial.context) != run:
        problems.append("it is not the fold of its log")
    if name in witness.cancelled:
        return len(events), problems
    if run.is_runnable:
        problems.append(f"something is left to do: {run.prepare()}")
    if run.memory.received != len(trial.inputs):
        problems.append(f"it has had {run.memory.received} inputs of {len(trial.inputs)}")
    problems += _History(run, plot, witness).problems()
    if not problems:
        problems += trial.check(run)
    return len(events), problems


class _History:
    """The log of a run beside what was executed for it."""

    def __init__(self, run: Run, plot: Plot, witness: Witness) -> None:
        self.run, self.plot, self.witness = run, plot, witness
        self.endings: dict[str, Any] = {}
        """By idempotency key: how it ended; for the last time, if it was a dead letter that got another chance."""

    def problems(self) -> list[str]:
        found: list[str] = []
        twin = Run(self.run.workflow, id=self.run.id, context=self.run.context)
        memory = twin.memory
        for event in self.run.log()[1:]:
            if isinstance(event, ev.ENDINGS):
                runnable = bind(memory.ready[event.component, event.inputs], memory, twin.context)
                self.endings[runnable.idempotency_key] = event
            record(memory, event)
        for key, event in self.endings.items():
            found += self._ending(event, key)
        strangers = {each.key for each in self.witness.executions if each.run == self.run.id} - self.endings.keys()
        if strangers and self.plot.strategy.lag == 0:
            names = sorted({each.component for each in self.witness.executions if each.key in strangers})
            found.append(f"what was executed is not in the log: {names}")
        return found

    def _ending(self, event: Any, key: str) -> list[str]:
        name = f"{event.component}{event.inputs}"
        executions = self.witness.of(key)
        if not executions:
            return [f"{name} has ended and was never executed"]
        found: list[str] = []
        if late := [each for each in executions if each.durable >= event.seq]:
            found.append(f"{name} was executed in life {late[0].life}, when its outcome was durable")
        attempt = event.attempts if isinstance(event, ev.RunnableFailed | ev.RunnableSkipped) else event.attempt
        if executions[-1].attempt != attempt:
            found.append(f"{name} says attempt {attempt}, and the last one executed was {executions[-1].attempt}")
        policy = self.witness.policy_of(event.component)
        if policy is not None and policy.execution_mode == "durable":
            numbers = [each.attempt for each in executions]
            if numbers != sorted(set(numbers)):
                found.append(f"{name} is durable, and its attempts were numbered {numbers}")
        return found

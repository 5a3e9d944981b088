"""
Driving a run by hand, in any order, and writing down what can be seen of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from description import Accumulator, Graph
from doubts import Doubt
from evaluator import Expected
from strategies import Schedule

from weft import Outcome, Run, Runnable
from weft.core.run.runnable import RunnableRef
from weft.errors import BatchFailed, NotACollection


class Driver:
    """
    Takes a run through prepare, execute and apply, one outcome at a time, as a schedule says.

    With *durable* it notes in the log what it is about to execute, as a runner would.
    """

    def __init__(self, run: Run, schedule: Schedule, *, durable: bool = False) -> None:
        self.run, self.schedule, self.durable = run, schedule, durable
        self.turn = 0
        self._held: dict[RunnableRef, Outcome] = {}

    def advance(self, turns: int | None = None) -> Iterator[Outcome]:
        """Yield each outcome that was applied, to the end or for some *turns*."""
        end = None if turns is None else self.turn + turns
        while self.run.is_runnable and self.turn != end:
            offered = {runnable.ref(): runnable for runnable in self.run.prepare()}
            if self.schedule.eager:
                fresh = {ref: self._execute(offered[ref]) for ref in offered if ref not in self._held}
                self._held.update(fresh)
            ref = self.schedule.pick(self.turn, list(offered))
            outcome = self._held.pop(ref, None) or self._execute(offered[ref])
            self.run.apply(outcome)
            self.turn += 1
            yield outcome

    @property
    def under_way(self) -> set[RunnableRef]:
        """The runnables that were executed and whose outcomes have not been applied."""
        return set(self._held)

    def _execute(self, runnable: Runnable) -> Outcome:
        if self.durable:
            self.run.record_dispatch(runnable)
        return runnable.execute()

    def drive(self, turns: int | None = None) -> Run:
        """Return the run after some *turns*, or at its end."""
        for _ in self.advance(turns):
            pass
        return self.run


def drive(run: Run, schedule: Schedule, *, turns: int | None = None) -> Run:
    """Return *run* after some *turns*, or at its end; what was executed and not applied is lost."""
    return Driver(run, schedule).drive(turns)


class Sight(msgspec.Struct):
    """Everything that can be seen of a run at one moment."""

    events: int
    values: dict[str, list[Any]]
    ready: list[object]
    blocked: set[object]
    states: dict[str, Any]
    failures: dict[str, str]
    skipped: list[str]
    results: dict[str, Any]
    status: str


def look(run: Run, graph: Graph) -> Sight:
    """Return what can be seen of *run*."""
    return Sight(
        events=len(run.log()),
        values={part.name: run.values(part.name) for part in graph.parts if part.name in run.workflow},
        ready=[(runnable.ref(), runnable.args, runnable.kwargs) for runnable in run.prepare()],
        blocked=set(run.memory.blocked or ()),
        states={
            part.name: run.state_of(part.name)
            for part in graph.parts
            if isinstance(part, Accumulator) and part.name in run.workflow
        },
        failures={name: str(failure) for name, failure in run.failures.items()},
        skipped=run.skipped,
        results=run.results(),
        status=run.status,
    )


class Outline(msgspec.Struct):
    """The end of a run, as far as it may not depend on the order of events."""

    values: dict[str, Counter[str]]
    states: dict[str, Any]
    failed: set[str]
    results: dict[str, Any]


def outline(run: Run, graph: Graph, doubt: Doubt) -> Outline:
    """Return what *run* has come to, without what is in *doubt*."""
    names = [part.name for part in graph.parts if part.makes_facts]
    results = run.results()
    states = {part.name: run.state_of(part.name) for part in graph.parts if isinstance(part, Accumulator)}
    return Outline(
        {name: multiset(run.values(name)) for name in names if name not in doubt.values},
        {name: state for name, state in states.items() if name not in doubt.states},
        {name for name in run.failures if owner(name) not in doubt.calls},
        {name: value for name, value in results.items() if name not in doubt.values},
    )


def outline_of(expected: Expected) -> Outline:
    """Return what a run should come to, as far as the evaluator can tell."""
    doubt = expected.untold
    return Outline(
        {name: multiset(values) for name, values in expected.values.items() if name not in doubt.values},
        {name: state for name, state in expected.states.items() if name not in doubt.states},
        {name for name in expected.failed if owner(name) not in doubt.calls},
        {name: value for name, value in expected.results.items() if name not in doubt.values},
    )


def strange(run: Run) -> dict[str, BaseException | None]:
    """Return the failures of *run* that neither a drawn function nor a drawn graph can explain."""
    known = (ValueError, NotACollection, BatchFailed)
    causes = {name: failure.__cause__ for name, failure in run.failures.items()}
    return {name: cause for name, cause in causes.items() if not isinstance(cause, known)}


def multiset(values: list[Any]) -> Counter[str]:
    """Return *values* without their order."""
    return Counter(map(repr, values))


def owner(name: str) -> str:
    """Return the part that the function *name* belongs to."""
    return name.removesuffix(".when")

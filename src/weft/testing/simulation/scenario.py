"""
The subject of a simulation (a :class:`Trial`), and what happens in it (a :class:`Scenario`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Literal, TypeAlias

import msgspec

from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.policy import DEFAULT
from weft.policy.policy import Policy
from weft.runner.checkpoints import Checkpoints, every_cycle
from weft.testing.simulation.process import Moment, Weather

Ends: TypeAlias = Literal["open", "told", "input"]
"""How a run ends: it stays open, it is told to finish after its last input, or it finishes with its only input."""
TIMEOUT = 5.0
"""
The longest that a step may take, or go without a heartbeat, where its policy limits that, in seconds; steps that do
not hang are faster, or send heartbeats.
"""
TIGHT = 8.0
"""The deadline of an input that may well be too short, in seconds."""
UNWANTED = "unwanted"
"""The reason with which a step cancels its child."""


Rules: TypeAlias = tuple[tuple[Any, Policy], ...]


def _all_is_well(_: Run) -> Iterable[str]:
    return ()


def _all_are_well(_: Run, __: Mapping[str, Run]) -> Iterable[str]:
    return ()


class Signal(msgspec.Struct, frozen=True):
    """A signal that a client sends."""

    name: str
    value: Any = None


class Trial(msgspec.Struct, frozen=True):
    """A workflow, the inputs of each run, and a check of the results."""

    workflow: Workflow
    inputs: tuple[Any, ...]
    check: Callable[[Run], Iterable[str]] = _all_is_well
    """Returns what is wrong with a run that has done everything."""
    context: Mapping[str, Any] = {}
    then: Callable[[Any, str], Awaitable[object]] | None = None
    """Called with the runner and the id when the run is idle; in every life, so it may be repeated."""
    repairable: frozenset[str] = frozenset()
    """
    The components that may fail for good until they are repaired: the client then retries or discards their dead
    letters.  They get policies that keep dead letters; compensations of a saga always keep them.
    """
    losable: frozenset[str] = frozenset()
    """The components that may produce nothing because of their policy: *check* reads from the log which did."""
    policies: Mapping[str, Policy] = {}
    """By component: fields of its policy, whatever else is drawn for it."""
    amends: Mapping[str, Callable[[Any], Any]] = {}
    """By repairable component: a function that turns the input of its dead letter into another input."""
    children: Mapping[str, Workflow] = {}
    """
    The workflows that steps start as children, by name.  Steps find them in ``context("children")``, with the policies
    that were drawn.  A step cancels a child for the reason :data:`UNWANTED`.
    """
    patient: frozenset[str] = frozenset()
    """The components that wait for children, so that it is unknown how long they take."""
    check_children: Callable[[Run, Mapping[str, Run]], Iterable[str]] = _all_are_well
    """Returns what is wrong with the children of a finished run, and with their children; called with all of them."""
    signals: tuple[Signal, ...] = ()
    """The signals that a client sends each run, in this order, from its beginning on."""
    ending_signals: tuple[Signal, ...] = ()
    """The signals that a client sends, again and again, while a run waits for nothing else: in the end it is done."""

    @property
    def waits(self) -> bool:
        """Whether its runs may wait for time or for signals."""
        return any(component.kind in ("sleep", "wait_for") for component in self.workflow.components.values())


class Jump(msgspec.Struct, frozen=True):
    """A change of the clock of the system, in each life."""

    after: float
    """How many seconds after the beginning of a life, by the monotonic clock."""
    by: float
    """How many seconds the clock is set forward; back, if it is negative."""


class Closing(msgspec.Struct, frozen=True):
    """The close of a process whose clients are not done."""

    after: float
    """How many seconds its clients have had."""
    outage: float = 0.0
    """Seconds that the store is unavailable from then on."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """How runs are driven, and what happens to them."""

    strategy: Checkpoints = every_cycle
    crashes: tuple[int, ...] = ()
    """At which turn of its loop each process dies; the one after the last lives."""
    dies: tuple[int, Moment] | None = None
    """At which append, truncation or compaction the first process dies, counted from 1, and when."""
    weather: Weather = Weather()
    runs: tuple[str, ...] = ("a",)
    max_concurrency: int = 16
    workers: int = 2
    executor: Literal["thread", "inline"] = "thread"
    """Where plain functions run."""
    store: Literal["memory", "file"] = "memory"
    """Where the runs are; a file is a real one, of SQLite."""
    components: frozenset[str] = frozenset()
    """The components; a rule for one of them applies to its parts too, but not to another component inside it."""
    aside: frozenset[str] = frozenset()
    """Tests and outcomes of loops: a rule for the loop does not apply to them."""
    rules: Rules = ()
    others: Rules = ()
    """The rules that a client sets while a run is live; by default the same."""
    retries: int = 0
    """How many retries every policy has."""
    flakes: float = 0.0
    """The share of runnables with attempts that fail or hang, never more than there are retries."""
    breaks: float = 0.0
    """The share of repairable or losable runnables whose attempts all fail, until they are repaired."""
    discards: float = 0.0
    """How often a dead letter is discarded instead of retried."""
    amends: float = 0.0
    """How often a dead letter is retried with another input, where the trial has one."""
    refusals: float = 0.0
    """The share of attempts that an executor refuses, so that their worker crashes; at most two of a run in a life."""
    notices: bool = False
    resumes_all: bool = False
    ends: Ends = "open"
    restarts: float = 0.0
    """How often a run that has finished with its input is started again in place of the old one; once, at most."""
    starts_whole: bool = False
    """Whether a run is started with its first input; one that finishes with its input always is."""
    starts_together: bool = False
    """Whether all runs are started in one call, where they finish with their input."""
    is_wanted_twice: bool = False
    """Whether two clients start or resume each run at once."""
    stops: float = 0.0
    """How often a run is stopped and resumed after an input."""
    cancels: float = 0.0
    """How often a run is cancelled after an input."""
    interrupts: int | None = None
    """How many turns after the first cancellation has begun the process dies, if it does because of that."""
    rulings: float = 0.0
    """How often the policies of a run are set again after an input."""
    repeats: float = 0.0
    """How often a client sends an input twice, under the same key."""
    checkpoints: float = 0.0
    """How often a client asks for a checkpoint after an input."""
    snapshot_every: int | None = None
    """Events of a run between two snapshots."""
    truncates: float = 0.0
    """How often the log of a run is truncated after an input, and when it has nothing left to do."""
    compacts: float = 0.0
    """How often its old segments are stored in fewer rows, at the same moments; only a file has that."""
    memory_budget: int | None = None
    """How many bytes of values stay in memory; with 1, everything that nothing needs leaves it as soon as it can."""
    keep_values_for: float | None = None
    """Seconds until values that nothing needs leave memory."""
    is_patient: bool = False
    """Whether an input is sent only when the run has nothing left to do."""
    deadline: float | None = None
    """How many seconds each input has.  Where that is not enough, only the guarantees about deadlines are checked."""
    grace: float = 10.0
    closings: tuple[Closing, ...] = ()
    """How each process is closed before its clients are done, unless it crashes first; those after the last stay."""
    impatience: float = 0.0
    """The share of calls whose caller is cancelled after a while, and repeats the call."""
    crowds: float = 0.0
    """How often several callers start, stop, resume, use and wait for a run at once after an input."""
    remote: float = 0.0
    """
    The share of inputs, signals, cancellations, policies and ends that come from a runner that does not hold the run:
    they go through its inbox, whether it is held, evicted, or held by no process.
    """
    resident: int | None = None
    """How many runs that only wait stay in memory; as many as a runner keeps by itself if None."""
    jumps: tuple[Jump, ...] = ()
    """How the clock of the system is set in each life."""

    @property
    def has_plain_lives(self) -> bool:
        """Whether a process loses a run only when it ends."""
        is_lost = self.stops or self.crowds or self.refusals
        return not is_lost and not self.is_wanted_twice

    def policies_of(self, component: str) -> tuple[Policy, ...]:
        """Return the policies that may apply to *component*; none, if there are no rules."""
        known = self._known.get(component)
        if known is None:
            names = self._names(component)
            found = (_first(rules, names) for rules in (self.rules, self.others))
            known = self._known[component] = tuple(policy for policy in found if policy is not None)
        return known

    @cached_property
    def _known(self) -> dict[str, tuple[Policy, ...]]:
        """A cache of the policies, by component."""
        return {}

    def _names(self, component: str) -> set[str]:
        """Return the names that a rule for *component* may have: it may be a part of another one."""
        if component in self.aside:
            return {component} - self.components
        names = {component}
        while "." in component and component not in self.components:
            component = component.rpartition(".")[0]
            names.add(component)
        return names

    def __str__(self) -> str:
        said = {name: getattr(self, name) for name in self.__struct_fields__ if name not in ("components", "others")}
        said |= {"others": () if self.others == self.rules else self.others}
        told = {name: value for name, value in said.items() if value != getattr(_PLAIN, name)}
        told |= {name: _described(told[name]) for name in ("rules", "others") if name in told}
        return ", ".join(f"{name}={value}" for name, value in told.items())


_PLAIN = Scenario()


def _first(rules: Rules, names: set[str]) -> Policy | None:
    """Return the first policy for something that has one of these *names*."""
    return next((policy for matcher, policy in rules if matcher is DEFAULT or matcher in names), None)


def _described(rules: Rules) -> str:
    """Return *rules* without the fields that have their defaults."""
    policies = ((matcher, policy.changes().items()) for matcher, policy in rules)
    said = (f"{matcher}: {', '.join(f'{name}={value}' for name, value in changes)}" for matcher, changes in policies)
    return f"[{'; '.join(said)}]"

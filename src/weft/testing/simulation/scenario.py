"""
What a simulation is of (a :class:`Trial`), and what happens in it (a :class:`Scenario`).
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

TIMEOUT = 5.0
"""
The longest that a step may take, or be silent, where its policy limits that, in seconds; those that do not hang are
faster, or give signs of life.
"""
TIGHT = 8.0
"""The deadline of an input that may well be too short, in seconds."""
UNWANTED = "unwanted"
"""Why a step cancels a child of its own."""


Rules: TypeAlias = tuple[tuple[Any, Policy], ...]


def _all_is_well(_: Run) -> Iterable[str]:
    return ()


def _all_are_well(_: Run, __: Mapping[str, Run]) -> Iterable[str]:
    return ()


class Trial(msgspec.Struct, frozen=True):
    """A workflow, what each run of it is given, and what has to come of it."""

    workflow: Workflow
    inputs: tuple[Any, ...]
    check: Callable[[Run], Iterable[str]] = _all_is_well
    """Returns what is wrong with a run that has done everything."""
    context: Mapping[str, Any] = {}
    then: Callable[[Any, str], Awaitable[object]] | None = None
    """What the client does with the runner and the id when the run is idle; in every life, so it may repeat."""
    mendable: frozenset[str] = frozenset()
    """
    What may fail for good until somebody mends it: the client then gives its dead letters another chance, or up.
    Components among them get policies that keep dead letters; compensations of a saga do so by themselves.
    """
    losable: frozenset[str] = frozenset()
    """What may come to nothing because of its policy: *check* reads from the log what did."""
    policies: Mapping[str, Policy] = {}
    """By component: what its policy says, whatever else is drawn for it."""
    amends: Mapping[str, Callable[[Any], Any]] = {}
    """By component that is mendable: what makes another input of the one that its dead letter has had."""
    kin: Mapping[str, Workflow] = {}
    """
    The workflows that steps start as children, by name.  Steps find them in ``context("kin")``, with the policies that
    were drawn.  A step cancels a child for the reason :data:`UNWANTED`.
    """
    patient: frozenset[str] = frozenset()
    """What waits for children, so that nobody can say how long it takes."""
    check_kin: Callable[[Run, Mapping[str, Run]], Iterable[str]] = _all_are_well
    """Returns what is wrong with the children of a run that has done everything, and with theirs; given all of them."""


class Closing(msgspec.Struct, frozen=True):
    """The orderly end of a process whose clients are not done."""

    after: float
    """How many seconds its clients have had."""
    outage: float = 0.0
    """For how many seconds the store is unavailable from then on."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """How runs are driven, and what befalls them."""

    strategy: Checkpoints = every_cycle
    crashes: tuple[int, ...] = ()
    """At which turn of its loop each process dies; the one after the last lives."""
    dies: tuple[int, Moment] | None = None
    """At which append the first process dies, counted from 1, and when."""
    weather: Weather = Weather()
    runs: tuple[str, ...] = ("a",)
    max_concurrency: int = 16
    workers: int = 2
    executor: Literal["thread", "inline"] = "thread"
    """Where plain functions run."""
    store: Literal["memory", "file"] = "memory"
    """Where the runs are; a file is a real one, of SQLite."""
    components: frozenset[str] = frozenset()
    """What there is; a rule for one of them is for its parts too, but not for another one inside of it."""
    rules: Rules = ()
    others: Rules = ()
    """The rules that a client sets while a run is live, in place of those or of these; if not given, the same."""
    retries: int = 0
    """How many retries every policy has."""
    flakes: float = 0.0
    """The share of runnables of which some attempts fail or hang, never more than there are retries."""
    breaks: float = 0.0
    """The share of what is mendable or losable of which all attempts fail, until somebody mends it."""
    discards: float = 0.0
    """How often a dead letter is given up, in place of another chance."""
    amends: float = 0.0
    """How often a dead letter gets another chance with another input, where a trial says which."""
    refusals: float = 0.0
    """The share of attempts that an executor refuses, so that their worker crashes; at most two of a run in a life."""
    notices: bool = False
    resumes_all: bool = False
    starts_whole: bool = False
    is_wanted_twice: bool = False
    """Whether two clients start or resume each run at once."""
    stops: float = 0.0
    """How often a run is stopped and resumed after an input."""
    cancels: float = 0.0
    """How often a run is cancelled after an input."""
    interrupts: int | None = None
    """How many turns after the first cancelling has begun its process dies, if it does because of that."""
    rulings: float = 0.0
    """How often the policies of a run are set again after an input."""
    repeats: float = 0.0
    """How often a client gives an input twice, under the same key."""
    checkpoints: float = 0.0
    """How often a client asks for a checkpoint after an input."""
    is_patient: bool = False
    """Whether an input is given only when the run has nothing left to do."""
    deadline: float | None = None
    """How many seconds each input has.  Where that is not enough, only the promises about that are checked."""
    grace: float = 10.0
    closings: tuple[Closing, ...] = ()
    """How each process is closed before its clients are done, unless it crashes first; those after the last stay."""
    impatience: float = 0.0
    """The share of calls whose caller is cancelled after a while, and makes the call again."""
    crowds: float = 0.0
    """How often several callers start, stop, resume, use and wait for a run at once after an input."""

    def policies_of(self, component: str) -> tuple[Policy, ...]:
        """Return the policies that may hold for *component*; none, if there are no rules."""
        known = self._known.get(component)
        if known is None:
            names = self._names(component)
            found = (_first(rules, names) for rules in (self.rules, self.others))
            known = self._known[component] = tuple(policy for policy in found if policy is not None)
        return known

    @cached_property
    def _known(self) -> dict[str, tuple[Policy, ...]]:
        """The policies that somebody has asked for, by component."""
        return {}

    def _names(self, component: str) -> set[str]:
        """Return what a rule for *component* may be called: it may be a part of another one."""
        names = {component}
        while "." in component and component not in self.components:
            component = component.rpartition(".")[0]
            names.add(component)
        return names

    def __str__(self) -> str:
        said = {name: getattr(self, name) for name in self.__struct_fields__ if name not in ("components", "others")}
        said |= {"others": () if self.others == self.rules else self.others}
        told = {name: value for name, value in said.items() if value != getattr(_PLAIN, name)}
        told |= {name: _told(told[name]) for name in ("rules", "others") if name in told}
        return ", ".join(f"{name}={value}" for name, value in told.items())


_PLAIN = Scenario()


def _first(rules: Rules, names: set[str]) -> Policy | None:
    """Return the first policy for something that has one of these *names*."""
    return next((policy for matcher, policy in rules if matcher is DEFAULT or matcher in names), None)


def _told(rules: Rules) -> str:
    """Return *rules* without all that they leave to the defaults."""
    policies = ((matcher, policy.changes().items()) for matcher, policy in rules)
    said = (f"{matcher}: {', '.join(f'{name}={value}' for name, value in changes)}" for matcher, changes in policies)
    return f"[{'; '.join(said)}]"

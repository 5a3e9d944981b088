"""
What a simulation is of (a :class:`Trial`), and what happens in it (a :class:`Plot`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from weft.core.run import Run
from weft.core.workflow import Workflow
from weft.policy import DEFAULT
from weft.policy.policy import Policy
from weft.runner.strategies import Checkpoints, every_cycle
from weft.testing.process import Moment, Weather

TIMEOUT = 5.0
"""
The longest that a step may take, or be silent, where its policy limits that, in seconds; those that do not hang are
faster, or give signs of life.
"""
TIGHT = 8.0
"""The deadline of an input that may well be too short, in seconds."""


Rules: TypeAlias = tuple[tuple[Any, Policy], ...]


def _all_is_well(_: Run) -> Iterable[str]:
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


class Plot(msgspec.Struct, frozen=True, kw_only=True):
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
    store: Literal["memory", "file"] = "memory"
    """Where the runs are; a file is a real one, of SQLite."""
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

    def policies_of(self, component: str) -> tuple[Policy, ...]:
        """Return the policies that may hold for *component*; none, if there are no rules."""
        found = (_first(rules, component) for rules in (self.rules, self.others))
        return tuple(policy for policy in found if policy is not None)

    def __str__(self) -> str:
        said = {name: getattr(self, name) for name in self.__struct_fields__ if name != "others"}
        said |= {"others": () if self.others == self.rules else self.others}
        told = {name: value for name, value in said.items() if value != getattr(_PLAIN, name)}
        told |= {name: _told(told[name]) for name in ("rules", "others") if name in told}
        return ", ".join(f"{name}={value}" for name, value in told.items())


_PLAIN = Plot()


def _first(rules: Rules, component: str) -> Policy | None:
    """Return the policy for *component*: rules name components or parts of them, the last one is for all others."""
    names = {component}
    while "." in component:
        component = component.rpartition(".")[0]
        names.add(component)
    return next((policy for matcher, policy in rules if matcher is DEFAULT or matcher in names), None)


def _told(rules: Rules) -> str:
    """Return *rules* without all that they leave to the defaults."""
    policies = ((matcher, policy.changes().items()) for matcher, policy in rules)
    said = (f"{matcher}: {', '.join(f'{name}={value}' for name, value in changes)}" for matcher, changes in policies)
    return f"[{'; '.join(said)}]"

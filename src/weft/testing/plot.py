"""
What a simulation is of (a :class:`Trial`), and what happens in it (a :class:`Plot`).
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from random import Random
from typing import Any

import msgspec

from weft.core.run import Run
from weft.core.workflow import Workflow
from weft.policy import DEFAULT, ConcurrencyLimit
from weft.policy.policy import Policy
from weft.runner.strategies import Checkpoints, every_cycle, every_n, manual, on_complete, pipelined
from weft.testing.process import Moment, Weather

TIMEOUT = 5.0
"""The longest that a step may take where its policy limits it, in seconds; those that do not hang are faster."""
_LATEST_CRASH = 300
"""The last turn of a loop at which a crash is likely to find something to interrupt."""


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
    rules: tuple[tuple[Any, Policy], ...] = ()
    retries: int = 0
    """How many retries every policy has."""
    flakes: float = 0.0
    """The share of runnables of which some attempts fail or hang, never more than there are retries."""
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
    checkpoints: float = 0.0
    """How often a client asks for a checkpoint after an input."""
    grace: float = 10.0

    def __str__(self) -> str:
        said = {name: getattr(self, name) for name in self.__struct_fields__}
        return ", ".join(f"{name}={value}" for name, value in said.items() if value != getattr(_PLAIN, name))


_PLAIN = Plot()


def draw_plot(dice: Random, trial: Trial) -> Plot:
    """Return a plot for *trial*."""
    retries = dice.choice((0, 0, 1, 3))
    is_stormy = dice.random() < 0.5
    return Plot(
        strategy=_strategy(dice),
        crashes=tuple(_turn(dice) for _ in range(dice.choice((0, 1, 1, 2, 4)))),
        weather=Weather(0.1, 0.1, 0.3) if is_stormy else Weather(dawdles=dice.choice((0.0, 0.2))),
        runs=("a", "b", "c")[: dice.choice((1, 1, 2, 3))],
        max_concurrency=dice.choice((1, 2, 16)),
        workers=dice.choice((1, 2, 8)),
        rules=_rules(dice, trial.workflow, retries),
        retries=retries,
        flakes=dice.choice((0.0, 0.3)),
        refusals=dice.choice((0.0, 0.0, 0.1)),
        notices=dice.random() < 0.5,
        resumes_all=dice.random() < 0.5,
        starts_whole=dice.random() < 0.5,
        is_wanted_twice=dice.random() < 0.3,
        stops=dice.choice((0.0, 0.3)),
        cancels=dice.choice((0.0, 0.0, 0.0, 0.3)),
        rulings=dice.choice((0.0, 0.2)),
        checkpoints=dice.choice((0.0, 0.3)),
        grace=dice.choice((0.0, 10.0)),
    )


def _strategy(dice: Random) -> Checkpoints:
    ahead, apart = pipelined(dice.choice((1, 3, 64))), every_n(dice.randint(1, 4))
    return dice.choice((every_cycle, every_cycle, every_cycle, ahead, apart, on_complete, manual))


def _turn(dice: Random) -> int:
    """Return when to crash: early more often than late."""
    return int(math.exp(dice.uniform(0.0, math.log(_LATEST_CRASH))))


def _rules(dice: Random, workflow: Workflow, retries: int) -> tuple[tuple[Any, Policy], ...]:
    """Return policies for some components and for the others, all with the same *retries*."""
    if not retries and dice.random() < 0.4:
        return ()
    names = [name for name in workflow.components if dice.random() < 0.4]
    limit = ConcurrencyLimit("simulated", dice.choice((1, 2))) if dice.random() < 0.3 else None
    rules: list[tuple[Any, Policy]] = [(name, _policy(dice, retries, limit)) for name in names]
    return (*rules, (DEFAULT, _policy(dice, retries, None)))


def _policy(dice: Random, retries: int, limit: ConcurrencyLimit | None) -> Policy:
    return Policy(
        max_retries=retries,
        backoff=dice.choice(("none", "linear", "exponential")),
        base_delay=dice.choice((0.001, 1.0)),
        timeout=dice.choice((None, TIMEOUT)),
        execution_mode=dice.choice(("sync", "durable")),
        priority=dice.choice((0, 0, 5)),
        delay=dice.choice((0.0, 0.0, 0.0, 0.7)),
        checkpoint_after=dice.random() < 0.2,
        concurrency_limit=limit,
    )

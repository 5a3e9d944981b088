"""
The course of a simulated long-lived run: the actions of its client, and the faults of its processes and store.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Literal, TypeAlias

import msgspec

from weft.runner.checkpoints import Checkpoints, every_cycle, pipelined
from weft.testing.simulation.process import Moment, Weather
from weft.testing.simulation.scenario_draw import draw_turn

Action: TypeAlias = Literal[
    "send",
    "signal",
    "answer",
    "refuse",
    "continue",
    "upgrade",
    "fork",
    "retry",
    "truncate",
    "compact",
    "evict",
    "stop",
    "pass",
    "clock",
    "policies",
]
"""An action of a client; to pass is to let time pass, and the clock is set."""

_LATEST_CRASH = 1_500
"""The last turn of a loop at which a crash is likely to find something to interrupt."""


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """The actions of a client, and the faults of the processes that drive its run."""

    actions: tuple[Action, ...]
    breaks: bool = False
    """Whether a step fails for some inputs until it is repaired."""
    crashes: tuple[int, ...] = ()
    """At which turn of its loop each process dies; the one after the last lives."""
    dies: tuple[int, Moment] | None = None
    """At which write the first process dies, counted from 1, and when."""
    weather: Weather = Weather()
    remote: float = 0.0
    """The share of calls from a runner that does not hold the run."""
    strategy: Checkpoints = every_cycle
    snapshot_every: int | None = None
    continue_after: int | None = None
    memory_budget: int | None = None
    keep_values_for: float | None = None
    resident: int | None = None
    store: Literal["memory", "file"] = "memory"


class LongRunReport:
    """The result of a simulation."""

    def __init__(self, seed: int, course: Course) -> None:
        self.seed, self.course = seed, course
        self.problems: list[str] = []
        self.story: list[str] = []
        self.done: Counter[str] = Counter()
        """How often each action has had an effect."""
        self.writes = 0
        """How many appends, truncations and compactions there were."""

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.course}", *self.story, *(f"PROBLEM: {each}" for each in self.problems)]
        return "\n".join(lines)


def draw_course(dice: Random) -> Course:
    """Return what happens in a simulation."""
    is_shortened, is_stormy = dice.random() < 0.3, dice.random() < 0.4
    usual: tuple[Action, ...] = ("send", "send", "send", "signal", "signal", "answer", "answer", "refuse", "pass")
    moves: tuple[Action, ...] = ("continue", "continue", "upgrade", "fork", "retry", "stop", "evict", "compact")
    moves += ("clock", "policies")
    if is_shortened:  # which refuses what needs the history
        moves = ("truncate", "truncate", "continue", "upgrade", "fork", "stop", "evict", "compact", "clock", "policies")
    count: int = dice.choice((6, 12, 25))
    actions: list[Action] = ["send"]
    actions.extend(dice.choice(usual if dice.random() < 0.65 else moves) for _ in range(count))
    continue_after = dice.choice((None, None, None, 25))
    return Course(
        actions=tuple(actions),
        breaks=not is_shortened and continue_after is None and dice.random() < 0.5,
        crashes=tuple(draw_turn(dice, _LATEST_CRASH) for _ in range(dice.choice((0, 1, 2, 4)))),
        weather=Weather(0.1, 0.1, 0.3) if is_stormy else Weather(dawdles=dice.choice((0.0, 0.2))),
        remote=dice.choice((0.0, 0.5, 1.0)),
        strategy=dice.choice((every_cycle, every_cycle, pipelined(3))),
        snapshot_every=dice.choice((1, 7) if is_shortened else (None, 1, 7)),
        continue_after=continue_after,
        memory_budget=dice.choice((None, None, 1)),
        keep_values_for=dice.choice((None, None, 0.5)),
        resident=dice.choice((None, 0)),
        store="file" if dice.random() < 0.1 else "memory",
    )

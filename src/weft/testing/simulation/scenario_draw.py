"""
Draws what happens in a simulation: a :class:`~weft.testing.simulation.scenario.Scenario`, from a random generator.

Policies are drawn so that the results of a run are the same as without them: no more attempts fail than there are
retries, limits admit everything in the end, deadlines are generous.  Only components that a trial calls *losable* get
policies that give up; the policies of the trial itself apply too.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any

import msgspec

from weft.core.workflow import Workflow
from weft.policy import DEFAULT, CircuitBreaker, ConcurrencyLimit, RateLimit
from weft.policy.policy import Policy
from weft.runner.checkpoints import Checkpoints, every_cycle, every_n, manual, on_complete, pipelined
from weft.testing.simulation.process import Weather
from weft.testing.simulation.scenario import TIGHT, TIMEOUT, Closing, Jump, Rules, Scenario, Trial

_LATEST_CRASH = 300
"""The last turn of a loop at which a crash is likely to find something to interrupt."""
_AGES = 1e8
"""A deadline that nothing reaches, in seconds."""


def draw_scenario(dice: Random, trial: Trial) -> Scenario:
    """Return a scenario for *trial*."""
    retries = dice.choice((0, 0, 1, 3))
    is_stormy = dice.random() < 0.5
    rules, others = _rules(dice, trial, retries)
    deadline = dice.choice((None, None, None, None, None, None, _AGES, TIGHT))
    return Scenario(
        strategy=_strategy(dice),
        crashes=tuple(draw_turn(dice) for _ in range(dice.choice((0, 1, 1, 2, 4)))),
        weather=Weather(0.1, 0.1, 0.3) if is_stormy else Weather(dawdles=dice.choice((0.0, 0.2))),
        runs=("a", "b", "c")[: dice.choice((1, 1, 2, 3))],
        max_concurrency=dice.choice((1, 2, 16)),
        workers=dice.choice((1, 2, 8)),
        executor="inline" if not rules and not trial.children and dice.random() < 0.5 else "thread",
        store="file" if dice.random() < 0.06 else "memory",
        components=frozenset(trial.workflow.components),
        aside=_aside(trial.workflow),
        rules=rules,
        others=others,
        retries=retries,
        flakes=dice.choice((0.0, 0.3)),
        breaks=dice.choice((0.0, 0.2, 0.5)),
        discards=dice.choice((0.0, 0.3, 1.0)),
        amends=dice.choice((0.0, 0.5)),
        refusals=dice.choice((0.0, 0.0, 0.1)),
        notices=dice.random() < 0.5,
        resumes_all=dice.random() < 0.5,
        starts_whole=dice.random() < 0.5,
        is_wanted_twice=dice.random() < 0.3,
        stops=dice.choice((0.0, 0.3)),
        cancels=dice.choice((0.0, 0.3) if trial.children else (0.0, 0.0, 0.0, 0.3)),
        interrupts=dice.choice((None, draw_turn(dice, 40))),
        rulings=dice.choice((0.0, 0.2, 0.5)),
        repeats=dice.choice((0.0, 0.3)),
        checkpoints=dice.choice((0.0, 0.3)),
        is_patient=dice.random() < 0.3,
        deadline=deadline,
        grace=dice.choice((0.0, 10.0)),
        closings=tuple(_closing(dice) for _ in range(dice.choice((0, 0, 0, 1, 2)))),
        impatience=dice.choice((0.0, 0.0, 0.3)),
        crowds=dice.choice((0.0, 0.0, 0.4)),
        starts_together=dice.random() < 0.5,
        ends=dice.choice(("open", "told", "input") if len(trial.inputs) == 1 else ("open", "told")),
        restarts=0.0 if trial.children else dice.choice((0.0, 0.0, 0.5)),
        remote=dice.choice((0.0, 0.0, 0.3, 1.0)),
        resident=dice.choice((None, 0, 1)) if trial.waits else None,
        jumps=_jumps(dice) if trial.waits and not rules and deadline is None else (),
        snapshot_every=dice.choice((None, None, 1, 7)),
        memory_budget=dice.choice((None, None, 1, 5_000)),
        keep_values_for=dice.choice((None, None, None, 0.5)),
        truncates=dice.choice((0.0, 0.0, 0.5)),
        compacts=dice.choice((0.0, 0.5)),
    )


def _jumps(dice: Random) -> tuple[Jump, ...]:
    """Return how the clock is set; attempts under policies are not watched then, since these follow the clock."""
    moments = (0.0, 0.7, 5.0, 40.0, 1_000.0)
    lengths = (-5_000.0, -100.0, -2.0, 2.0, 100.0, 5_000.0)
    return tuple(Jump(dice.choice(moments), dice.choice(lengths)) for _ in range(dice.choice((0, 0, 1, 3))))


def _closing(dice: Random) -> Closing:
    return Closing(dice.choice((0.0, 0.05, 0.5, 2.0, 8.0)), dice.choice((0.0, 0.0, 2.0, 30.0)))


def _strategy(dice: Random) -> Checkpoints:
    ahead, apart = pipelined(dice.choice((1, 3, 64))), every_n(dice.randint(1, 4))
    return dice.choice((every_cycle, every_cycle, every_cycle, ahead, apart, on_complete, manual))


def draw_turn(dice: Random, last: int = _LATEST_CRASH) -> int:
    """Return when to crash: early more often than late."""
    return int(math.exp(dice.uniform(0.0, math.log(last))))


# -- policies ------------------------------------------------------------------------------------


class _Limits(msgspec.Struct, frozen=True):
    """The limits that policies share; None where nothing is limited."""

    places: ConcurrencyLimit | None
    rate: RateLimit | None
    breaker: CircuitBreaker | None


def _limits(dice: Random) -> _Limits:
    apart = dice.choice((1.0, 10.0))
    return _Limits(
        places=dice.choice((None, None, ConcurrencyLimit("places", dice.choice((1, 2))))),
        rate=dice.choice((None, None, RateLimit("rate", dice.choice((1, 3)), apart, burst=dice.choice((1, 4))))),
        breaker=dice.choice(
            (
                None,
                None,
                CircuitBreaker(
                    "breaker",
                    failure_threshold=dice.choice((1, 3)),
                    reset_timeout=dice.choice((7.0, 5_000.0)),
                    probes=dice.choice((1, 2)),
                    on_open="wait",
                ),
            )
        ),
    )


def _aside(workflow: Workflow) -> frozenset[str]:
    """Return the nodes of loops in *workflow* for which a rule for the loop does not hold."""
    loops = {name: component for name, component in workflow.components.items() if component.kind in ("repeat", "loop")}
    tests = {f"{name}.until" for name, component in loops.items() if component.kind == "repeat"}
    return frozenset({*loops, *tests})


def _rules(dice: Random, trial: Trial, retries: int) -> tuple[Rules, Rules]:
    """Return policies for some components and a default, all with the same *retries*, and alternatives to them."""
    said = {*trial.repairable, *trial.losable, *trial.policies}
    if not retries and not said and dice.random() < 0.4:
        return (), ()
    components = trial.workflow.components
    names = [name for name in components if dice.random() < 0.4]
    names += sorted(((trial.repairable | {*trial.policies}) & set(components) | trial.patient) - set(names))
    parts = [name for name in sorted(trial.repairable - set(components)) if dice.random() < 0.4]
    limits = _limits(dice)

    def drawn() -> Rules:
        rules: list[tuple[Any, Policy]] = [(name, _lossy(dice, retries)) for name in sorted(trial.losable)]
        for name in (*parts, *names):
            policy = _policy(dice, retries, limits)
            rules.append((name, _suited(trial, name, policy)))
        return (*rules, (DEFAULT, _policy(dice, retries, _Limits(None, None, None))))

    rules = drawn()
    return rules, drawn() if dice.random() < 0.3 else rules


def _suited(trial: Trial, name: str, policy: Policy) -> Policy:
    """Return *policy* adapted to the component *name* of a trial."""
    if name in trial.repairable:
        policy = policy.merge(Policy(on_failure="dead_letter"))
    if name in trial.patient:  # it would time out if its children are slow, and hold a limit that they need
        free = Policy(timeout=None, heartbeat=None, concurrency_limit=None, circuit_breaker=None, executor=None)
        policy = policy.merge(free)
    return policy.merge(trial.policies[name]) if name in trial.policies else policy


def _policy(dice: Random, retries: int, limits: _Limits) -> Policy:
    heartbeat = dice.choice((None, None, TIMEOUT))
    return Policy(
        max_retries=retries,
        backoff=dice.choice(("none", "linear", "exponential", "jitter")),
        base_delay=dice.choice((0.001, 1.0)),
        timeout=dice.choice((None, TIMEOUT)),
        heartbeat=heartbeat,
        deadline=dice.choice((None, None, _AGES)),
        queue_timeout=dice.choice((None, None, _AGES)),
        execution_mode=dice.choice(("sync", "durable")),
        priority=dice.choice((0, 0, 5)),
        delay=dice.choice((0.0, 0.0, 0.0, 0.7)),
        checkpoint_after=dice.random() < 0.2,
        executor=dice.choice((None, None, None, "inline")) if heartbeat is None else None,
        concurrency_limit=dice.choice((None, limits.places)),
        rate_limit=dice.choice((None, limits.rate)),
        circuit_breaker=dice.choice((None, limits.breaker)),
    )


def _lossy(dice: Random, retries: int) -> Policy:
    """Return a policy under which a component may produce nothing."""
    policy = _policy(dice, retries, _Limits(None, None, None))
    changes: tuple[dict[str, Any], ...] = (
        {"deadline": 2.0},
        {"queue_timeout": 0.5},
        {"circuit_breaker": CircuitBreaker("loose", failure_threshold=2, reset_timeout=5_000.0)},
        {"circuit_breaker": CircuitBreaker("skipped", failure_threshold=1, reset_timeout=7.0, on_open="skip")},
        {"on_failure": "skip"},
    )
    return policy.merge(Policy(**dice.choice(changes)))

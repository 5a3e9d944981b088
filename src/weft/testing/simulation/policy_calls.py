"""
What the functions of policies were asked in a simulation: fallbacks and compensations.

Both are asked about a failure, once for each time that an attempt has brought it about: a process that dies with the
answer makes another attempt first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal, cast

import msgspec

from weft.core import events as ev
from weft.policy.fallback import ask
from weft.runner.execution.policy_call import PolicyCall
from weft.testing.simulation.executor import Ending

Kind = Literal["fallback", "compensation"]


class Question(msgspec.Struct):
    """One that was asked."""

    run: str
    kind: Kind
    name: str
    """About what."""
    error: str
    """What that failed with."""
    attempts: int
    """How many attempts had begun by then."""
    durable: int
    """How many events of its run were durable."""
    ending: Ending | None = None
    """None, if the process died first."""


def question(policy_call: PolicyCall, *, attempts: int, durable: int) -> Question:
    """Return what *inquiry* is about."""
    call = cast("partial[Any]", policy_call.question)
    kind: Kind = "fallback" if call.func is ask else "compensation"
    error = str(call.args[-1])
    return Question(policy_call.run_id, kind, f"{policy_call.component}{policy_call.inputs}", error, attempts, durable)


def repeated(before: Sequence[Question], new: Question) -> Iterator[str]:
    """Yield what is wrong with asking *new* after all that was asked *before* about the same runnable."""
    for known in before:
        if known.kind == new.kind and known.attempts == new.attempts:
            yield f"{new.run}: the {new.kind} of {new.name} was asked again, and nothing was attempted since"


def misled(asked: Sequence[Question], last: Any, *, retries: int | None) -> Iterator[str]:
    """
    Yield what is wrong with what was *asked* about a runnable.

    Args:
        last: how it ended in the log.
        retries: how many it had; None if nobody knows.
    """
    for each in asked:
        if each.durable >= last.seq:
            yield f"the {each.kind} of {each.name} was asked when the outcome was durable"
        if retries is not None and each.attempts <= retries and each.kind == "fallback":
            yield f"the fallback of {each.name} was asked after {each.attempts} attempts, with {retries} retries"
    undone = [each for each in asked if each.kind == "compensation"]
    is_compensated = isinstance(last, ev.RunnableFailed) and last.on_failure == "compensate"
    name = f"{last.component}{last.inputs}"
    if is_compensated and not any(_is_about(each, last.error.message) for each in undone):
        yield f"{name} says that it was compensated for {last.error.message!r}, and was for {undone}"
    if undone and not is_compensated:
        yield f"{name} was compensated, and the log does not say so"


def _is_about(asked: Question, error: str) -> bool:
    """Whether somebody made up for *error*, or has tried to."""
    return asked.error == error and asked.ending in ("completed", "failed")

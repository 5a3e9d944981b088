"""
Checks the calls of the functions of policies in a simulation: fallbacks and compensations.

Both are called for a failure, once for each time that an attempt has caused it: after a process died with the answer,
another attempt is made first.
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
    """One call of a function of a policy."""

    run: str
    kind: Kind
    name: str
    """The name of the runnable it is about."""
    error: str
    """The error of the runnable."""
    attempts: int
    """How many attempts had begun by then."""
    durable: int
    """How many events of its run were durable."""
    ending: Ending | None = None
    """None, if the process died first."""


def question(policy_call: PolicyCall, *, attempts: int, durable: int) -> Question:
    """Return the runnable that *inquiry* is about."""
    call = cast("partial[Any]", policy_call.question)
    kind: Kind = "fallback" if call.func is ask else "compensation"
    error = str(call.args[-1])
    return Question(policy_call.run_id, kind, f"{policy_call.component}{policy_call.inputs}", error, attempts, durable)


def repeated(before: Sequence[Question], new: Question) -> Iterator[str]:
    """Yield what is wrong with the call *new* after the calls *before* for the same runnable."""
    for known in before:
        if known.kind == new.kind and known.attempts == new.attempts:
            yield f"{new.run}: the {new.kind} of {new.name} was called again, and nothing was attempted since"


def misled(asked: Sequence[Question], last: Any, *, retries: int | None) -> Iterator[str]:
    """
    Yield what is wrong with the calls *asked* for a runnable.

    Args:
        last: how it ended in the log.
        retries: how many it had; None if unknown.
    """
    for each in asked:
        if each.durable >= last.seq:
            yield f"the {each.kind} of {each.name} was called when the outcome was durable"
        if retries is not None and each.attempts <= retries and each.kind == "fallback":
            yield f"the fallback of {each.name} was called after {each.attempts} attempts, with {retries} retries"
    undone = [each for each in asked if each.kind == "compensation"]
    is_compensated = isinstance(last, ev.RunnableFailed) and last.on_failure == "compensate"
    name = f"{last.component}{last.inputs}"
    if is_compensated and not any(_is_about(each, last.error.message) for each in undone):
        yield f"{name} says that it was compensated for {last.error.message!r}, and was for {undone}"
    if undone and not is_compensated:
        yield f"{name} was compensated, and the log does not say so"


def _is_about(asked: Question, error: str) -> bool:
    """Return whether *error* was compensated, or the compensation was tried."""
    return asked.error == error and asked.ending in ("completed", "failed")

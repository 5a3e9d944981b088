"""
The workflow of a long-lived run, in two versions.

Each input waits for a person and for another system, sleeps, writes to a stream, becomes a value that is stored apart
from its event, and may fail until that is repaired; a state notes what came of it.
"""

from __future__ import annotations

from typing import Any, Final

from weft.core.components.accumulator import accumulator
from weft.core.components.sleep import sleep
from weft.core.components.step import step
from weft.core.components.wait_for import wait_for
from weft.core.functions.current import current
from weft.core.functions.references import context
from weft.core.workflow import Workflow
from weft.policy.policy import Policy

NAP: Final = 30.0
"""How many seconds each input sleeps for."""
ITEMS: Final = 5
"""How many items each input brings to the stream."""

LARGE: Final = 5_000
"""How many bytes a large value has: more than an event holds."""


def _note(noted: tuple[Any, ...], x: Any) -> tuple[Any, ...]:
    """Add to a state."""
    return (*noted, x)


def _ask(_: int, outside: Any = context("outside")) -> Any:  # noqa: B008 - as steps do
    """Hand out a token."""
    outside.setdefault(current().token, None)


def _speak(x: int) -> int:
    """Write to a stream."""
    stream = current().stream("words")
    for number in range(ITEMS):
        stream.write((x, number))
    return x


def _load(x: int) -> bytes:
    """Return a large value, which several inputs have in common, so that it is stored once."""
    return content_of(x) * LARGE


def _look(value: bytes) -> bytes:
    """Return what is left of a large value that has waited."""
    return value[:1] if len(value) == LARGE and len({*value}) == 1 else b"something else"


def content_of(x: int) -> bytes:
    """Return what is left of the large value of an input."""
    return bytes([x % 3])


def _try(x: int, broken: Any = context("broken")) -> int:  # noqa: B008 - as steps do
    """Fail until it is repaired."""
    if x in broken:
        raise ValueError(f"{x} does not work yet")
    return x


def _add(x: int) -> int:
    """Be what only the second version does."""
    return x


def _noted(name: str) -> Any:
    return accumulator(_note, init=(), name=name)


def _version(number: int) -> Workflow:
    """Return a version of the workflow: the second one has a component more."""
    more = [step(_add, name="add") >> _noted("added")] if number == 2 else []
    policy = Policy(execution_mode="external", max_retries=1_000)
    return Workflow(
        "long",
        _noted("inputs"),
        step(_ask, name="ask") >> _noted("answers"),
        wait_for("go") >> _noted("signals"),
        sleep(NAP, name="nap") >> _noted("woken"),
        step(_speak, name="speak") >> _noted("spoken"),
        step(_load, name="load") >> sleep(NAP, name="rest") >> step(_look, name="look") >> _noted("looked"),
        step(_try, name="try") >> _noted("tried"),
        *more,
        policies=[("ask", policy)],
    )


VERSIONS: Final = (_version(1), _version(2))
"""The versions of the workflow: a run begins with the first, and is upgraded to the other one and back."""

"""The inspector: everything about the chosen component, its value, its attempts, its causes and effects, its policy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from weft.core import events as ev
from weft.core.components.schema import json_schema
from weft.core.components.wait_for import WaitFor
from weft.core.diagrams.run_status import progress_of
from weft.core.draw.progress import Progress
from weft.core.functions.unresolved import Unresolved
from weft.core.lineage.fact import Fact
from weft.core.run.run import Run
from weft.typing import Address
from weft.views import value_tree
from weft.views.event_text import state_after
from weft.views.form import Field, form_fields
from weft.views.text import shown

ELEMENTS: Final = 60
"""How many activations of one component a page lists."""
CAUSES: Final = 12


class Step(msgspec.Struct, frozen=True):
    """One activation of the chosen component."""

    seq: int
    index: int | None
    state: str
    seconds: float
    attempts: int
    value: str
    error: str = ""


class Chosen(msgspec.Struct, frozen=True):
    """Everything about the chosen component."""

    name: str
    kind: str
    progress: Progress
    value: Any
    """The tree of its latest value; None if there is none, or it is hidden."""
    has_value: bool
    attempts: tuple[Step, ...]
    traceback: str
    causes: tuple[tuple[str, str], ...]
    """Components and what they gave, nearest first."""
    effects: tuple[tuple[str, str], ...]
    policy: str
    function: str
    waits_for: str | None
    expects: str
    """The type that the value of the signal must have."""
    fields: tuple[Field, ...]
    """The form for that value."""


def inspected(run: Run, name: str, progress: Progress, *, may_see: bool) -> Chosen:
    """Return what the inspector shows of the component *name*."""
    memory = run.memory
    component, node = memory.workflow.components.get(name), memory.plan.nodes.get(name)
    endings = [event for event in memory.log if isinstance(event, ev.ENDINGS) and event.component == name]
    failed = [event for event in memory.log if isinstance(event, ev.AttemptFailed) and event.component == name]
    failure = next((event for event in reversed(endings) if isinstance(event, ev.RunnableFailed)), None)
    last = next(reversed(endings), None) or next(reversed(failed), None)
    facts = _facts(run, name)
    wait = getattr(node, "wait", None)
    shown_steps = [*_worst(endings), *failed[-ELEMENTS:]]
    return Chosen(
        name,
        component.kind if component is not None else "part",
        progress,
        value_tree(facts[-1].value) if facts and may_see else None,
        bool(facts),
        tuple(_step(event, may_see=may_see) for event in sorted(shown_steps, key=lambda each: each.seq)),
        failure.error.traceback if failure is not None else "",
        tuple(_causes(facts[-1], may_see=may_see)) if facts else tuple(_expected(run, name, last, may_see=may_see)),
        tuple(_effects(run, name)),
        policy_text(run, name),
        _function(node),
        wait.signal if wait is not None else None,
        *_asked(component, wait),
    )


def _asked(component: Any, wait: Any) -> tuple[str, tuple[Field, ...]]:
    """Return what a wait asks for, in a word, and as the fields of a form."""
    if wait is None or wait.schema is None:
        return "", ()
    kind = wait.schema
    name = dict(kind.reference)["name"] if isinstance(kind, Unresolved) else getattr(kind, "__name__", str(kind))
    if isinstance(component, WaitFor) and component.schema is not None:
        described = component.schema.json
    else:
        described = {} if isinstance(kind, Unresolved) else json_schema(kind)
    return name, tuple(form_fields(described))


def _facts(run: Run, name: str) -> list[Fact]:
    addresses = run.memory.lineage.index().get(name, [])
    return [run.memory.lineage.fact(address) for address in addresses[-1:]]


def _worst(endings: list[Any]) -> list[Any]:
    """Return the activations to list: all of a few; of many those that failed, and those that took longest."""
    if len(endings) <= ELEMENTS:
        return endings
    failed = [event for event in endings if isinstance(event, ev.RunnableFailed)][:ELEMENTS]
    rest = sorted((e for e in endings if e not in failed), key=lambda each: -getattr(each, "duration_ns", 0))
    return [*failed, *rest[: ELEMENTS - len(failed)]]


def _step(event: Any, *, may_see: bool) -> Step:
    address: Address = event.inputs[0] if event.inputs else 0
    index = None if isinstance(address, int) else address[1]
    error = getattr(event, "error", None)
    attempts = getattr(event, "attempts", 0) or getattr(event, "attempt", 0) or 1
    value = shown(event.value, longest=80) if may_see and hasattr(event, "value") else ""
    text = "" if error is None else f"{error.type}: {error.message}" if error.message else error.type
    return Step(event.seq, index, state_after(event), getattr(event, "duration_ns", 0) / 1e9, attempts, value, text)


def _causes(fact: Fact, *, may_see: bool) -> Iterable[tuple[str, str]]:
    """Yield the facts that *fact* came from, nearest first, each component once."""
    seen: set[str] = set()
    stack = list(fact.parents)
    while stack and len(seen) < CAUSES:
        one = stack.pop(0)
        name = one.producer or (f"signal {one.signal}" if one.signal else "INPUT")
        if name not in seen:
            seen.add(name)
            yield name, shown(one.value, longest=60) if may_see else "hidden"
        stack.extend(one.parents[:CAUSES])


def _expected(run: Run, name: str, last: Any, *, may_see: bool) -> Iterable[tuple[str, str]]:
    """Yield what one that has produced nothing was called with, or else the components that feed it."""
    if last is not None:
        for address in last.inputs[:CAUSES]:
            fact = run.memory.lineage.fact(address)
            yield fact.producer or "INPUT", shown(fact.value, longest=60) if may_see else "hidden"
        return
    for inlet in run.memory.workflow.wiring.fed_by(name):
        for parent in inlet.parents:
            yield parent, ""


def _effects(run: Run, name: str) -> Iterable[tuple[str, str]]:
    """Yield the components that *name* feeds, and how they stand."""
    progress = progress_of(run.memory)
    for other in run.memory.workflow.components:
        if any(name in inlet.parents for inlet in run.memory.workflow.wiring.fed_by(other)):
            yield other, progress[other].summary or "not reached"


def policy_text(run: Run, name: str) -> str:
    """Return which rule holds for the component *name* in this run, and what it says."""
    try:
        return str(run.explain_policy(name))
    except Exception as error:  # noqa: BLE001 - a policy of code that is not here cannot be explained, which is said
        return f"cannot be explained here: {error}"


def _function(node: Any) -> str:
    function = getattr(getattr(node, "component", None), "function", None)
    code = getattr(function, "function", function)
    module, name = getattr(code, "__module__", None), getattr(code, "__qualname__", None)
    return f"{module}.{name}" if module and name else ""

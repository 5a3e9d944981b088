"""The inspector: everything about the chosen component, its value, its attempts, its causes and effects, its policy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from weft.core import events as ev
from weft.core.components.schema import json_schema
from weft.core.components.wait_for import WaitFor
from weft.core.diagrams.run_status import progress_of
from weft.core.draw.progress import Progress, duration
from weft.core.functions.unresolved import Unresolved
from weft.core.lineage.fact import Fact
from weft.core.run.run import Run
from weft.typing import Address
from weft.views import value_tree
from weft.views.elements import place_of
from weft.views.event_text import state_after
from weft.views.form import Field, form_fields
from weft.views.hidden import as_it_is, hidden_event
from weft.views.text import error_text, short_type, shown
from weft.views.times import time_of
from weft.views.traceback_view import TracebackPart, traceback_parts
from weft.web.value_page import fact_of

ELEMENTS: Final = 60
"""How many activations of one component a page lists."""
CAUSES: Final = 12
"""How many facts that one came from are followed."""
MOST_CAUSES: Final = 40
"""How many lines the tree of causes has."""


class Step(msgspec.Struct, frozen=True):
    """One activation of the chosen component, or one attempt that failed."""

    seq: int
    index: int | None
    state: str
    seconds: float
    attempts: int
    value: str
    error: str = ""
    retry: str = ""
    """When it was tried again, of an attempt that failed."""
    at: float | None = None
    """When it ended, in seconds since the epoch, if the log says so."""


class Cause(msgspec.Struct, frozen=True):
    """A fact that another one came from."""

    depth: int
    name: str
    value: str
    seq: int | None
    is_repeated: bool = False
    """Whether what it came from is shown further up."""


class Chosen(msgspec.Struct, frozen=True):
    """Everything about the chosen component, or about one of its elements."""

    name: str
    kind: str
    progress: Progress
    element: int | None
    value: Any
    """The tree of its latest value; None if there is none, or it is hidden."""
    has_value: bool
    attempts: tuple[Step, ...]
    tried: int
    """How many activations and failed attempts there are."""
    error: str
    traceback: tuple[TracebackPart, ...]
    called_with: tuple[tuple[str, str], ...]
    causes: tuple[Cause, ...]
    """The facts that it came from, as a tree: each after the one that it leads to."""
    effects: tuple[tuple[str, str], ...]
    elements: int
    """How many elements it has ended with; 0 outside a map."""
    policy: str
    decided: str
    """The rule of the policies that holds for it."""
    key: str
    """The idempotency key that all attempts of what is shown have; empty if a function of the application makes it."""
    function: str
    definition: str
    """The hash of the workflow, which covers the code."""
    waits_for: str | None
    expects: str
    """The type that the value of the signal must have."""
    fields: tuple[Field, ...]
    """The form for that value."""

    @property
    def tabs(self) -> list[tuple[str, str]]:
        """The tabs: what the address calls each, and its label."""
        found = [("value", "Failure" if self.error and not self.has_value else "Value")]
        found += [("causes", "Causes"), ("effects", f"Effects {len(self.effects)}" if self.effects else "Effects")]
        found += [("attempts", f"Attempts {self.tried:,}" if self.tried else "Attempts")]
        if self.elements:
            found.append(("elements", f"Elements {self.elements:,}"))
        return [*found, ("policy", "Policy"), ("code", "Code")]


def inspected(run: Run, name: str, progress: Progress, *, may_see: bool, element: int | None = None) -> Chosen:
    """Return what the inspector shows of the component *name*, or of what it made of one element."""
    memory = run.memory
    component, node = memory.workflow.components.get(name), memory.plan.nodes.get(name)
    see = as_it_is if may_see else hidden_event
    endings = [see(event) for event in memory.log if isinstance(event, ev.ENDINGS) and event.component == name]
    failed = [see(event) for event in memory.log if isinstance(event, ev.AttemptFailed) and event.component == name]
    elements = len(endings) if progress.of is not None else 0
    one = None if element is None else place_of(run, name, element)
    if one is not None:
        endings, failed = [see(one)], [event for event in failed if event.inputs == one.inputs]
    is_failed = progress.state == "failed" or one is not None  # else a retry has made it good
    failure = next((event for event in reversed(endings) if isinstance(event, ev.RunnableFailed)), None)
    failure = failure if is_failed else None
    last = failure or next(reversed(endings), None) or next(reversed(failed), None)
    fact = fact_of(run, name, None if one is None else element)
    wait = getattr(node, "wait", None)
    shown_steps = [*_worst(endings), *failed[-ELEMENTS:]]
    error = error_text(failure.error) if failure is not None else ""
    return Chosen(
        name,
        component.kind if component is not None else "part",
        progress,
        None if one is None else element,
        value_tree(fact.value) if fact is not None and may_see else None,
        fact is not None,
        tuple(_step(event, may_see=may_see) for event in sorted(shown_steps, key=lambda each: each.seq)),
        len(endings) + len(failed),
        error if one is not None or not is_failed else error or short_error(progress.error),
        tuple(traceback_parts(failure.error.traceback)) if failure is not None else (),
        tuple(_called_with(run, last, may_see=may_see)),
        tuple(_causes(run, None if failure is not None else fact, name, last, may_see=may_see)),
        tuple(_effects(run, name)),
        elements,
        policy_text(run, name),
        policy_text(run, name).partition(", says ")[0],
        _key(run, name, last),
        _function(node),
        str(getattr(memory.workflow, "hash", "")),
        wait.signal if wait is not None else None,
        *_asked(component, wait),
    )


def short_error(text: str) -> str:
    """Return an error with its type without the module."""
    kind, colon, message = text.partition(": ")
    return f"{short_type(kind)}{colon}{message}" if " " not in kind else text


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


def _worst(endings: list[Any]) -> list[Any]:
    """Return the activations to list: all of a few; of many those that failed, and those that took longest."""
    if len(endings) <= ELEMENTS:
        return endings
    failed = [event for event in endings if isinstance(event, ev.RunnableFailed)][:ELEMENTS]
    others = (event for event in endings if not isinstance(event, ev.RunnableFailed))
    rest = sorted(others, key=lambda each: -getattr(each, "duration_ns", 0))
    return [*failed, *rest[: ELEMENTS - len(failed)]]


def _step(event: Any, *, may_see: bool) -> Step:
    address: Address = event.inputs[0] if event.inputs else 0
    index = None if isinstance(address, int) else address[1]
    error = getattr(event, "error", None)
    attempts = getattr(event, "attempts", 0) or getattr(event, "attempt", 0) or 1
    value = shown(event.value, longest=80) if may_see and hasattr(event, "value") else ""
    text = "" if error is None else error_text(error)
    retry = "none left" if isinstance(event, ev.RunnableFailed) else ""
    if isinstance(event, ev.AttemptFailed):
        retry = f"in {duration(event.retry_at - event.at)}" if event.retry_at > event.at > 0 else "at once"
    took = getattr(event, "duration_ns", 0) / 1e9
    return Step(event.seq, index, state_after(event), took, attempts, value, text, retry, time_of(event))


def _key(run: Run, name: str, last: Any) -> str:
    """Return the idempotency key of what the event *last* ended; empty if there is none, or a function makes it."""
    if last is None or not isinstance(last, ev.AttemptFailed | ev.RunnableFailed | ev.ReactionOccurred):
        return ""
    try:
        own = run.explain_policy(name).policy.idempotency_key
    except Exception:  # noqa: BLE001 - a policy of code that is not here
        return ""
    return run.memory.lineage.idempotency_key(run.id, name, last.inputs) if own is None else ""


def _causes(run: Run, fact: Fact | None, name: str, last: Any, *, may_see: bool) -> Iterable[Cause]:
    """Yield what *fact* came from, as a tree; of what has produced nothing, what it was called with or waits for."""
    if fact is not None:
        parents = list(fact.parents)
    elif last is not None:
        parents = [run.memory.lineage.fact(address) for address in last.inputs[:CAUSES]]
    else:
        for inlet in run.memory.workflow.wiring.fed_by(name):
            yield from (Cause(0, parent, "", None) for parent in inlet.parents)
        return
    seen: set[str] = set()
    stack = [(0, parent) for parent in reversed(parents[:CAUSES])]
    lines = 0
    while stack and lines < MOST_CAUSES:
        depth, one = stack.pop()
        known = one.producer or (f"signal {one.signal}" if one.signal else "INPUT")
        value = shown(one.value, longest=60) if may_see else "hidden"
        lines += 1
        yield Cause(depth, known, value, getattr(one, "seq", None), known in seen)
        if known not in seen:
            seen.add(known)
            others = {(each.producer or each.signal): each for each in reversed(one.parents[:CAUSES])}
            stack += [(depth + 1, each) for each in others.values()]


def _called_with(run: Run, last: Any, *, may_see: bool) -> Iterable[tuple[str, str]]:
    for address in () if last is None else last.inputs[:CAUSES]:
        fact = run.memory.lineage.fact(address)
        yield fact.producer or "input", shown(fact.value, longest=120) if may_see else "hidden"


def _effects(run: Run, name: str) -> Iterable[tuple[str, str]]:
    """Yield the components that *name* feeds, and their states."""
    progress = progress_of(run.memory)
    for other in run.memory.workflow.components:
        if any(name in inlet.parents for inlet in run.memory.workflow.wiring.fed_by(other)):
            yield other, progress[other].summary or "not reached"


def policy_text(run: Run, name: str) -> str:
    """Return which rule holds for the component *name* in this run, and what it says."""
    try:
        return str(run.explain_policy(name)).removeprefix(f"{name}: ")
    except Exception as error:  # noqa: BLE001 - a policy of code that is not here cannot be explained, which is said
        return f"cannot be explained here: {error}"


def _function(node: Any) -> str:
    function = getattr(getattr(node, "component", None), "function", None)
    code = getattr(function, "function", function)
    module, name = getattr(code, "__module__", None), getattr(code, "__qualname__", None)
    return f"{module}.{name}" if module and name else ""

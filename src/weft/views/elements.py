"""
The elements of a map, as one component saw them: how they ended, how long they took, and a page of those that match.

    >>> from weft import Runner, Workflow, each, step
    >>> with Runner() as runner:
    ...     upper = each(step(str.upper, name="up"))
    ...     run = runner.start(Workflow("w", step(list, name="split") >> upper), "abc").wait()
    >>> found = elements(run, "up", text=repr)
    >>> found.of, found.counts, [(element.index, element.state, element.text) for element in found.page]
    (3, {'done': 3}, [(0, 'done', "'A'"), (1, 'done', "'B'"), (2, 'done', "'C'")])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from weft.core import events as ev
from weft.views.event_text import state_after
from weft.views.text import error_text

if TYPE_CHECKING:
    from weft.core.run.run import Run

PAGE: Final = 50
STRIP: Final = 40
"""How many bars the strip of durations has."""
_WORST: Final = {"failed": 0, "cancelled": 1, "gated": 2, "skipped": 2}


class Element(msgspec.Struct, frozen=True):
    """One element: the event with which the component ended for it, and the outcome."""

    index: int
    seq: int
    state: str
    seconds: float
    attempts: int
    text: str
    """Its value, or its error."""


class Elements(msgspec.Struct, frozen=True):
    """All elements in figures, and a page of those that were searched for."""

    of: int
    """How many have ended."""
    counts: dict[str, int]
    """By state, the worst first."""
    strip: tuple[float, ...]
    """Seconds at evenly spaced shares of the elements, the shortest first."""
    percentiles: dict[str, float]
    found: int
    """How many fit what was searched for."""
    page: tuple[Element, ...]
    start: int


def elements(
    run: Run,
    name: str,
    *,
    text: Callable[[Any], str],
    see: Callable[[Any], Any] = lambda event: event,
    search: str = "",
    state: str = "",
    start: int = 0,
    count: int = PAGE,
) -> Elements:
    """
    Return the elements that the component *name* has ended with.

    Args:
        text: how a value is shown.
        see: returns of an event what may be seen of it.
        search: only elements with this index, or with this in their value or error.
        state: only elements in this state.
        start: how many of those that fit come before the page; those that failed come first, then the slowest.
    """
    endings = [(index, see(event)) for index, event in _endings(run, name)]
    states: dict[str, int] = {}
    for _, event in endings:
        each = state_after(event)
        states[each] = states.get(each, 0) + 1
    times = sorted(getattr(event, "duration_ns", 0) / 1e9 for _, event in endings)
    wanted = [pair for pair in endings if _fits(pair, search.strip().lower(), state, text)]
    if len(endings) > count:
        wanted.sort(key=lambda pair: (_WORST.get(state_after(pair[1]), 9), -getattr(pair[1], "duration_ns", 0)))
    page = tuple(_element(index, event, text) for index, event in wanted[start : start + count])
    counts = dict(sorted(states.items(), key=lambda pair: _WORST.get(pair[0], 9)))
    return Elements(len(endings), counts, _strip(times), _percentiles(times), len(wanted), page, start)


def place_of(run: Run, name: str, element: int) -> Any | None:
    """Return the event with which *name* was done with the element of this index last; None if there is none."""
    return next((event for index, event in reversed(list(_endings(run, name))) if index == element), None)


def _endings(run: Run, name: str) -> Iterable[tuple[int, Any]]:
    """Yield index and ending of every element that *name* has ended with; inside a map an index is handed on."""
    indices: dict[int, int] = {}
    for event in run.memory.log:
        if not isinstance(event, ev.ENDINGS) or not event.inputs:
            continue
        address = event.inputs[0]
        index = indices.get(address) if isinstance(address, int) else address[1]
        if index is None:
            continue
        indices[event.seq] = index
        if event.component == name:
            yield index, event


def _fits(pair: tuple[int, Any], search: str, state: str, text: Callable[[Any], str]) -> bool:
    index, event = pair
    if state and state_after(event) != state:
        return False
    return not search or search == str(index) or search in _text(event, text).lower()


def _text(event: Any, text: Callable[[Any], str]) -> str:
    error = getattr(event, "error", None)
    if error is not None:
        return error_text(error)
    return text(event.value) if hasattr(event, "value") else str(getattr(event, "reason", ""))


def _element(index: int, event: Any, text: Callable[[Any], str]) -> Element:
    attempts = getattr(event, "attempts", 0) or getattr(event, "attempt", 0) or 1
    seconds = getattr(event, "duration_ns", 0) / 1e9
    return Element(index, event.seq, state_after(event), seconds, attempts, _text(event, text))


def _strip(times: list[float]) -> tuple[float, ...]:
    if len(times) < 2:
        return ()
    bars = min(STRIP, len(times))
    return tuple(times[round(place * (len(times) - 1) / (bars - 1))] for place in range(bars))


def _percentiles(times: list[float]) -> dict[str, float]:
    if not times:
        return {}
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: percentile(times, share) for name, share in shares.items()}


def percentile(ordered: list[float], share: float) -> float:
    """
    Return the smallest of *ordered*, in ascending order, that *share* of them do not exceed.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5), percentile([1.0, 2.0, 3.0, 4.0], 0.99)
    (2.0, 4.0)
    """
    return ordered[max(0, math.ceil(len(ordered) * share - 1e-9) - 1)]

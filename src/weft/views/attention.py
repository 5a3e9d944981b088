"""
The parts of a run that need attention, the most urgent first: one line for each, with the action that fits.

    >>> from weft import Runner, Workflow, step
    >>> def charge(card):
    ...     raise ValueError("declined")
    >>> with Runner() as runner:
    ...     handle = runner.start(Workflow("pay", step(charge) >> step(str, name="receipt")), "4711")
    ...     _ = runner.wait(handle)
    ...     [line] = attention(runner.get(handle), runner.find(handle.id), now=0.0)
    >>> line.component, line.text, line.error, line.detail, line.action
    ('charge', 'failed', 'ValueError: declined', 'receipt cannot start', 'retry')
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import msgspec

from weft.core import events as ev
from weft.core.diagrams.run_status import progress_of
from weft.core.draw.progress import Progress, State, duration
from weft.errors import StepCancelled
from weft.ports.store import RunRecord
from weft.views.order import in_order
from weft.views.text import count

if TYPE_CHECKING:
    from weft.core.run.run import Run

Action = Literal["", "retry", "answer", "resume"]
"""An action of a person: retry the run, answer a signal, or resume a run that is parked."""

CANCELLED = f"{StepCancelled.__module__}.{StepCancelled.__qualname__}"
"""The error of a step that a caller has cancelled."""

MOST = 20
"""How many lines there are at most."""

STRIP = 24
"""How many cells a strip has at most."""


class Attention(msgspec.Struct, frozen=True):
    """One thing that a person should know about a run."""

    state: State | Literal["parked", "cancelled"]
    text: str
    """The fact itself, without the component and the error."""
    component: str | None = None
    error: str = ""
    detail: str = ""
    """The components that it holds back, or until when it waits."""
    action: Action = ""
    share: float | None = None
    """How much is done of what is counted, between 0 and 1."""


class Cell(msgspec.Struct, frozen=True):
    """One component in the strip of a run."""

    component: str
    state: State


def strip(run: Run) -> tuple[Cell, ...]:
    """Return the components of *run* in the order of its graph; of a large graph those that say most."""
    progress = progress_of(run.memory)
    cells = [Cell(name, progress[name].state) for name in in_order(run.memory.workflow)]
    if len(cells) <= STRIP:
        return tuple(cells)
    telling = [cell for cell in cells if cell.state not in ("done", "unreached")]
    spare = STRIP - len(telling)
    kept = {id(cell) for cell in telling[:STRIP]}
    for cell in cells:
        if spare > 0 and id(cell) not in kept:
            kept.add(id(cell))
            spare -= 1
    return tuple(cell for cell in cells if id(cell) in kept)


def attention(run: Run, record: RunRecord, *, now: float) -> list[Attention]:
    """
    Return what needs attention in *run*.

    Args:
        record: what the store knows of the run.
        now: the present, in seconds since the epoch.
    """
    progress = progress_of(run.memory)
    found = [
        *_parked(record),
        *_failed(run, progress),
        *_waiting(run, now),
        *_retried(run, now),
        *_cancelled(run),
        *_counted(progress),
    ]
    return found[:MOST]


def notes(run: Run, progress: dict[str, Progress], *, now: float) -> dict[str, str]:
    """Return, by component of *run*, why it failed, what it waits for, or when it is tried again, in words."""
    found: dict[str, str] = {}
    for line in (*_failed(run, progress), *_waiting(run, now), *_retried(run, now)):
        if line.component is not None:
            text = f"{line.text}: {line.error}" if line.error else line.text
            found.setdefault(line.component, f"{text}, {line.detail}" if line.detail else text)
    return found


def _parked(record: RunRecord) -> Iterable[Attention]:
    if record.status == "parked":
        yield Attention("parked", "parked", error=record.reason, action="resume")


def _failed(run: Run, progress: dict[str, Progress]) -> Iterable[Attention]:
    """Yield the failures that nothing has handled, one line for each component."""
    memory = run.memory
    letters = {letter.event.component for letter in (memory.letters or {}).values()}
    by_component: dict[str, list[ev.RunnableFailed]] = {}
    for event in (*(memory.failures or {}).values(), *memory.dead_letters):
        known = by_component.setdefault(event.component, [])
        if event not in known:
            known.append(event)
    for name, events in by_component.items():
        last = events[-1]
        text = "failed" if last.attempts == 1 else f"failed after {count(last.attempts, 'attempt')}"
        if len(events) > 1:
            text = f"failed {len(events):,} times"
        if name in letters:
            text += ", kept as a dead letter"
        held_back = _held_back(run, name, progress)
        if all(map(is_cancelled, events)):
            text = text.replace("failed", "cancelled", 1)
            yield Attention("cancelled", text, name, last.error.message, held_back, "retry")
            continue
        error = f"{last.error.type}: {last.error.message}" if last.error.message else last.error.type
        yield Attention("failed", text, name, error, held_back, "retry")


def is_cancelled(event: object) -> bool:
    """Whether *event* is the failure of a step that a caller has cancelled; its message says who, and why."""
    return isinstance(event, ev.RunnableFailed) and event.error.type == CANCELLED


def _held_back(run: Run, name: str, progress: dict[str, Progress]) -> str:
    """Return which components cannot start because *name* has not ended well."""
    wiring = run.memory.workflow.wiring
    children = [
        other
        for other in run.memory.workflow.components
        if progress[other].state == "unreached" and any(name in inlet.parents for inlet in wiring.fed_by(other))
    ]
    if not children:
        return ""
    shown = " and ".join(children) if len(children) < 3 else f"{', '.join(children[:2])} and {len(children) - 2} more"
    return f"{shown} cannot start"


def _waiting(run: Run, now: float) -> Iterable[Attention]:
    for (name, _), waiting in (run.memory.waiting or {}).items():
        wait, due = waiting.activation.node.wait, waiting.next_at
        left = None if due is None else max(0.0, due - now)
        if waiting.attempt:
            detail = "no timeout" if left is None else f"times out in {duration(left)}"
            yield Attention("waiting", "waits for a completion from outside", name, detail=detail)
        elif wait is None or wait.signal is None:
            yield Attention("waiting", "sleeps" if left is None else f"sleeps for another {duration(left)}", name)
        else:
            detail = "no timeout" if left is None else f"times out in {duration(left)}"
            yield Attention("waiting", f"waits for the signal {wait.signal!r}", name, detail=detail, action="answer")


def _retried(run: Run, now: float) -> Iterable[Attention]:
    """Yield what has failed and is tried again."""
    memory = run.memory
    last: dict[str, ev.AttemptFailed] = {}
    for event in memory.log if memory.attempts else ():
        if isinstance(event, ev.AttemptFailed) and (event.component, event.inputs) in (memory.attempts or {}):
            last[event.component] = event
    for name, event in last.items():
        error = f"{event.error.type}: {event.error.message}" if event.error.message else event.error.type
        following = f"next attempt in {duration(event.retry_at - now)}" if event.retry_at > now else ""
        yield Attention("running", f"attempt {event.attempt} failed", name, error, following)


def _cancelled(run: Run) -> Iterable[Attention]:
    for event in reversed(run.memory.log):
        if isinstance(event, ev.RunCancelled):
            by = f" by {event.by}" if event.by else ""
            yield Attention("cancelled", f"cancelled{by}", error=event.reason)
            return


def _counted(progress: dict[str, Progress]) -> Iterable[Attention]:
    """Yield how far maps are."""
    for name, each in progress.items():
        if each.of and each.state in ("running", "ready", "waiting") and each.done < each.of:
            failed = f"{each.failed:,} failed" if each.failed else ""
            yield Attention("running", f"{each.done:,} of {each.of:,}", name, detail=failed, share=each.done / each.of)

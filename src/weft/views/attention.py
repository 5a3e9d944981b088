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

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from weft.core import events as ev
from weft.core.components.saga_outcome import SagaOutcome
from weft.core.diagrams.run_status import progress_of
from weft.core.draw.progress import Progress, State, duration
from weft.core.run.deadlines import open_deadlines
from weft.errors import StepCancelled
from weft.ports.store import DUE, RunRecord
from weft.views.order import in_order
from weft.views.text import ago, count, error_text, word
from weft.views.times import time_of

if TYPE_CHECKING:
    from weft.core.run.run import Run

Action = Literal["", "retry", "answer", "resume"]
"""An action of a person: retry the run, answer a signal, or resume a run that is parked."""

CANCELLED = f"{StepCancelled.__module__}.{StepCancelled.__qualname__}"
"""The error of a step that a caller has cancelled."""

UNDONE = "was undone"
"""The words for a saga that was."""

BUSY = ("running", "ready", "waiting")
"""The states of a component that will do more."""

FEWEST = 10
"""With fewer elements done nothing is said about the time that the others will take."""

SOONEST = 1.0
"""Before as many seconds nothing is said about it either."""

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


class Undriven(msgspec.Struct, frozen=True):
    """A run that has work left and that no process drives."""

    since: float
    """When its record changed last, in seconds since the epoch: it has been without a process for at most that long."""
    has_died: bool
    """Whether its last process died; else it released the run, for instance after Ctrl-C."""
    has_workers: bool
    """Whether its store is that of a fleet, whose workers would drive it if one were alive."""
    command: str
    """The command that goes on with it."""

    def line(self, now: float) -> Attention:
        """Return what a person should know about it."""
        missing = ", and no worker is alive" if self.has_workers else ""
        died = "its process has died, " if self.has_died else ""
        detail = f"{died}last change {ago(now - self.since)}"
        return Attention("waiting", f"no process drives it{missing}", detail=detail, action="resume")


def undriven(
    record: RunRecord, *, workers: int | None = None, modules: Sequence[str] = (), option: str = ""
) -> Undriven | None:
    """
    Return what to report if no process drives the run of *record*, and how it goes on; None if nothing is wrong.

    In a fleet, a run may be without a process as long as a worker is alive.

    Args:
        record: as the store lists it, where an owner is named only if it is alive.
        workers: how many workers of the fleet are alive; None if the store is not a fleet's.
        modules: the modules that have the code of the run, as far as they are known.
        option: names the store in the command.

    >>> record = RunRecord(id="r 1", workflow="w", created_at=0.0, updated_at=60.0, owner_died=True)
    >>> found = undriven(record, modules=["shop"], option=" --store runs.db")
    >>> found.command, found.line(120.0).detail
    ("weft resume 'r 1' --import shop --store runs.db", 'its process has died, last change 1 min ago')
    """
    if record.status not in DUE or record.owner is not None or workers:
        return None
    command = "weft worker" if workers is not None else f"weft resume {word(record.id)}"
    is_of_fleet = workers is not None
    return Undriven(record.updated_at, record.owner_died, is_of_fleet, f"{command}{importing(modules)}{option}")


def queued(record: RunRecord, *, is_stranded: bool, now: float) -> Attention:
    """
    Return that a run of a fleet is due, and no worker has it.

    Args:
        record: as the store lists it.
        is_stranded: whether no worker that is alive can drive it.
        now: the present, in seconds since the epoch.

    >>> record = RunRecord(id="r 1", workflow="w", version="3f2a91cc", created_at=0.0, updated_at=0.0)
    >>> queued(record, is_stranded=False, now=60.0).detail, queued(record, is_stranded=True, now=60.0).text
    ('last change 1 min ago', 'stranded: no worker that is alive can drive w@3f2a91')
    """
    detail = f"last change {ago(now - record.updated_at)}"
    if is_stranded:
        text = f"stranded: no worker that is alive can drive {record.workflow}@{record.version[:6]}"
        return Attention("failed", text, detail=detail)
    return Attention("waiting", "in the queue: no worker has taken it yet", detail=detail)


def importing(modules: Sequence[str]) -> str:
    """
    Return the options of a command that import the code of a run.

    >>> importing(["shop", "shop.mail"]), importing([])
    (' --import shop --import shop.mail', ' --import MODULE')
    """
    return "".join(f" --import {word(module)}" for module in modules) or " --import MODULE"


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


def attention(run: Run, record: RunRecord, *, now: float, left: Undriven | None = None) -> list[Attention]:
    """
    Return what needs attention in *run*.

    Args:
        record: what the store knows of the run.
        now: the present, in seconds since the epoch.
        left: the result of :func:`undriven` for it.
    """
    progress = progress_of(run.memory)
    found = [
        *_parked(record),
        *_failed(run, progress),
        *_due(run, now),
        *(() if left is None else (left.line(now),)),
        *_waiting(run, now),
        *_retried(run, now),
        *_cancelled(run),
        *_undone(run),
        *_counted(run, progress, now),
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
        text = "failed" if last.attempts < 2 else f"failed after {count(last.attempts, 'attempt')}"
        if len(events) > 1:
            text = f"failed {len(events):,} times"
        if name in letters:
            text += ", kept as a dead letter"
        held_back = _held_back(run, name, progress)
        if all(map(is_cancelled, events)):
            text = text.replace("failed", "cancelled", 1)
            yield Attention("cancelled", text, name, last.error.message, held_back, "retry")
            continue
        yield Attention("failed", text, name, error_text(last.error), held_back, "retry")


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


def _due(run: Run, now: float) -> Iterable[Attention]:
    """Yield the deadlines of inputs that are not done and are in danger or past, the earliest first."""
    if not run.memory.has_deadlines:
        return
    found = open_deadlines(run.memory, now)
    for deadline in found:
        danger, end = deadline.due
        which = "" if len(found) == 1 else f" of input {deadline.ordinal}"
        if now >= end:
            yield Attention("failed", f"the deadline{which} is past", detail=f"for {duration(now - end)}")
        elif now >= danger:
            yield Attention("waiting", f"the deadline{which} is in danger", detail=f"{duration(end - now)} left")


def _waiting(run: Run, now: float) -> Iterable[Attention]:
    for (name, _), waiting in (run.memory.waiting or {}).items():
        wait, due = waiting.activation.node.wait, waiting.next_at
        left = None if due is None else max(0.0, due - now)
        detail = (
            "no timeout" if left is None else f"times out in {duration(left)}" if left else "its timeout has passed"
        )
        if waiting.attempt:
            yield Attention("waiting", "waits for a completion from outside", name, detail=detail)
        elif wait is None or wait.signal is None:
            yield Attention("waiting", "sleeps" if left is None else f"sleeps for another {duration(left)}", name)
        else:
            yield Attention("waiting", f"waits for the signal {wait.signal!r}", name, detail=detail, action="answer")


def _retried(run: Run, now: float) -> Iterable[Attention]:
    """Yield what has failed and is tried again."""
    memory = run.memory
    last: dict[str, ev.AttemptFailed] = {}
    for event in memory.log if memory.attempts else ():
        if isinstance(event, ev.AttemptFailed) and (event.component, event.inputs) in (memory.attempts or {}):
            last[event.component] = event
    for name, event in last.items():
        error = error_text(event.error)
        following = f"next attempt in {duration(event.retry_at - now)}" if event.retry_at > now else ""
        yield Attention("running", f"attempt {event.attempt} failed", name, error, following)


def _cancelled(run: Run) -> Iterable[Attention]:
    for event in reversed(run.memory.log):
        if isinstance(event, ev.RunCancelled):
            by = f" by {event.by}" if event.by else ""
            undone = _undone_names(run) if run.memory.undo is not None else []
            detail = f"undone: {', '.join(undone)}" if undone else ""
            if run.memory.is_undoing:
                yield Attention("running", f"undoing, since it was cancelled{by}", error=event.reason, detail=detail)
            else:
                yield Attention("cancelled", f"cancelled{by}", error=event.reason, detail=detail)
            return


def _undone_names(run: Run) -> list[str]:
    """Return the transactions that were undone since the run was cancelled, in the order of their sagas."""
    sagas = [name for name, component in run.memory.workflow.components.items() if component.kind == "saga"]
    return [f"{name}.{done}" for name in sagas for done in run.state_of(name).compensated]


def _undone(run: Run) -> Iterable[Attention]:
    """Yield sagas whose last request was undone: the run is completed, and what was asked for was not done."""
    for name, component in run.memory.workflow.components.items():
        made = run.memory.lineage.index().get(name) if component.kind == "saga" else None
        last: Any = run.memory.lineage.fact(made[-1]).value if made else None
        if isinstance(last, SagaOutcome) and last.status == "aborted":
            error = last.error if last.failed_step is None else f"{last.failed_step}: {last.error}"
            detail = f"undone: {', '.join(last.compensated)}" if last.compensated else "nothing had to be undone"
            yield Attention("cancelled", UNDONE, name, error or "", detail)


def _counted(run: Run, progress: dict[str, Progress], now: float) -> Iterable[Attention]:
    """Yield how far maps are: the steps in them, and the map itself if these have not begun."""
    regions = run.memory.workflow.wiring.regions
    counted = {name: each for name, each in progress.items() if each.of and each.state in BUSY and each.done < each.of}
    for name, each in counted.items():
        if any(regions.get(other) == name for other in counted) or each.of is None:
            continue
        ended = each.done + each.failed + each.skipped + each.refused
        bad = {"failed": each.failed, "skipped": each.skipped}
        words = [f"{_percent(number / ended)} {word}" for word, number in bad.items() if number]
        left = _time_left(run, name, ended, each.of - ended, now)
        if left is not None:
            words.append(f"~{_roughly(left)} left")
        text = f"{ended:,} of {each.of:,}"
        yield Attention("running", text, name, detail=" · ".join(words), share=ended / each.of)


def _percent(share: float) -> str:
    """
    Return a share, in percent.

    >>> _percent(0.003), _percent(0.25), _percent(0.000001)
    ('0.3 %', '25 %', '< 0.1 %')
    """
    return f"{100 * share:.2g} %" if share >= 0.001 else "< 0.1 %"


def _roughly(seconds: float) -> str:
    """
    Return a time in one unit.

    >>> _roughly(725.0), _roughly(0.3)
    ('12 min', '1 s')
    """
    return ago(max(1.0, seconds)).removesuffix(" ago")


def _time_left(run: Run, name: str, ended: int, missing: int, now: float) -> float | None:
    """Return how long *missing* elements will take if they take as long as those that *name* is done with."""
    if ended < FEWEST:
        return None
    begin: float | None = None
    for event in run.memory.log:
        begin = time_of(event) or begin
        if begin is not None and getattr(event, "component", None) == name:
            break
    elapsed = 0.0 if begin is None else now - begin
    return elapsed / ended * missing if elapsed >= SOONEST else None

"""
Checks what a simulated runner says about runs that have finished.

The store says the same, and so does every reader.  The run is released, so that another process could take it over.  It
stays as it is unless a client reopens it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

from weft.core.events import LogTruncated
from weft.core.functions.references import MISSING
from weft.core.run.run import Run
from weft.errors import HistoryTruncated, NothingProduced, RunFailed
from weft.log.outcome import RunOutcome, decode_outcome, outcome_of
from weft.ports.store import RunRecord, RunStatus
from weft.runner import AsyncRunner

T = TypeVar("T")

REACHED: frozenset[RunStatus] = frozenset({"completed", "failed"})
"""How a run finishes that is not cancelled."""


class OutcomeChecks:
    """The reports of finished runs, and what is wrong with them; they outlive the processes."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._reported: dict[str, tuple[RunStatus, int]] = {}
        """By run: how it has finished, and after how many events."""

    def reopened(self, run: str) -> None:
        """Note that a client changes *run*, which may have failed, or starts another one in its place."""
        self._reported.pop(run, None)

    async def reported(self, runner: AsyncRunner, record: RunRecord, seen: Run) -> None:
        """Check a run that was reported as finished, and has left; *record* is what the store has at that moment."""
        name = seen.id
        self._reported[name] = (seen.status, seen.log()[-1].seq)
        self.problems += [f"{name}: {wrong}" for wrong in differences(record, seen)]
        if name in runner.held:
            self.problems.append(f"{name}: it has finished as {seen.status}, and is still held")
        if await runner.status(name) != seen.status or not _agree(await runner.log(name), seen.log()):
            self.problems.append(f"{name}: readers see another run than the caller that has waited")
        try:
            wanted = await _answer(lambda: _output(seen))
        except HistoryTruncated:
            return
        if (found := await _answer(lambda: runner.result(name))) != wanted:
            self.problems.append(f"{name}: its result is {found}, and the log says {wanted}")

    def examine(self, record: RunRecord) -> Iterator[str]:
        """Yield what is wrong with a *record*, given what was reported of its run."""
        status, head = self._reported.get(record.id, (record.status, record.head))
        if (record.status, record.head) != (status, head):
            yield f"it was {status} after {head} events, and is {record.status} after {record.head}"


def differences(record: RunRecord, run: Run) -> Iterator[str]:
    """Yield the differences between the *record* of a run with nothing left to do and *run*, the fold of its log."""
    memory = run.memory
    if record.status != memory.status:
        yield f"its record says {record.status!r} and its log {memory.status!r}"
    counts, folded = (record.failures, record.dead_letters), (len(memory.failures or ()), len(memory.dead_letters))
    if counts != folded:
        yield f"its record counts {counts} failures and dead letters, and its log {folded}"
    if record.status not in REACHED:
        return
    if record.owner is not None:
        yield f"it has finished, and is owned by {record.owner}"
    if record.finished_at is None:
        yield "it has finished, and its record does not say when"
    stored = decode_outcome(record.outcome)
    if stored is None:
        yield "its record has no outcome"
        return
    try:
        wanted = outcome_of(run, memory.received)
    except HistoryTruncated:  # the simulation examines it again in the end, with what was removed
        return
    if (stored.ordinal, stored.results) != (wanted.ordinal, wanted.results) or not _is_same_reason(stored, wanted):
        yield f"its record has the outcome {stored}, and its log {wanted}"
    elif stored.output != wanted.output and (stored.output is MISSING or wanted.output is MISSING):
        yield f"its record has the output {stored.output}, and its log {wanted.output}"
    elif [each.component for each in stored.failures] != [each.component for each in wanted.failures]:
        yield f"its record has the failures {stored.failures}, and its log {wanted.failures}"


def _is_same_reason(stored: RunOutcome, wanted: RunOutcome) -> bool:
    """
    Return whether both outcomes give the same reason that nothing came of the input.

    Of a run with a single input the event with the reason may have been removed (ADR 44), before the outcome was
    written or since: then the one who looked later says that.
    """
    reasons = (stored.nothing, wanted.nothing)
    if None in reasons or stored.ordinal > 1:
        return stored.nothing == wanted.nothing
    return stored.nothing == wanted.nothing or any("was truncated" in each[1] for each in reasons if each is not None)


def _agree(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether two logs of a run are the same, except for what a truncation has removed from one of them."""
    logs = [[event for event in log if not isinstance(event, LogTruncated)] for log in (one, other)]
    length = min(map(len, logs))
    return logs[0][len(logs[0]) - length :] == logs[1][len(logs[1]) - length :]


async def _output(run: Run) -> object:
    outcome = outcome_of(run, run.memory.received)
    if outcome.failures:
        raise RunFailed(run.id, {each.component: run.failure_of(each) for each in outcome.failures}, outcome.results)
    if outcome.output is MISSING:
        raise NothingProduced("it", "")
    return outcome.output


async def _answer(ask: Callable[[], Awaitable[object]]) -> object:
    """Return a result, or how it was refused."""
    try:
        return await ask()
    except NothingProduced:
        return "nothing"
    except RunFailed as error:
        return sorted(error.failures), error.results

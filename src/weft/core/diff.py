"""
The differences of two runs, or of two workflows: as data, and as text by ``str``.

    >>> from weft import Workflow, diff, step
    >>> double = step(lambda x: x * 2, name="double")
    >>> flow = Workflow("w", double >> step(lambda x: x + 1, name="add_one"))
    >>> run = flow.run(5)
    >>> print(diff(run, run.fork(at="double", value=7).react_until_satisfied()))
    first: double of input 1: 10 and 7
    add_one of input 1: 11 and 8
    >>> print(diff(flow, Workflow("w", double)))
    same: double
    gone: add_one

Outcomes of two runs belong together if their components have the same name and their inputs came the same way: from the
same input by number, the same components and the same elements.  The order of the logs does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, overload

import msgspec

from weft.core import events as ev
from weft.core.fold.event_equality import same_values
from weft.core.lineage.explain import shown
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import InvalidArgument
from weft.errors import shown as named


class WorkflowDiff(msgspec.Struct, frozen=True):
    """The differences of two workflows: names of components, in order.  One can be both changed and rewired."""

    same: tuple[str, ...]
    changed: tuple[str, ...]
    """Components whose code, constants or kind differ."""
    rewired: tuple[str, ...]
    """Components whose inputs, ``each`` or loop differ."""
    new: tuple[str, ...]
    """Components only in the second workflow."""
    gone: tuple[str, ...]
    """Components only in the first workflow."""

    def __bool__(self) -> bool:
        return bool(self.changed or self.rewired or self.new or self.gone)

    def __str__(self) -> str:
        names = ("same", "changed", "rewired", "new", "gone")
        return "\n".join(f"{name}: {', '.join(getattr(self, name))}" for name in names if getattr(self, name))


class Difference(msgspec.Struct, frozen=True):
    """One outcome that differs: of *component*, for the input number *input*."""

    component: str
    input: int
    kind: Literal["differs", "only in the first", "only in the second"]
    one: Any = None
    """The value in the first run; of a failure, its text; whether a condition holds."""
    other: Any = None
    """The same in the second run."""

    def __str__(self) -> str:
        where = f"{self.component} of input {self.input}"
        if self.kind == "differs":
            return f"{where}: {shown(self.one)} and {shown(self.other)}"
        return f"{where}: {shown(self.one if self.kind == 'only in the first' else self.other)}, {self.kind}"


class RunDiff(msgspec.Struct, frozen=True):
    """The differences of two runs."""

    differences: tuple[Difference, ...]
    """In the order of the logs: the first is where the runs diverge."""
    same: int
    """How many outcomes are the same in both."""
    workflows: WorkflowDiff | None = None
    """The differences of their workflows, if there are any."""

    @property
    def first(self) -> Difference | None:
        """Where the runs diverge; None if they do not."""
        return self.differences[0] if self.differences else None

    @property
    def only_in_first(self) -> Mapping[str, int]:
        """By component: how many outcomes only the first run has."""
        return dict(Counter(each.component for each in self.differences if each.kind == "only in the first"))

    @property
    def only_in_second(self) -> Mapping[str, int]:
        """By component: how many outcomes only the second run has."""
        return dict(Counter(each.component for each in self.differences if each.kind == "only in the second"))

    def __bool__(self) -> bool:
        return bool(self.differences) or self.workflows is not None

    def __str__(self) -> str:
        if not self:
            return f"no difference in {self.same} outcomes"
        lines = [f"{'first: ' if at == 0 else ''}{each}" for at, each in enumerate(self.differences)]
        return "\n".join([*lines, *([] if self.workflows is None else [f"workflow: {self.workflows}"])])


@overload
def diff(one: Run, other: Run) -> RunDiff: ...
@overload
def diff(one: Workflow, other: Workflow) -> WorkflowDiff: ...
def diff(one: Run | Workflow, other: Run | Workflow) -> RunDiff | WorkflowDiff:
    """
    Return the differences of two runs, or of two workflows.

    Raises:
        InvalidArgument: they are neither.
        HistoryTruncated: the beginning of a log was removed, so its outcomes would look as if they had never been.
    """
    if isinstance(one, Run) and isinstance(other, Run):
        for run in (one, other):
            run.memory.lineage.check_whole()
        return _diff_runs(one, other)
    if isinstance(one, Workflow) and isinstance(other, Workflow):
        return _diff_workflows(one, other)
    raise InvalidArgument(f"diff() takes two runs or two workflows, got {named(one)} and {named(other)}")


def _diff_workflows(one: Workflow, other: Workflow) -> WorkflowDiff:
    mine, theirs = one.components, other.components
    both = [name for name in mine if name in theirs]
    changed = {name for name in both if mine[name].identity != theirs[name].identity}
    rewired = {name for name in both if _place(one, name) != _place(other, name)}
    return WorkflowDiff(
        same=tuple(name for name in both if name not in changed | rewired),
        changed=tuple(name for name in both if name in changed),
        rewired=tuple(name for name in both if name in rewired),
        new=tuple(name for name in theirs if name not in mine),
        gone=tuple(name for name in mine if name not in theirs),
    )


def _place(workflow: Workflow, name: str) -> object:
    return workflow.wiring.fed_by(name), workflow.wiring.regions[name]


_Key = tuple[str, tuple[bytes, ...]]


def _diff_runs(one: Run, other: Run) -> RunDiff:
    mine, theirs = _outcomes(one), _outcomes(other)
    found: list[tuple[int, int, Difference]] = []
    same = 0
    for key, event in mine.items():
        counterpart = theirs.get(key)
        if counterpart is None:
            found.append((event.seq, 0, _difference(one, event, "only in the first", _values(event))))
        elif type(event) is type(counterpart) and same_values(_values(event), _values(counterpart)):
            same += 1
        else:
            values = (_values(event), _values(counterpart))
            found.append((event.seq, 0, _difference(one, event, "differs", *values)))
    for key, event in theirs.items():
        if key not in mine:
            found.append((event.seq, 1, _difference(other, event, "only in the second", None, _values(event))))
    found.sort(key=lambda each: each[:2])
    workflows = None if one.workflow.hash == other.workflow.hash else diff(one.workflow, other.workflow)
    return RunDiff(tuple(each for *_, each in found), same, workflows or None)


def _outcomes(run: Run) -> dict[_Key, Any]:
    """Return the outcomes in *run*, by component and where what it took came from."""
    lineage = run.memory.lineage
    found: dict[_Key, Any] = {}
    for event in lineage.standing():
        if isinstance(event, ev.InputReceived):
            found["", (b"%d" % event.ordinal,)] = event
        elif isinstance(event, ev.ENDINGS):
            found[event.component, tuple(map(lineage.origin, event.inputs))] = event
    return found


def _values(event: Any) -> Any:
    """Return the outcome that *event* tells of."""
    match event:
        case ev.ConditionEvaluated():
            return event.holds
        case ev.RunnableFailed():
            return f"failed: {event.error.type}: {event.error.message}"
        case ev.RunnableSkipped():
            return f"skipped: {event.reason}"
        case _:
            return event.value


def _difference(run: Run, event: Any, kind: Any, *values: Any) -> Difference:
    if isinstance(event, ev.InputReceived):
        return Difference("input", event.ordinal, kind, *values)
    return Difference(event.component, run.memory.lineage.ordinal(event.inputs[0]), kind, *values)

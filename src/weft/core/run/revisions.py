"""
The revisions of a run: retrying what failed, forking, and moving to another workflow (ADR 32).

    >>> from weft import Workflow, step
    >>> double = step(lambda x: x * 2, name="double")
    >>> run = Workflow("w", double >> step(lambda x: x + 1, name="add_one")).run(5)
    >>> other = run.fork(at="double", value=100).react_until_satisfied()
    >>> run.value("add_one"), other.value("add_one")
    (11, 101)

Each revision is an event that says which earlier events no longer count; these stay in the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, cast, overload

from msgspec.structs import replace

from weft.core import events as ev
from weft.core.deferred import local
from weft.core.fold.fold import fold, record
from weft.core.fold.memory import Memory
from weft.core.fold.revision import Consequences, consequences
from weft.core.fold.scope import Key, Letter
from weft.core.functions.references import MISSING
from weft.core.lineage.lineage import Lineage
from weft.core.plan.compiled_workflow import CompiledWorkflow
from weft.core.run.controls import Controls
from weft.core.run.edits import Edit, edit_of, point_of
from weft.core.run.failed_work import Retried, halted
from weft.core.run.preview import Preview, preview_of, preview_of_upgrade
from weft.core.run.texts import check_text_or_none
from weft.errors import InvalidArgument, WrongArity, shown
from weft.typing import PoliciesMode

if TYPE_CHECKING:
    from weft.core.run.run import Run


class Revisions(Controls):
    """The methods that revise the log of a run, or make another run of it."""

    __slots__ = ()

    # -- what failed -----------------------------------------------------------------------------

    def retry(
        self,
        which: object = None,
        *,
        policy: Any = None,
        input: Any = MISSING,  # noqa: A002 - what one would say
        until: int | None = None,
        by: str | None = None,
    ) -> Self:
        """
        Run again what failed: dead letters, and failures that halted a component, with all that depended on those.

        They are ready then, and run in the next cycle.  What completed stands.

        Args:
            which: a failure (one of ``dead_letters``, or an event of the log), or the name of a component for all of
                its failures; all failures if not given.
            policy: how to run it this time.
            input: a value in place of what it failed on; a tuple of values for a component that joins several.
            until: the position of an event: what failed after it is left alone.
            by: the name of the caller.

        Raises:
            NoSuchLetter: there is no such failure.
            InvalidPolicy: a policy that a run in memory cannot keep.
            WrongArity: *input* does not have as many values as the component takes.
        """
        check_text_or_none("by", by)
        memory = self.memory
        named = which if isinstance(which, str | ev.RunnableFailed | None) else self._name_of(which)
        failed = halted(memory, named, until) if memory.cancelled is None else Retried((), frozenset())
        known = self._letters(which, until)
        if not known and not failed.failures and not failed.again:
            if which is None and not memory.failures:
                return self
            raise self._no_letter(which)
        failures: tuple[ev.RunnableFailed, ...] = ()
        revised, letters = None, known
        if failed.failures or failed.again:
            revised = self._retried(failed)
            # A failure that depended on another one is void: what comes in its place is not known yet.
            failures = tuple(event for event in failed.failures if event.seq not in revised.void)
            kept = revised.memory.letters or {}
            letters = [letter for letter in known if letter.activation.key in kept]
            letters += [kept[event.component, event.inputs] for event in failures]
        if policy is not None:
            local().checked([("", policy)])
            policies = self._policies_here()
            for letter in letters:
                policies.check(letter.event.component, policy)
        given = [None if input is MISSING else _fitting(letter, input) for letter in letters]
        if revised is not None:
            seqs = tuple(event.seq for event in failures)
            record(memory, ev.RunRetried(len(memory.log) + 1, seqs, revised.positions, by))
        for letter, values in zip(letters, given, strict=True):
            event = letter.event
            record(memory, ev.RunnableRetried(len(memory.log) + 1, event.component, event.inputs, values, policy, by))
        return self

    def _retried(self, failed: Retried) -> Consequences:
        memory = self.memory
        draft = ev.RunRetried(len(memory.log) + 1, tuple(event.seq for event in failed.failures))
        return consequences(memory.log, memory.lineage, draft, again=failed.again)

    # -- another run -----------------------------------------------------------------------------

    @overload
    def fork(
        self,
        *,
        at: object = None,
        value: Any = MISSING,
        id: str | None = None,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        context: Mapping[str, Any] | None = None,
        preview: Literal[False] = False,
        by: str | None = None,
    ) -> Run: ...
    @overload
    def fork(
        self,
        *,
        at: object = None,
        value: Any = MISSING,
        id: str | None = None,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        context: Mapping[str, Any] | None = None,
        preview: Literal[True],
        by: str | None = None,
    ) -> Preview: ...
    def fork(
        self,
        *,
        at: object = None,
        value: Any = MISSING,
        id: str | None = None,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        context: Mapping[str, Any] | None = None,
        preview: bool = False,
        by: str | None = None,
    ) -> Run | Preview:
        """
        Return another run with the history of this one, in which only what depends on the edit runs again.

        This run is left as it is.  Nothing of the fork has run yet: continue it with ``react_until_satisfied()``.

        Args:
            at: a fact, or a component for what it last made (``INPUT`` for the last input): with a
                *value*, it has made that instead; without, it runs again.  The position of an event: with a *value*,
                that is its outcome instead; without, the fork has the history up to that event and no further.  The
                whole history if not given.
            value: the edited value; for a condition, whether it holds.
            id: the id of the fork; a unique one is generated if not given.
            policies: rules that hold in the fork from now on.
            policies_mode: ``"merge"`` or ``"replace"``.
            context: values for parameters that read ``context(key)``; those of this run if not given.
            preview: return what would run and what stands, and fork nothing.
            by: the name of the caller.

        Raises:
            InvalidArgument: *at* is not something that has happened in this run, or cannot have such a value.
            UnknownComponent: no component has this name.
            HistoryTruncated: the beginning of the log was removed.
        """
        from weft.core.run.run import Run

        check_text_or_none("by", by)
        self.memory.lineage.check_whole()
        log, known, edits, again = self._forked(at, value)
        ends = tuple((event.seq, event.seq) for event in log if isinstance(event, ev.RunCancelled | ev.ContinuedAsNew))
        values = tuple(edit.value for edit in edits.values())
        draft = ev.RunForked(len(log) + 1, self.memory.run_id, len(log), tuple(edits), values, ends, by)
        addresses = {seq: edit.addresses for seq, edit in edits.items()}
        revised = consequences(log, known, draft, edited=addresses, again=again)
        if preview:
            return preview_of(revised, log)
        if policies is not None:
            policies = local().checked(policies)
        first = replace(cast("ev.WorkflowDefined", log[0]), run=local().new_run_id() if id is None else id, by=by)
        events = [first, *log[1:], replace(draft, void=revised.positions)]
        run = Run.from_log(events, context=getattr(self, "context", None) if context is None else context)
        if policies is not None:
            run.under(policies, mode=policies_mode)
        return run

    def _forked(self, at: object, value: Any) -> tuple[Sequence[ev.AnyEvent], Lineage, dict[int, Edit], set[Key]]:
        """Return the log that a fork begins with, its lineage, what is edited by position, and what runs again."""
        memory: Memory = self.memory
        point = point_of(memory, at, self._name_of, with_value=value is not MISSING)
        log, known = memory.log, memory.lineage
        if point.until is not None:
            log = memory.log[: point.until]
            whole = Memory()
            fold(whole, log)
            known = whole.lineage
        edits: dict[int, Edit] = {}
        again: set[Key] = set()
        for address in point.addresses:
            event = memory.log[(address if isinstance(address, int) else address[0]) - 1]
            if value is not MISSING or not isinstance(event, ev.Activated):
                edits[event.seq] = edit_of(memory, address, value)
            else:
                again.add((event.component, event.inputs))
        return log, known, edits, again

    # -- another workflow ------------------------------------------------------------------------

    @overload
    def upgrade(
        self,
        workflow: CompiledWorkflow,
        *,
        again: Collection[object] = (),
        preview: Literal[False] = False,
        by: str | None = None,
    ) -> Self: ...
    @overload
    def upgrade(
        self,
        workflow: CompiledWorkflow,
        *,
        again: Collection[object] = (),
        preview: Literal[True],
        by: str | None = None,
    ) -> Preview: ...
    def upgrade(
        self,
        workflow: CompiledWorkflow,
        *,
        again: Collection[object] = (),
        preview: bool = False,
        by: str | None = None,
    ) -> Self | Preview:
        """
        Let this run follow *workflow*, another version of its workflow, from now on.

        Inputs with something left to do, or with a failure, move to the new graph: what completed stands where the new
        graph runs the same component on the same facts, and everything else of it runs.  The other inputs stay as they
        are.  Failures stand too: ``retry()`` runs them again.

        Args:
            again: components of *workflow* that run again for the inputs that move, although they have completed.
            preview: return what stands, what runs and what cannot be kept, and change nothing.
            by: the name of the caller.

        Raises:
            InvalidArgument: a workflow of another name, or a run that was cancelled.
            UnknownComponent: *again* names something that *workflow* does not have.
            DefinitionError: the policies in force do not fit *workflow*.
        """
        check_text_or_none("by", by)
        memory = self.memory
        if not hasattr(workflow, "compiled") or workflow.name != memory.workflow.name:
            what = f"the workflow {workflow.name!r}" if hasattr(workflow, "compiled") else shown(workflow)
            raise InvalidArgument(
                f"upgrade() takes another version of {memory.workflow.name!r}, the workflow of this run, got {what}; "
                "start another run of that one"
            )
        if memory.cancelled is not None:
            happens = "only undoes what it has done" if memory.is_undoing else "nothing more happens in it"
            raise InvalidArgument(f"run {memory.run_id!r} was cancelled, and {happens}; fork() it")
        names = {workflow.name_of(which) for which in again}
        draft = ev.RunUpgraded(len(memory.log) + 1, workflow, _unfinished_inputs(memory))
        revised = consequences(memory.log, memory.lineage, draft, components=names)
        if preview:
            return preview_of_upgrade(revised, memory, draft)
        if self.policies is not None or workflow.policies:
            self._policies_here().table(cast("Any", workflow), workflow.compiled)
        record(memory, replace(draft, void=revised.positions, by=by))
        return self


def _unfinished_inputs(memory: Memory) -> tuple[int, ...]:
    """Return the positions of the inputs with something left to do, or with a failure that nothing has handled."""
    pending = [*memory.open_all().values(), *(memory.blocked or {}).values()]
    pending += [waiting.activation for waiting in (memory.waiting or {}).values()]
    pending += [letter.activation for letter in (memory.letters or {}).values()]
    found = {cast("int", activation.scope.root.address) for activation in pending}
    ordinals = {memory.lineage.ordinal(event.inputs[0]) for event in (memory.failures or {}).values()}
    for event in memory.log if ordinals else ():
        if isinstance(event, ev.InputReceived) and event.ordinal in ordinals:
            found.add(event.seq)
    return tuple(sorted(found))


def _fitting(letter: Letter, given: Any) -> tuple[Any, ...]:
    """Return *given* as the values that the activation of *letter* takes."""
    count = len(letter.activation.facts)
    values: tuple[Any, ...] = (given,)
    if count > 1:
        values = tuple(cast("Sequence[Any]", given)) if isinstance(given, tuple | list) else ()
    if letter.activation.gathers or len(values) != count:
        raise WrongArity(
            f"{letter.event.component!r} was at work on {count} values; "
            "give a tuple of as many, or correct what feeds it and give the whole input again"
        )
    return values

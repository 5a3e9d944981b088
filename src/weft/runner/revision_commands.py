"""
The calls that change the policies or the workflow of a run, or revise its history (ADR 32).

:mod:`weft.runner.revisions` finds the run, wherever it is, and changes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, overload

from msgspec.structs import replace

from weft.core import events as ev
from weft.core.functions.references import MISSING
from weft.core.run.preview import Preview
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.log import check_encodable
from weft.runner.delivery import Delivery
from weft.runner.execution.worker import Worker
from weft.runner.handle import AsyncHandle, RunHandle, RunRef, as_ref, id_of
from weft.runner.option_checks import check_workflow
from weft.runner.registry.message_handlers import named_failure
from weft.runner.revisions import Revisions
from weft.runner.runtime import Runtime
from weft.runner.usual_options import UsualOptions
from weft.typing import PoliciesMode


class RevisionCommands:
    """The methods of a runner that change a run."""

    _runtime: Runtime
    _delivery: Delivery
    _revisions: Revisions
    _usual: UsualOptions

    async def set_policies(
        self,
        id: str | RunHandle[Any],
        policies: Iterable[Any],
        *,
        mode: PoliciesMode = "replace",
        by: str | None = None,
    ) -> None:
        """
        Put *policies* in force for the run *id*, from the next decision on: the next attempt, retry or failure.

        Args:
            policies: rules, pairs of a matcher and a policy.
            mode: ``"replace"`` puts them in place of all others; ``"merge"`` in front of those in force.
            by: the name of the caller; kept in the log.

        Raises:
            InvalidPolicy: a rule that makes no sense, or that this runner cannot honour.
            RunNotFound, RunClosed: as :meth:`send`.
        """
        await self._delivery.set_policies(as_ref(id), policies, mode, by)

    async def add(
        self, id: str | RunHandle[Any], fragment: object, *, to: object = None, by: str | None = None
    ) -> None:
        """
        Add to the workflow of the run *id* alone; facts that come from now on reach the new part.

        Args:
            fragment: what is added, as in ``Workflow.add``.
            to: what feeds it.
            by: the name of the caller; kept in the log.

        Raises:
            DefinitionError: the workflow would not work, or not under the policies in force.
            RunNotFound, RunNotHeld, RunClosed: as :meth:`send`.
        """
        id = id_of(id)
        await self._revisions.redefine(id, lambda run: run.add(fragment, to=to, by=by))

    async def remove(self, id: str | RunHandle[Any], which: object, *, by: str | None = None) -> None:
        """
        Remove a component from the workflow of the run *id* alone; inputs in flight finish as they began.

        Raises:
            UnknownComponent: its workflow does not have it.
        """
        id = id_of(id)
        await self._revisions.redefine(id, lambda run: run.remove(run.workflow.name_of(which), by=by))

    async def preview(
        self, id: str | RunHandle[Any], policies: Iterable[Any], *, mode: PoliciesMode = "replace"
    ) -> list[Any]:
        """Return what ``set_policies`` would change for pending work of the run *id*."""
        id = id_of(id)
        return (await self._runtime.lookup.worker(id)).run.preview(policies, mode=mode)

    async def retry(
        self,
        id: str | RunHandle[Any],
        which: object = None,
        *,
        policy: Any = None,
        input: Any = MISSING,  # noqa: A002 - what one would say
        context: Mapping[str, Any] | None = None,
        by: str | None = None,
    ) -> AsyncHandle:
        """
        Run again what failed in the run *id*: dead letters, and failures that halted a component, with all that
        depended on those.  What completed stands.  A failed run goes on with that, here, and finishes again.

        A run that is not in this runner and has not finished finds this in its inbox: what has failed so far, as the
        store knows it, is run again, each failure once.  The run may refuse it there, which is logged.

        Args:
            which: a failure (one of its ``dead_letters``, or an event of its log), or the name of a component for all
                of its failures; all if not given.
            policy: how to run it this time.
            input: a value in place of what it failed on.
            context: values for parameters that read ``context(key)``, over those that the run has here: the ones it was
                started with, if it has failed in this runner lately, or else those of the runner.
            by: the name of the caller; kept in the log.

        Raises:
            MissingContext: a required context key was not given.
            NoSuchLetter: there is no such failure.
            RunNotHeld: *context* was given for a run that is not here; context is never stored.
            InvalidPolicy: a policy that this runner cannot honour.
            UnencodableValue: the input could not be stored.
            RunClosed: the run has completed, or was cancelled.
        """
        id = id_of(id)
        if input is not MISSING:
            check_encodable(input, "INPUT")

        def message(run: Run) -> ev.RunnableRetried:
            head, (name, inputs) = len(run.memory.log), named_failure(run, which)
            run.retry(which, input=input)
            return ev.RunnableRetried(head, name, inputs, None if input is MISSING else (input,), policy, by)

        def change(run: Run) -> object:
            return run.retry(which, policy=policy, input=input, by=by)

        worker = await self._revisions.revise(id, change, context, message=message)
        return AsyncHandle(self, RunRef(id, None, worker))

    async def discard(
        self,
        id: str | RunHandle[Any],
        which: object = None,
        *,
        context: Mapping[str, Any] | None = None,
        by: str | None = None,
    ) -> AsyncHandle:
        """Discard dead letters of the run *id*, as :meth:`retry` retries them."""

        id = id_of(id)

        def message(run: Run) -> ev.RunnableSkipped:
            head, (name, inputs) = len(run.memory.log), named_failure(run, which)
            run.discard(which)
            return ev.RunnableSkipped(head, name, inputs, by=by)

        def change(run: Run) -> object:
            return run.discard(which, by=by)

        worker = await self._revisions.revise(id, change, context, message=message)
        return AsyncHandle(self, RunRef(id, None, worker))

    # -- another history, another workflow -------------------------------------------------------

    @overload
    async def fork(
        self,
        id: str | RunHandle[Any],
        new_id: str | None = None,
        *,
        at: object = None,
        value: Any = MISSING,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        context: Mapping[str, Any] | None = None,
        preview: Literal[False] = False,
        by: str | None = None,
    ) -> AsyncHandle: ...
    @overload
    async def fork(
        self,
        id: str | RunHandle[Any],
        new_id: str | None = None,
        *,
        at: object = None,
        value: Any = MISSING,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        context: Mapping[str, Any] | None = None,
        preview: Literal[True],
        by: str | None = None,
    ) -> Preview: ...
    async def fork(
        self,
        id: str | RunHandle[Any],
        new_id: str | None = None,
        *,
        at: object = None,
        value: Any = MISSING,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        context: Mapping[str, Any] | None = None,
        preview: bool = False,
        by: str | None = None,
    ) -> AsyncHandle | Preview:
        """
        Start another run with the history of the run *id*, in which only what depends on the edit runs again.

        The original is read and left as it is, wherever it is.  The fork is stored when this returns.

        Args:
            new_id: the id of the fork; a unique one is generated if not given.
            at: a fact, or a component for what it last made (``INPUT`` for the last input): with a *value*, it has made
                that instead; without, it runs again.  The position of an event: with a *value*, that is its outcome
                instead; without, the fork has the history up to that event and no further.  The whole history if not
                given.
            value: the edited value; for a condition, whether it holds.
            policies: rules that hold in the fork from now on.
            policies_mode: ``"merge"`` or ``"replace"``.
            context: values for parameters that read ``context(key)``, over those of the runner; never stored.
            preview: return what would run and what stands, and fork nothing.
            by: the name of the caller; kept in the log of the fork.

        Raises:
            RunNotFound: no run has the id *id*.
            RunExists: a run with the id *new_id* exists.
            InvalidArgument: *at* is not something that has happened in this run, or cannot have such a value.
            UnencodableValue: the value could not be stored.
            UnresolvedFunction: this process does not have a function of the workflow.
            InvalidPolicy: a policy that this runner cannot honour.
        """
        id = id_of(id)
        self._runtime.check_open()
        if value is not MISSING:
            check_encodable(value, "INPUT")
        told = self._usual.but(context=context)
        source = await self._revisions.source(id)
        if preview:
            return source.run.fork(at=at, value=value, preview=True)
        run = source.run.fork(at=at, value=value, id=new_id, context=told.context, by=by)
        replace(source, run=run).check()

        def rule(worker: Worker) -> None:
            if policies is not None:
                worker.policies.change(policies, policies_mode, by)

        worker = await self._runtime.creator.adopt(run, told, rule)
        return AsyncHandle(self, RunRef(run.id, None, worker))

    @overload
    async def upgrade(
        self,
        id: str | RunHandle[Any],
        workflow: Workflow,
        *,
        again: Collection[object] = (),
        preview: Literal[False] = False,
        by: str | None = None,
    ) -> AsyncHandle: ...
    @overload
    async def upgrade(
        self,
        id: str | RunHandle[Any],
        workflow: Workflow,
        *,
        again: Collection[object] = (),
        preview: Literal[True],
        by: str | None = None,
    ) -> Preview: ...
    async def upgrade(
        self,
        id: str | RunHandle[Any],
        workflow: Workflow,
        *,
        again: Collection[object] = (),
        preview: bool = False,
        by: str | None = None,
    ) -> AsyncHandle | Preview:
        """
        Let the run *id* follow *workflow*, another version of its workflow, from now on.

        Inputs with something left to do, or with a failure, move to the new graph: what completed stands where the new
        graph runs the same component on the same facts, and everything else of it runs.  The other inputs stay as they
        are.  Failures stand too: :meth:`retry` runs them again.  A run that is in this runner is changed while it runs;
        one that no process holds is loaded, and continues here.

        Args:
            again: components of *workflow* that run again for the inputs that move, although they have completed.
            preview: return what stands, what runs and what cannot be kept, and change nothing.
            by: the name of the caller; kept in the log.

        Raises:
            RunNotFound: no run has this id.
            RunOwned: another process that is alive has it.
            RunClosed: it has completed, or was cancelled.
            InvalidArgument: a workflow of another name.
            InvalidPolicy: the policies in force do not fit *workflow*, or this runner cannot honour them.
        """
        id = id_of(id)
        self._runtime.check_open()
        check_workflow(workflow, "upgrade")
        if preview:
            run = await self._revisions.whole(id, workflow)
            return run.upgrade(workflow, again=again, preview=True)
        worker = await self._revisions.revise(
            id, lambda run: run.upgrade(workflow, again=again, by=by), upgrade=workflow
        )
        self._runtime.definitions.follow(workflow)
        return AsyncHandle(self, RunRef(id, None, worker))

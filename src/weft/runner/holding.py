"""
The runs that a runner holds: ``resume`` and ``resume_all`` load stored runs, ``stop`` and ``evict`` release them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.core.workflow import Workflow
from weft.errors import RunClosed
from weft.runner.checkpoints import Checkpoints
from weft.runner.durability.residency import AT_ONCE as EVICTED_AT_ONCE
from weft.runner.durability.residency import Evicted
from weft.runner.handle import AsyncHandle, RunHandle, RunRef, id_of
from weft.runner.option_checks import check_grace, check_workflow
from weft.runner.options import OnComplete, Rehydration, WorkerHooks
from weft.runner.runtime import Runtime
from weft.runner.slices import pause
from weft.runner.usual_options import UsualOptions


class HoldingCommands:
    """The methods of a runner that bring runs into it, write them, and let them go."""

    _runtime: Runtime
    _usual: UsualOptions

    async def checkpoint(self, id: str | RunHandle[Any]) -> None:
        """
        Write everything that has happened in the run *id*, and its status; all of a run that has finished is written.
        """
        id = id_of(id)
        try:
            worker = await self._runtime.lookup.changeable(id)
        except RunClosed:
            await self._runtime.lookup.finished(id)
        else:
            worker.checkpoint()
            await self._runtime.lookup.written(worker)
            await self._runtime.waiters.status_stored(worker)

    async def stop(self, id: str | RunHandle[Any], *, persist: bool = True, grace: float | None = None) -> None:
        """
        Release the run *id*: steps in flight get *grace* seconds, then they are abandoned, which uses up no attempt.

        A second caller joins the first, and the stop continues if its caller is cancelled.

        Args:
            persist: whether to write the events since the last checkpoint; if several callers stop the run, the choice
                of the first one counts.
            grace: the grace time of the runner if not given.
        """
        id = id_of(id)
        if grace is not None:
            check_grace(grace)
        await self._runtime.stop(id, persist=persist, grace=grace)

    async def resume(
        self,
        id: str | RunHandle[Any],
        *,
        workflow: Workflow | None = None,
        strict: bool = False,
        rehydration: Rehydration | None = None,
        max_concurrency: int | None = None,
        checkpoint: str | Checkpoints | None = None,
        snapshot_every: int | None = None,
        keep_values_for: float | None = None,
        executor: str | None = None,
        context: Mapping[str, Any] | None = None,
        on_complete: OnComplete | None = None,
        on_complete_args: tuple[Any, ...] | None = None,
        hooks: WorkerHooks | None = None,
    ) -> AsyncHandle:
        """
        Load the stored run *id*, and continue it.  A run that is here already, or has finished, is left as it is.

        A run that is parked is tried again.  One that has killed its process three times without progress is parked
        first; another call tries it again.

        Args:
            workflow: the live definition, where functions cannot be found by their names.
            strict: refuse code that has changed since the run was written; otherwise what completed stands, what is
                left runs the new code, and the log says so (``CodeChanged``), as does the logger ``weft.runner``.
            rehydration: what is loaded.  ``"hybrid"``: the last snapshot and what came after it, with the values that
                the next step needs; the history stays in the store until it is asked for.  ``"lazy"``: no values, as
                long as the run has nothing to do.  ``"full"``: everything.  Without a snapshot, everything is loaded.

        The other arguments are those of :meth:`start`.

        Raises:
            AnotherGraph: *workflow* has another graph than the run follows: :meth:`upgrade` moves the run to it.
            RunNotFound: nothing is stored under this id.
            RunOwned: another process that is alive has it.
            MissingContext: a required context key was not given.
        """
        id = id_of(id)
        self._runtime.check_open()
        if workflow is not None:
            check_workflow(workflow, "resume")
            await self._runtime.loader.check_given(id, workflow)
        told = self._usual.but(
            rehydration=rehydration,
            max_concurrency=max_concurrency,
            checkpoint=checkpoint,
            snapshot_every=snapshot_every,
            keep_values_for=keep_values_for,
            executor=executor,
            context=context,
            on_complete=on_complete,
            on_complete_args=on_complete_args,
            hooks=hooks,
        )
        worker = await self._runtime.loader.resume(id, workflow, told, strict=strict)
        await self._runtime.mailbox.collected()
        return AsyncHandle(self, RunRef(id, None, worker))

    async def resume_all(
        self,
        *,
        parked: bool = False,
        max_concurrency: int | None = None,
        checkpoint: str | Checkpoints | None = None,
        snapshot_every: int | None = None,
        keep_values_for: float | None = None,
        executor: str | None = None,
        context: Mapping[str, Any] | None = None,
        on_complete: OnComplete | None = None,
        on_complete_args: tuple[Any, ...] | None = None,
        hooks: WorkerHooks | None = None,
    ) -> list[AsyncHandle]:
        """
        Resume every stored run that has something to do and that no living process owns.

        A run that has killed its process three times without progress is parked instead, and not in the list.

        Args:
            parked: whether to resume parked runs too.

        The other arguments are those of :meth:`start`.
        """
        self._runtime.check_open()
        told = self._usual.but(
            max_concurrency=max_concurrency,
            checkpoint=checkpoint,
            snapshot_every=snapshot_every,
            keep_values_for=keep_values_for,
            executor=executor,
            context=context,
            on_complete=on_complete,
            on_complete_args=on_complete_args,
            hooks=hooks,
        )
        resumed = await self._runtime.bulk_resume.resume_all(told, parked=parked)
        await self._runtime.mailbox.collected()
        return [AsyncHandle(self, self._runtime.lookup.ref(run)) for run in resumed]

    async def evict(self, id: str | RunHandle[Any] | None = None) -> Evicted:
        """
        Let the values that nothing needs leave memory: those of the run *id*, or of all runs in this runner.

        They are in the store, and are read from there when they are asked for.  That is for a program that watches
        memory from outside; with ``memory_budget`` it happens by itself.  What the next steps of a run need stays, and
        so does what a caller was handed.  Values that are not durable yet follow as soon as they are.

        Returns:
            What has left memory; nothing if the run is not in memory here, or the store cannot load a part of a log.

        Raises:
            RunNotFound: no run has this id.
        """
        id = None if id is None else id_of(id)
        self._runtime.check_open()
        residency = self._runtime.dispatcher.residency
        if id is not None:
            worker = await self._runtime.lookup.held(id)
            if worker is None:
                await self._runtime.ownership.record(id)
            return Evicted() if worker is None else residency.evict(worker)
        freed = Evicted()
        for number, worker in enumerate([*self._runtime.registry, *self._runtime.registry.recent], start=1):
            freed += residency.evict(worker)
            if number % EVICTED_AT_ONCE == 0:
                await pause()
        return freed

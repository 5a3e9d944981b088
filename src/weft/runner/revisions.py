"""
Revises the history of a run, or forks another run from it: retries, discards, upgrades and forks (ADR 32).

    here, with something to do or parked ──► revised in memory, and goes on
    failed, and has left ──────────────────► loaded, revised, and goes on here
    elsewhere, not finished ───────────────► a retry or discard is left as a message; an upgrade loads it if it is free

A revision folds the whole log again, so a run that was restored without its history gets that first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weft.core import events as ev
from weft.core.fold.fold import make_whole
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import RunClosed, RunNotHeld
from weft.ports.store import FINISHED
from weft.runner.delivery import Delivery
from weft.runner.durability.recovery import Recovered
from weft.runner.durability.rehydration import is_partial
from weft.runner.execution.commands import redefine, revise
from weft.runner.execution.worker import Worker
from weft.runner.option_checks import check_context
from weft.runner.options import RunOptions
from weft.runner.runtime import Runtime


class Revisions:
    """Revises the runs of one runner, and those of its store."""

    def __init__(self, runtime: Runtime, delivery: Delivery, usual: RunOptions) -> None:
        """
        Revise runs.

        Args:
            delivery: leaves messages for runs that are not here.
            usual: the options with which a run that has left continues here, if those it had are not known.
        """
        self._runtime, self._delivery, self._usual = runtime, delivery, usual

    async def redefine(self, id: str, change: Callable[[Run], object]) -> None:
        """Let *change* change the workflow of the run *id*, which is here; inputs in flight finish as they began."""
        lookup = self._runtime.lookup
        worker = await lookup.changeable(id)
        if is_partial(worker.run):  # what the new components read may be in the history
            await self._runtime.registry.waking.load(worker)
            worker = await lookup.changeable(id)
        redefine(worker, change)
        await lookup.taken(worker)

    async def revise(
        self,
        id: str,
        change: Callable[[Run], object],
        context: Mapping[str, Any] | None = None,
        *,
        upgrade: Workflow | None = None,
        message: Callable[[Run], ev.RunnableRetried | ev.RunnableSkipped] | None = None,
    ) -> Worker | None:
        """
        Let *change* revise the run *id*, also if it has failed and left; for an *upgrade*, wherever it is.

        Its components read this *context* then.  A run that is not here, and has not finished, is left a *message*,
        which is made of a copy of it.

        Returns:
            The worker of the run; None if it is not here, and was left a message.
        """
        check_context(context)
        lookup, registry = self._runtime.lookup, self._runtime.registry
        while True:
            await lookup.gone(id)
            try:
                worker = await lookup.changeable(id)
                if is_partial(worker.run):
                    await registry.waking.load(worker)
                    continue
            except (RunClosed, RunNotHeld) as refused:
                if isinstance(refused, RunNotHeld) and message is not None and not context:
                    await self._leave_message(refused, message)
                    return None
                is_failed = isinstance(refused, RunClosed) and refused.status == "failed"
                if not is_failed and (upgrade is None or isinstance(refused, RunClosed)):
                    raise
                options = registry.recent.options_of(id, self._usual).with_context(context)
                reopened = await self._runtime.loader.reopen(
                    id, options, lambda worker: change(worker.run), upgrade=upgrade
                )
                if reopened is None:  # by another caller
                    continue
                worker = reopened
                await lookup.taken(worker)
            else:
                if worker.state != "failed":  # one that is still here is not written, and goes on as it is
                    worker.check_open()
                was_parked = worker.state == "parked"
                revise(worker, change, context)
                if was_parked:  # it has left what came meanwhile in its inbox
                    self._runtime.mailbox.ring()
                await lookup.taken(worker)
            return worker

    async def _leave_message(
        self, refused: RunNotHeld, message: Callable[[Run], ev.RunnableRetried | ev.RunnableSkipped]
    ) -> None:
        """Leave a *message* for a run that is not here, to be retried; if it has failed meanwhile, reopen it."""
        id, mailbox = refused.run_id, self._runtime.mailbox
        if not mailbox.is_there:
            raise refused
        event = message((await self._runtime.loader.read(id)).run)
        await self._delivery.post(refused, "discard" if isinstance(event, ev.RunnableSkipped) else "retry", event)
        await mailbox.look_after(id, self._runtime.registry.recent.options_of(id, self._usual))

    async def whole(self, id: str, workflow: Workflow) -> Run:
        """
        Return the run *id* with all of its history, to see what moving it to *workflow* would change.

        Raises:
            RunClosed: it has completed, or was cancelled.
        """
        held = await self._runtime.lookup.held(id)
        if held is None:
            record = await self._runtime.ownership.record(id)
            if record.status in FINISHED and record.status != "failed":
                raise RunClosed(id, record.reason, status=record.status)
            return (await self._runtime.loader.read(id, workflow=workflow)).run
        if is_partial(held.run):
            waking = self._runtime.registry.waking
            await waking.awake(held)
            await waking.load(held)
            make_whole(held.run.memory)
        return held.run

    async def source(self, id: str) -> Recovered:
        """Return the run *id* as far as it is stored, without owning it, for another run to be forked from it."""
        runtime = self._runtime
        worker = await runtime.lookup.held(id)
        if worker is not None and worker.lost is None:
            worker.checkpoint()
            await runtime.lookup.written(worker)
        if worker is None:
            return await runtime.loader.read(id)
        record = await runtime.ownership.record(id)
        if is_partial(worker.run):  # only now: its values may leave memory at any time
            return await runtime.loader.read(id, workflow=worker.run.workflow)
        log = worker.run.memory.log
        if worker.acknowledged == len(log):
            return Recovered(worker.run, record)
        return Recovered(Run.from_log(log[: worker.acknowledged], context=worker.run.context), record)

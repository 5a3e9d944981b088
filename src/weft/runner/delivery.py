"""
Delivers a call to a run, wherever it is: a worker in this process receives it at once, other runs by their inbox.

    here ──────────► the command of its worker, as durable as the strategy requires when the caller is told
    elsewhere ─────► a message in the store, which the process that drives the run, now or later, takes in
    continued ─────► the run that has taken its place
    finished ──────► refused, unless the same call was delivered before

Invariant: an input or a signal that becomes a message has a key, so a message that is stored twice counts once.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from weft.core import events as ev
from weft.core.run.runnable import RunnableRef
from weft.core.run.waits import receive_signal
from weft.errors import RunClosed, RunNotHeld, RunParked, UnresolvedFunction
from weft.log import needs_encoding
from weft.ports.store import RunRecord
from weft.runner.execution.cancelling import cancel_steps
from weft.runner.execution.commands import finish, known_input, set_policies, take_input, take_signal
from weft.runner.execution.large_values import encoded_input
from weft.runner.handle import RunRef
from weft.runner.registry.message_handlers import MERGE_POLICIES
from weft.runner.runtime import Runtime
from weft.typing import PoliciesMode

_log = logging.getLogger("weft.runner")


class Posted(NamedTuple):
    """A signal that became a message, and where it has found its run."""

    signal: ev.SignalReceived
    record: RunRecord | None


class Delivery:
    """Delivers the calls of callers to the runs of one runner and of its store."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime, self._lookup = runtime, runtime.lookup

    async def send(
        self,
        ref: RunRef,
        input: Any,  # noqa: A002 - what one would say
        *,
        key: str | None,
        deadline: float | None,
        policies: Iterable[Any] | None,
        policies_mode: PoliciesMode,
        by: str | None,
    ) -> RunRef:
        """Send the run *ref* an input, and return what refers to that input."""
        id = ref.id
        encoded = await encoded_input(input) if needs_encoding(input) else None
        try:
            worker = await self._lookup.told(ref)
            if policies is not None and known_input(worker, key) is None:
                set_policies(worker, policies, policies_mode, by)
            number = take_input(worker, input, key=key, deadline=deadline, by=by, encoded=encoded)
        except RunClosed:
            known = None if key is None else await self._known(id, key)
            if known is not None:
                await self._lookup.finished(id)
                return RunRef(id, known, at=ref.created_at)  # it was sent before the run finished
            successor = await self._lookup.successor(id)
            if successor is None:
                raise
            return await self.send(
                RunRef(successor),
                input,
                key=key,
                deadline=deadline,
                policies=policies,
                policies_mode=policies_mode,
                by=by,
            )
        except RunNotHeld as refused:
            at, key = self._runtime.dispatcher.clock.time(), key or uuid.uuid4().hex
            if policies is not None:
                await self.post(refused, "policies", ev.PolicyChanged(0, tuple(policies), by), policies_mode)
            end = None if deadline is None else at + deadline
            record = await self.post(refused, "input", ev.InputReceived(0, input, 0, at, key, end, by=by))
            return RunRef(id, key=key, at=None if record is None else record.created_at)
        await self._lookup.taken(worker)
        return RunRef(id, number, worker)

    async def _known(self, id: str, key: str) -> int | None:
        """Return the number of the input with this *key* that the run *id* has had; None if it has not."""
        run = await self._lookup.run(await self._lookup.found(RunRef(id, is_named=True)))
        return (run.memory.keys or {}).get(key)

    async def signal(self, ref: RunRef, name: str, value: Any, *, key: str | None, by: str | None) -> Posted | None:
        """Send the run *ref* the signal *name*; return the message, if it became one."""
        try:
            worker = await self._lookup.told(ref)
        except RunClosed:
            successor = await self._lookup.successor(ref.id)
            if successor is None:
                raise
            return await self.signal(RunRef(successor), name, value, key=key, by=by)
        except RunNotHeld as refused:
            if self._is_left_alone(refused):
                await self._check_signal(ref.id, name, value, key)
            at = self._runtime.dispatcher.clock.time()
            signal = ev.SignalReceived(0, name, value, at, key or uuid.uuid4().hex, by)
            return Posted(signal, await self.post(refused, "signal", signal))
        take_signal(worker, name, value, key=key, by=by)
        await self._lookup.taken(worker)
        return None

    async def _check_signal(self, id: str, name: str, value: Any, key: str | None) -> None:
        """
        Check on a copy of a run that no process drives that it would take a signal now: later the sender is gone.

        Raises:
            UnknownSignal, InvalidSignal: it would not.
        """
        copy = (await self._runtime.loader.read(id)).run
        with suppress(UnresolvedFunction):  # what is not offered here cannot judge the value
            receive_signal(copy, name, value, at=self._runtime.dispatcher.clock.time(), key=key)

    def _is_left_alone(self, refused: RunNotHeld) -> bool:
        """Whether no process drives a run, and none will do so without a call."""
        return refused.owner is None and not self._runtime.has_workers

    async def finish(self, ref: RunRef, by: str | None) -> None:
        """Let the run *ref* accept no more input, and finish when nothing is left to do."""
        try:
            worker = await self._lookup.told(ref)
        except RunClosed as closed:
            if closed.status == "cancelled":
                raise
            successor = await self._lookup.successor(ref.id)
            if successor is not None:
                await self.finish(RunRef(successor), by)
            else:
                await self._lookup.finished(ref.id)
        except RunNotHeld as refused:
            await self.post(refused, "finish", ev.RunFinished(0, by))
        else:
            finish(worker, by)
            await self._lookup.taken(worker)

    async def cancel(self, ref: RunRef, reason: str, by: str | None, *, undo: bool) -> None:
        """Cancel the run *ref*, and the children that are cancelled with it; *undo* says whether they are undone."""
        try:
            worker = await self._lookup.told(ref)
        except RunClosed as closed:
            if closed.status == "cancelled":
                await self._lookup.finished(ref.id)
                return
            successor = await self._lookup.successor(ref.id)
            if successor is None:
                raise
            await self.cancel(RunRef(successor), reason, by, undo=undo)
            return
        except RunNotHeld as refused:
            await self.post(refused, "cancel", ev.RunCancelled(0, reason, by, undo))
            return
        worker.cancel(reason, by, undo=undo)
        if worker.orphans:
            await self._runtime.children.cancel_children(worker)
        else:
            await self._lookup.written(worker)

    async def cancel_steps(self, ref: RunRef, component: str | RunnableRef, reason: str, by: str | None) -> None:
        """Cancel the work and the waits of *component* in the run *ref*."""
        try:
            worker = await self._lookup.told(ref)
        except RunClosed:
            successor = await self._lookup.successor(ref.id)
            if successor is None:
                raise
            await self.cancel_steps(RunRef(successor), component, reason, by)
        except RunNotHeld as refused:
            key = (component.component, component.inputs) if isinstance(component, RunnableRef) else (component, ())
            await self.post(refused, "cancel_step", ev.RunnableCancelled(0, *key, reason, by=by))
        else:
            cancel_steps(worker, component, reason, by)
            await self._lookup.written(worker)

    async def set_policies(self, ref: RunRef, policies: Iterable[Any], mode: PoliciesMode, by: str | None) -> None:
        """Put *policies* in force for the run *ref*, from the next decision on."""
        try:
            worker = await self._lookup.told(ref)
        except RunClosed:
            successor = await self._lookup.successor(ref.id)
            if successor is None:
                raise
            await self.set_policies(RunRef(successor), policies, mode, by)
        except RunNotHeld as refused:
            await self.post(refused, "policies", ev.PolicyChanged(0, tuple(policies), by), mode)
        else:
            set_policies(worker, policies, mode, by)
            await self._lookup.taken(worker)

    async def post(
        self, refused: RunNotHeld, kind: str, event: ev.AnyEvent, mode: PoliciesMode = "replace"
    ) -> RunRecord | None:
        """
        Leave a message for a run that is not here, as *refused* says.

        Returns:
            Where an input or a signal has found the run.

        Raises:
            RunNotHeld: the store takes no messages.
            RunParked: the run needs a person first.
        """
        mailbox = self._runtime.mailbox
        if not mailbox.is_there:
            raise refused
        stored = None
        if kind in ("input", "signal"):
            stored = await self._runtime.ownership.record(refused.run_id)
            if stored.status == "parked":
                raise RunParked(stored.id, stored.reason)
        if isinstance(event, ev.PolicyChanged) and mode == "merge":
            kind = MERGE_POLICIES
        await mailbox.post(refused.run_id, kind, event)
        if self._is_left_alone(refused):
            _log.info(
                "no process drives run %r: a message (%s) is stored, and taken in or refused when the run is resumed; "
                "unread(%r) has it until then",
                *(refused.run_id, kind, refused.run_id),
            )
        return stored

"""
What is running here: what user code can know about its own execution, and say about it.

Whoever executes announces what is about to run; a component, or a hook of it, asks ``weft.current()``.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import msgspec

from weft.core.functions.references import MISSING
from weft.errors import NoRun, NoRunner

if TYPE_CHECKING:
    from weft.core.fold.memory import Memory
    from weft.core.fold.scope import Activation, Key
    from weft.core.lineage.lineage import Lineage
    from weft.core.run.child import Child, Family
    from weft.core.run.runnable import Runnable
    from weft.core.workflow import Workflow


class Addition(msgspec.Struct, frozen=True, eq=False):
    """A fragment that a component, or a hook of it, adds to the workflow of its run."""

    fragment: Any
    to: Any = None


class Current:
    """What user code can know about its own execution, and say about it."""

    __slots__ = ("_running",)

    def __init__(self, running: Runnable | tuple[Memory, Activation]) -> None:
        self._running = running

    @property
    def component(self) -> str:
        """The component, or the part of one, that is running."""
        return self._key[0]

    @property
    def run_id(self) -> str:
        """The run that it is running for."""
        running = self._running
        return running[0].run_id if isinstance(running, tuple) else running.run_id

    @property
    def attempt(self) -> int:
        """The number of this attempt, counted from 1."""
        return 1 if isinstance(self._running, tuple) else self._running.attempt

    @property
    def idempotency_key(self) -> str:
        """The same at every attempt, after every resume and deploy; different for every input of every run."""
        running = self._running
        own = None if isinstance(running, tuple) else running.own_key
        return own or self._lineage.idempotency_key(self.run_id, *self._key)

    @property
    def runnable_id(self) -> str:
        """What is running: the same work has the same id in every process."""
        return self._lineage.runnable_id(*self._key)

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The values that it was given."""
        return tuple(self._lineage.fact(address).value for address in self._key[1])

    def heartbeat(self) -> None:
        """Give a sign of life, for a policy that asks for one (``heartbeat=``); elsewhere it does nothing."""
        running = self._running
        if not isinstance(running, tuple) and running.pulse is not None:
            running.pulse()

    def add(self, fragment: object, *, to: object = None) -> None:
        """
        Add to the workflow of this run once this attempt has completed; one that fails adds nothing.

        What is added with ``to=`` this component gets the value that it is about to make.
        """
        running, addition = self._running, Addition(fragment, to)
        if isinstance(running, tuple):
            running[0].adding = (*running[0].adding, addition)
        else:
            running.added = (*running.added, addition)

    def start_child(
        self,
        workflow: Workflow,
        value: Any = MISSING,
        *,
        id: str | None = None,
        cancel_with_parent: bool = True,
        **options: Any,
    ) -> Child:
        """
        Start another run from a plain function; ``start_child(...).result()`` waits for it.

        A step that is executed again, after a failure or a crash, finds the child that it has started before.

        Args:
            workflow: what the child runs.
            value: its input.
            id: its name, in place of one that follows from this step.
            cancel_with_parent: whether it is cancelled when this run is.
            options: those of ``runner.start``; what is not said is as for this run.

        Raises:
            NoRunner: nothing here can start a run.
        """
        family, with_parent = self._family, cancel_with_parent
        return family.start(self._runnable, workflow, value, id=id, with_parent=with_parent, **options)

    async def astart_child(
        self,
        workflow: Workflow,
        value: Any = MISSING,
        *,
        id: str | None = None,
        cancel_with_parent: bool = True,
        **options: Any,
    ) -> Child:
        """Start another run from a coroutine function, as :meth:`start_child`; what the child gives is awaited."""
        family, with_parent = self._family, cancel_with_parent
        return await family.astart(self._runnable, workflow, value, id=id, with_parent=with_parent, **options)

    @property
    def _family(self) -> Family:
        running = self._running
        family = None if isinstance(running, tuple) else running.family
        if family is None:
            raise NoRunner(self.component)
        return family

    @property
    def _runnable(self) -> Runnable:
        assert not isinstance(self._running, tuple)  # noqa: S101
        return self._running

    @property
    def _key(self) -> Key:
        return self._running[1].key if isinstance(self._running, tuple) else self._running.key

    @property
    def _lineage(self) -> Lineage:
        return self._running[0].lineage if isinstance(self._running, tuple) else self._running.lineage

    def __repr__(self) -> str:
        return f"Current(run_id={self.run_id!r}, component={self.component!r}, attempt={self.attempt})"


_running: ContextVar[Runnable | tuple[Memory, Activation] | None] = ContextVar("weft_running", default=None)
announce = _running.set
"""Say what is about to run: a runnable, or an activation and its memory, which is cheaper."""
announced = _running.get


def current() -> Current:
    """
    Return what is running here: ``weft.current().idempotency_key`` inside a step.

    Raises:
        NoRun: called outside of a component.
    """
    running = _running.get()
    if running is None:
        raise NoRun("current() was called outside of a component that Weft runs")
    return Current(running)

"""
The current execution, as the user's function sees it: ``weft.current()``.

The loop that executes a runnable sets it; a component, or a hook of it, reads it.  This module knows only the few
attributes of the runnable that can be read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from weft.core.functions.references import MISSING
from weft.core.functions.reports import NO_STREAM, Reporter, StreamWriter
from weft.errors import NoRun, NoRunner, NotInTransaction, NoToken
from weft.typing import Address

if TYPE_CHECKING:
    from weft.core.plan.compiled_workflow import CompiledWorkflow
    from weft.core.run.child import Child, StepRunner

Key: TypeAlias = tuple[str, tuple[Address, ...]]
"""A component, or a part of one, and the addresses of what it runs on."""


class Addition(msgspec.Struct, frozen=True, eq=False):
    """A fragment that a component, or a hook of it, adds to the workflow of its run."""

    fragment: Any
    to: Any = None


class Origins(Protocol):
    """The lineage of a run: facts by address, and ids that follow from them."""

    def fact(self, address: Address) -> Any:
        """Return the fact at *address*."""
        ...

    def runnable_id(self, component: str, inputs: tuple[Address, ...]) -> str:
        """Return the id of *component* on *inputs*, the same in every process."""
        ...

    def idempotency_key(self, run: str, component: str, inputs: tuple[Address, ...]) -> str:
        """Return the key of *component* on *inputs* in *run*."""
        ...


class Exclusive(Protocol):
    """A transaction."""

    @property
    def is_exclusive(self) -> bool:
        """Whether nothing else can be stored while it is open."""
        ...


class Announced(Protocol):
    """A runnable."""

    run_id: str
    attempt: int
    own_key: str | None
    added: tuple[Addition, ...]
    streams: dict[tuple[str, int], StreamWriter] | None

    @property
    def reporter(self) -> Reporter | None:
        """Takes what it reports, in a worker process."""
        ...

    @property
    def key(self) -> Key:
        """The key that identifies it in its run."""
        ...

    @property
    def lineage(self) -> Origins:
        """Where its inputs came from."""
        ...

    @property
    def on_heartbeat(self) -> Callable[[], object] | None:
        """Takes a heartbeat, where one is expected."""
        ...

    @property
    def token(self) -> str | None:
        """The token that completes it from outside, if it is an external step."""
        ...

    @property
    def runner(self) -> StepRunner | None:
        """Starts other runs, where there is a runner."""
        ...

    @property
    def transaction(self) -> Exclusive | None:
        """The transaction that it writes in, if it asks for one."""
        ...


class AnnouncedMemory(Protocol):
    """The memory of a run whose activations are executed without a runnable, which is cheaper."""

    run_id: str
    adding: tuple[Addition, ...]

    @property
    def lineage(self) -> Origins:
        """Where its facts came from."""
        ...


class AnnouncedActivation(Protocol):
    """An activation in that memory."""

    @property
    def key(self) -> Key:
        """The key that identifies it in its run."""
        ...


Running: TypeAlias = Announced | tuple[AnnouncedMemory, AnnouncedActivation]


class Current:
    """The execution that this code is part of: what it runs on, and what it may ask for."""

    __slots__ = ("_running",)

    def __init__(self, running: Running) -> None:
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
        """The id of what is running: the same work has the same id in every process."""
        return self._lineage.runnable_id(*self._key)

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The values that it was given."""
        return tuple(self._lineage.fact(address).value for address in self._key[1])

    @property
    def token(self) -> str:
        """
        The token that completes this step from outside, of a policy with ``execution_mode="external"``.

        Hand it out, and return: ``runner.complete(token, value)`` or ``runner.fail(token, error)`` ends the step.

        Raises:
            NoToken: the step is not external.
        """
        token = None if isinstance(self._running, tuple) else self._running.token
        if token is None:
            raise NoToken(self.component)
        return token

    def heartbeat(self) -> None:
        """Send a heartbeat, for a policy with ``heartbeat=``; without one this does nothing."""
        running = self._running
        if not isinstance(running, tuple) and running.on_heartbeat is not None:
            running.on_heartbeat()

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """
        Report how far this step has come: ``progress(3, 10, "third page")``.

        ``runner.progress(id)`` shows the last report.  It costs next to nothing, and is not kept in the log.
        Without a runner it does nothing.
        """
        reporter = self._reporter
        if reporter is not None:
            reporter.report(self._running, done, total, note)

    def stream(self, name: str) -> StreamWriter:
        """
        Return a stream of this run: ``stream("tokens").write(x)`` is read by others while this step runs.

        Items are stored in batches, all of them before the result of this step counts; ``runner.stream(id, name)``
        reads them.  Without a runner they are dropped.

        Raises:
            NoStreams: the store of the runner keeps none.
            NotInTransaction: this step has the only transaction of the store.
        """
        running, reporter = self._running, self._reporter
        if reporter is None or isinstance(running, tuple):
            return NO_STREAM
        self._check_can_store("write to a stream")
        if running.streams is None:
            running.streams = {}
        key = (name, running.attempt)
        writer = running.streams.get(key)
        if writer is None:
            writer = running.streams[key] = reporter.stream(running, name)
        return writer

    @property
    def _reporter(self) -> Reporter | None:
        running = self._running
        if isinstance(running, tuple):
            return None
        return running.reporter or (None if running.runner is None else running.runner.reporter)

    def add(self, fragment: object, *, to: object = None) -> None:
        """
        Add *fragment* to the workflow of this run once this attempt has completed; an attempt that fails adds nothing.

        A fragment that is added with ``to=`` this component gets the value that the component is about to make.
        """
        running, addition = self._running, Addition(fragment, to)
        if isinstance(running, tuple):
            running[0].adding = (*running[0].adding, addition)
        else:
            running.added = (*running.added, addition)

    def start_child(
        self,
        workflow: CompiledWorkflow,
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
            id: its id; by default one that is derived from this step.
            cancel_with_parent: whether it is cancelled when this run is.
            options: those of ``runner.start``; those that are not given are as for this run.

        Raises:
            NoRunner: nothing here can start a run.
            NotInTransaction: this step has the only transaction of the store.
        """
        runner, with_parent = self._runner, cancel_with_parent
        return runner.start(self._runnable, workflow, value, id=id, with_parent=with_parent, **options)

    async def astart_child(
        self,
        workflow: CompiledWorkflow,
        value: Any = MISSING,
        *,
        id: str | None = None,
        cancel_with_parent: bool = True,
        **options: Any,
    ) -> Child:
        """Start another run from a coroutine function, as :meth:`start_child`; the methods of the child are awaited."""
        runner, with_parent = self._runner, cancel_with_parent
        return await runner.astart(self._runnable, workflow, value, id=id, with_parent=with_parent, **options)

    @property
    def _runner(self) -> StepRunner:
        running = self._running
        runner = None if isinstance(running, tuple) else running.runner
        if runner is None:
            raise NoRunner(self.component)
        self._check_can_store("start a child run")
        return runner

    def _check_can_store(self, what: str) -> None:
        """Refuse what would wait for the store, which waits for the transaction of this step."""
        running = self._running
        transaction = None if isinstance(running, tuple) else running.transaction
        if transaction is not None and transaction.is_exclusive:
            raise NotInTransaction(self.component, what)

    @property
    def _runnable(self) -> Announced:
        assert not isinstance(self._running, tuple)  # noqa: S101
        return self._running

    @property
    def _key(self) -> Key:
        return self._running[1].key if isinstance(self._running, tuple) else self._running.key

    @property
    def _lineage(self) -> Origins:
        return self._running[0].lineage if isinstance(self._running, tuple) else self._running.lineage

    def __repr__(self) -> str:
        return f"Current(run_id={self.run_id!r}, component={self.component!r}, attempt={self.attempt})"


_running: ContextVar[Running | None] = ContextVar("weft_running", default=None)
announce = _running.set
"""Announces what is about to run: a runnable, or an activation and its memory."""
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

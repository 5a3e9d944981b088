"""
Handles: how a caller refers to one run, or to many that were started together.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, cast, overload

import msgspec

from weft.core.events import AnyEvent
from weft.core.functions.reports import Progress
from weft.core.run.run import Run
from weft.errors import RunNotFound
from weft.ports.store import RunStatus
from weft.runner import notebook
from weft.runner.execution.streams import StreamItem
from weft.typing import Out_co


class RunRef(msgspec.Struct, frozen=True):
    """A run that a caller refers to."""

    id: str
    input: int | None = None
    """The number of an input, if the caller refers to one."""
    worker: Any = None
    """The worker of the run, as it was when the caller got its handle: it keeps a finished run in memory."""
    key: str | None = None
    """The key of an input that was left in the inbox of the run, and has no number yet."""
    is_named: bool = False
    """Whether the caller has named the run by its id: then its last input is meant, and whichever run has the id."""
    at: float | None = None
    """When the run was created, if that is known and there is no worker to tell: another run may have its id later."""

    @property
    def is_clear(self) -> bool:
        """Whether it is known which input is meant: the one with a number, or the last one."""
        return self.input is not None or self.is_named

    @property
    def created_at(self) -> float | None:
        """When the run was created, which tells it from others that have had its id; None if that is not known."""
        return self.at if self.worker is None else self.worker.created_at


class RunHandle(Generic[Out_co]):
    """The base of handles: which run is meant, and in which runner."""

    __slots__ = ("_ref", "_runner", "_via")

    def __init__(self, runner: Any, ref: RunRef, via: Callable[[Any], Any] | None = None) -> None:
        """Refer to the run *ref*; *via* converts what a method of *runner* returns."""
        self._runner = runner
        self._ref, self._via = ref, via

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._ref.id

    @property
    def ref(self) -> RunRef:
        """The run and the input that it refers to."""
        return self._ref

    def _given(self, got: Any) -> Any:
        return got if self._via is None else self._via(got)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RunHandle)
            and (self.id, self._ref.input) == (other.id, other._ref.input)
            and self._runner is other._runner
        )

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        number = self._ref.input
        of = "" if number is None or number == 1 else f", input {number}"
        return f"{type(self).__name__}({self.id!r}{of})"


class Handle(RunHandle[Out_co]):
    """
    A run of a ``Runner``, or one of its inputs.

    A handle that ``start`` or ``send`` returned belongs to that input: :meth:`result` and :meth:`results` are what
    came of it.  The type in ``Handle[str]`` is that of the output.

    A handle stays with its run.  If that was deleted, and another run has its id since, every method raises
    ``RunReplaced``.
    """

    __slots__ = ()

    def send(
        self,
        input: Any,  # noqa: A002 - what one would say
        *,
        key: str | None = None,
        deadline: float | None = None,
        by: str | None = None,
    ) -> Handle[Out_co]:
        """Send the run a further input; return a handle of that input."""
        return cast("Handle[Out_co]", self._given(self._runner.send(self, input, key=key, deadline=deadline, by=by)))

    def wait(self, timeout: float | None = None) -> Run[Out_co]:
        """Wait until there is nothing left to do; return the run."""
        return cast("Run[Out_co]", self._given(self._runner.wait(self, timeout)))

    def result(self, timeout: float | None = None) -> Out_co:
        """
        Wait until there is nothing left to do; return the output.

        Raises:
            RunFailed: something failed, and nothing has handled it.
            NothingProduced: nothing was produced; the error says why.
            NoInput: the handle belongs to no input, and the run is open or has had several.
            RunClosed, RunParked: the run was cancelled, or needs a person.
            WaitTimeout: it is not done after *timeout* seconds; the error says what it waits for.
        """
        return cast("Out_co", self._given(self._runner.result(self, timeout)))

    def results(self) -> dict[str, Any]:
        """Return what the leaves have produced so far: of the input that this handle belongs to, else the latest."""
        return cast("dict[str, Any]", self._given(self._runner.results(self)))

    def status(self) -> RunStatus:
        """Return the status of the run."""
        return cast("RunStatus", self._given(self._runner.status(self)))

    def log(self) -> list[AnyEvent]:
        """Return everything that has happened in the run, in order."""
        return cast("list[AnyEvent]", self._given(self._runner.log(self)))

    def events(self, from_: int = 1) -> Iterator[AnyEvent]:
        """Iterate over the events of the run as they become durable, from any position, until it has finished."""
        return cast("Iterator[AnyEvent]", self._runner.events(self, from_))

    def stream(self, name: str, from_: int = 0) -> Iterator[StreamItem]:
        """Iterate over the items of the stream *name* as they become durable, from any offset, until the run ends."""
        return cast("Iterator[StreamItem]", self._runner.stream(self, name, from_))

    def progress(self) -> list[Progress]:
        """Return how far the steps have come that are running and have said so."""
        return cast("list[Progress]", self._given(self._runner.progress(self)))

    def signal(self, name: str, value: Any = None, *, key: str | None = None, by: str | None = None) -> None:
        """Send the run the signal *name*."""
        self._given(self._runner.signal(self, name, value, key=key, by=by))

    def finish(self, *, by: str | None = None) -> None:
        """Let the run accept no more input, and finish when nothing is left to do."""
        self._given(self._runner.finish(self, by=by))

    def cancel(self, reason: str = "", *, component: Any = None, undo: bool = True, by: str | None = None) -> None:
        """Close the run, and undo what it has done unless *undo* is False; or cancel one *component* of it."""
        self._given(self._runner.cancel(self, reason, component=component, undo=undo, by=by))

    def _ipython_display_(self) -> None:
        """Show the run in a notebook, in a picture that follows it."""
        notebook.show(self, notebook.Blocking(self._runner), notebook.on_a_thread)


class AsyncHandle(RunHandle[Out_co]):
    """A run of an ``AsyncRunner``, or one of its inputs: a :class:`Handle` whose methods are awaited."""

    __slots__ = ()

    def send(
        self,
        input: Any,  # noqa: A002 - what one would say
        *,
        key: str | None = None,
        deadline: float | None = None,
        by: str | None = None,
    ) -> Awaitable[AsyncHandle[Out_co]]:
        """Send the run a further input; return a handle of that input."""
        sent = self._given(self._runner.send(self, input, key=key, deadline=deadline, by=by))
        return cast("Awaitable[AsyncHandle[Out_co]]", sent)

    def wait(self, timeout: float | None = None) -> Awaitable[Run[Out_co]]:
        """Wait until there is nothing left to do; return the run."""
        return cast("Awaitable[Run[Out_co]]", self._given(self._runner.wait(self, timeout)))

    def result(self, timeout: float | None = None) -> Awaitable[Out_co]:
        """Wait until there is nothing left to do; return the output, or raise as :meth:`Handle.result`."""
        return cast("Awaitable[Out_co]", self._given(self._runner.result(self, timeout)))

    def results(self) -> Awaitable[dict[str, Any]]:
        """Return what the leaves have produced so far: of the input that this handle belongs to, else the latest."""
        return cast("Awaitable[dict[str, Any]]", self._given(self._runner.results(self)))

    def status(self) -> Awaitable[RunStatus]:
        """Return the status of the run."""
        return cast("Awaitable[RunStatus]", self._given(self._runner.status(self)))

    def log(self) -> Awaitable[list[AnyEvent]]:
        """Return everything that has happened in the run, in order."""
        return cast("Awaitable[list[AnyEvent]]", self._given(self._runner.log(self)))

    def events(self, from_: int = 1) -> AsyncGenerator[AnyEvent, None]:
        """Iterate over the events of the run as they become durable, from any position, until it has finished."""
        return cast("AsyncGenerator[AnyEvent, None]", self._runner.events(self, from_))

    def stream(self, name: str, from_: int = 0) -> AsyncGenerator[StreamItem, None]:
        """Iterate over the items of the stream *name* as they become durable, from any offset, until the run ends."""
        return cast("AsyncGenerator[StreamItem, None]", self._runner.stream(self, name, from_))

    def progress(self) -> Awaitable[list[Progress]]:
        """Return how far the steps have come that are running and have said so."""
        return cast("Awaitable[list[Progress]]", self._given(self._runner.progress(self)))

    def signal(self, name: str, value: Any = None, *, key: str | None = None, by: str | None = None) -> Awaitable[None]:
        """Send the run the signal *name*."""
        return cast("Awaitable[None]", self._given(self._runner.signal(self, name, value, key=key, by=by)))

    def finish(self, *, by: str | None = None) -> Awaitable[None]:
        """Let the run accept no more input, and finish when nothing is left to do."""
        return cast("Awaitable[None]", self._given(self._runner.finish(self, by=by)))

    def cancel(
        self, reason: str = "", *, component: Any = None, undo: bool = True, by: str | None = None
    ) -> Awaitable[None]:
        """Close the run, and undo what it has done unless *undo* is False; or cancel one *component* of it."""
        cancelling = self._runner.cancel(self, reason, component=component, undo=undo, by=by)
        return cast("Awaitable[None]", self._given(cancelling))

    def _ipython_display_(self) -> None:
        """Show the run in a notebook, in a picture that follows it."""
        notebook.show(self, self._runner, notebook.in_the_loop)


def as_ref(run: str | RunHandle[Any]) -> RunRef:
    """Return the run that a caller refers to by an id or a handle."""
    return run.ref if isinstance(run, RunHandle) else RunRef(id_of(run), is_named=True)


def id_of(run: str | RunHandle[Any]) -> str:
    """
    Return the id of the run that a caller refers to by an id or a handle.

    Raises:
        RunNotFound: it is neither.
    """
    given: Any = run
    if isinstance(given, str | RunHandle):
        return given if isinstance(given, str) else given.id
    raise RunNotFound(given)


H_co = TypeVar("H_co", bound=RunHandle[Any], covariant=True)


class RunHandles(Sequence[H_co]):
    """The base of the handles of several runs."""

    __slots__ = ("_refs", "_runner")
    _one: ClassVar[type[RunHandle[Any]]]
    """The class of the handle of one of them."""

    def __init__(self, runner: Any, refs: Sequence[RunRef]) -> None:
        """Refer to the runs *refs*."""
        self._runner, self._refs = runner, refs

    @property
    def ids(self) -> list[str]:
        """The ids of the runs."""
        return [ref.id for ref in self._refs]

    @property
    def refs(self) -> Sequence[RunRef]:
        """The runs that they refer to."""
        return self._refs

    def __len__(self) -> int:
        return len(self._refs)

    @overload
    def __getitem__(self, index: int) -> H_co: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> H_co | Self:
        if isinstance(index, slice):
            return type(self)(self._runner, self._refs[index])
        return cast("H_co", self._one(self._runner, self._refs[index]))

    def __iter__(self) -> Iterator[H_co]:
        return (cast("H_co", self._one(self._runner, ref)) for ref in self._refs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.ids!r})"


class Handles(RunHandles[Handle[Out_co]], Generic[Out_co]):
    """Runs of a ``Runner`` that were started together, in the order of their inputs."""

    __slots__ = ()
    _one = Handle

    @overload
    def gather(self, timeout: float | None = None, *, return_exceptions: Literal[False] = False) -> list[Out_co]: ...
    @overload
    def gather(self, timeout: float | None = None, *, return_exceptions: bool) -> list[Out_co | Exception]: ...
    def gather(self, timeout: float | None = None, *, return_exceptions: bool = False) -> list[Any]:
        """Wait until all runs have nothing left to do; return their outputs in order, or raise the first error."""
        return cast("list[Any]", self._runner.gather(self, timeout, return_exceptions=return_exceptions))


class AsyncHandles(RunHandles[AsyncHandle[Out_co]], Generic[Out_co]):
    """Runs of an ``AsyncRunner`` that were started together: :class:`Handles` whose :meth:`gather` is awaited."""

    __slots__ = ()
    _one = AsyncHandle

    @overload
    def gather(
        self, timeout: float | None = None, *, return_exceptions: Literal[False] = False
    ) -> Awaitable[list[Out_co]]: ...
    @overload
    def gather(
        self, timeout: float | None = None, *, return_exceptions: bool
    ) -> Awaitable[list[Out_co | Exception]]: ...
    def gather(self, timeout: float | None = None, *, return_exceptions: bool = False) -> Awaitable[Any]:
        """Wait until all runs have nothing left to do; return their outputs in order, or raise the first error."""
        return cast("Awaitable[Any]", self._runner.gather(self, timeout, return_exceptions=return_exceptions))

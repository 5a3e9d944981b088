"""
The frames that a runner and its worker processes exchange, as bytes.

A runner sends the function and its arguments, with the data of ``weft.current()`` and what telemetry wants to be called
before the function; it gets back the result or the exception, and the additions to the run.  All of it is pickled, by
one process for its own child: stored data is never read like this.

Everything that goes through the pipe is a frame, which begins with the ticket of its work.  A frame with nothing else
is a heartbeat, one with a mark after it a report; a frame of another ticket belongs to work that is over, and is
dropped.

A function is sent by its module and name.  A decorated function is no longer found there, but the component that was
made of it is, and leads to it.  A lambda or a local function has no such name and cannot be sent.
"""

from __future__ import annotations

import importlib
import io
import logging
import pickle
import struct
from collections.abc import Callable, Sequence
from functools import reduce
from types import FunctionType
from typing import Any, Literal

from weft.core.events import ErrorDetail
from weft.core.failure import describe, described, sound, text_of
from weft.core.functions.current import Addition
from weft.core.functions.function import Function
from weft.core.functions.reports import Reporter
from weft.core.lineage.fact import Fact
from weft.core.lineage.lineage import Lineage
from weft.core.plan.node import FunctionNode, Kind
from weft.core.run.runnable import Outcome, Runnable
from weft.errors import NoRun, NotTransferable, an
from weft.typing import Address

_log = logging.getLogger(__name__)

_HINT = "send data that can be pickled, and open connections and the like inside the step, or run it on a thread"
_NAMELESS = "define it at the top level of a module that the worker can import, or run the component on a thread"


_TICKET = struct.Struct(">q")
_REPORT = b"R"
"""The mark that follows the ticket in a report; that of an outcome begins with the first byte of a pickle."""


def sign_of_life(ticket: int) -> bytes:
    """Return the heartbeat frame of *ticket*."""
    return _TICKET.pack(ticket)


def report_frame(ticket: int, *report: Any) -> bytes:
    """Return what the work of *ticket* reports while it runs, as a frame."""
    return _TICKET.pack(ticket) + _REPORT + pickle.dumps(report, pickle.HIGHEST_PROTOCOL)


def report_in(frame: bytes) -> tuple[Any, ...] | None:
    """Return what a *frame* reports; None if it is not a report."""
    start = _TICKET.size
    if frame[start : start + 1] != _REPORT:
        return None
    report: tuple[Any, ...] = pickle.loads(frame[start + 1 :])  # noqa: S301 - our own child's
    return report


def ticket_of(frame: bytes) -> int:
    """Return the ticket of *frame*."""
    (ticket,) = _TICKET.unpack_from(frame)
    return int(ticket)


def is_sign_of_life(frame: bytes) -> bool:
    """Return whether *frame* has nothing but a ticket."""
    return len(frame) == _TICKET.size


def _opened(frame: bytes) -> io.BytesIO:
    """Return *frame* as a file that begins after the ticket."""
    buffer = io.BytesIO(frame)
    buffer.seek(_TICKET.size)
    return buffer


def pack(ticket: int, runnable: Runnable) -> bytes:
    """
    Return the frame with which another process can run *runnable*.

    Raises:
        NotTransferable: the function or an argument cannot be pickled.
    """
    call, kwargs = runnable.node.call, runnable.kwargs
    if runnable.override is not None:
        call, kwargs = runnable.override.call, dict(runnable.override.constants)
    about: Any = (
        runnable.run_id,
        runnable.component,
        runnable.attempt,
        runnable.idempotency_key,
        runnable.is_condition,
    )
    inputs = [runnable.lineage.fact(address).value for address in runnable.inputs]
    entries = packed_entries(runnable) if runnable.entries else b""
    try:
        reporter = runnable.reporter or (None if runnable.runner is None else runnable.runner.reporter)
        keeps_streams = None if reporter is None else reporter.keeps_streams
        about = (*about, runnable.on_heartbeat is not None, entries, runnable.token, keeps_streams)
        return _framed(ticket, about, (call, runnable.args, kwargs, inputs))
    except Exception as error:
        raise _explained(runnable.component, call, runnable.args, kwargs, error) from error


def packed_entries(runnable: Runnable) -> bytes:
    """Return what is to be called before the function, as bytes; empty, which is logged, if it cannot be pickled."""
    try:
        return pickle.dumps(runnable.entries, pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001 - whatever it is, the function can run
        _log.exception("%r runs in a worker process without its telemetry, which cannot be pickled", runnable.component)
        return b""


def unpacked_entries(component: str, data: bytes) -> tuple[Callable[[], object], ...]:
    try:
        entries: tuple[Callable[[], object], ...] = pickle.loads(data) if data else ()  # noqa: S301 - our own parent's
    except BaseException:  # noqa: BLE001 - as above
        _log.exception("%r runs without its telemetry, which cannot be loaded in this worker process", component)
        return ()
    return entries


def _explained(component: str, call: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> Exception:
    """Find out what it was that cannot be pickled."""
    name = getattr(call, "__qualname__", repr(call))
    named = [(f"its function {name}", call)]
    named += [(f"its argument {place}", value) for place, value in enumerate(args, 1)]
    named += [(f"its argument {keyword!r}", value) for keyword, value in kwargs.items()]
    for what, value in named:
        try:
            _framed(0, value)
        except Exception as own:  # noqa: BLE001 - this is the one
            shown = what if value is call else f"{what}, {an(type(value).__qualname__)},"
            return NotTransferable(component, shown, text_of(own), _NAMELESS if value is call else _HINT)
    return NotTransferable(component, "its function with its arguments", text_of(error), _HINT)


def unpack(
    frame: bytes, beat: Callable[[], object], reporter_for: Callable[[bool], Reporter | None] = lambda _: None
) -> Runnable:
    """
    Return, in the other process, the runnable that was packed; *beat* is its heartbeat, if the runner wants them.

    *reporter_for* makes what takes its reports, given whether there are streams.

    Raises:
        NotTransferable: the function or an argument cannot be loaded here.
    """
    buffer = _opened(frame)
    run_id, component, attempt, key, is_condition, is_heard, packed, token, keeps = pickle.load(buffer)  # noqa: S301 - our parent's
    try:
        call, args, kwargs, inputs = pickle.load(buffer)  # noqa: S301
    except BaseException as error:
        why = f"in the worker it fails with {type(error).__qualname__}: {text_of(error)}"
        hint = "make the modules of both importable there, without side effects"
        raise NotTransferable(component, "its function or an argument", why, hint) from error
    entries = unpacked_entries(component, packed)
    sent = sent_runnable(call, args, kwargs, inputs, is_condition, run_id, component, attempt, key, entries)
    sent.on_heartbeat, sent.token, sent.reporter = (
        beat if is_heard else None,
        token,
        None if keeps is None else reporter_for(keeps),
    )
    return sent


def sent_runnable(
    call: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    inputs: Sequence[Any],
    is_condition: bool,
    run_id: str,
    component: str,
    attempt: int,
    key: str,
    entries: tuple[Callable[[], object], ...],
) -> Runnable:
    """Return a runnable that was sent here without its run."""
    kind = Kind.TEST if is_condition else Kind.WORK
    node = FunctionNode(name=component, owner=component, kind=kind, region=None, call=call, is_test=is_condition)
    addresses = tuple(range(len(inputs)))
    return Runnable(node, run_id, addresses, _SentLineage(inputs), args, kwargs, attempt, own_key=key, entries=entries)


class _SentLineage(Lineage):
    """Stands in for the log, which stays in the process of the run; it has only the *inputs*."""

    __slots__ = ("_inputs",)

    def __init__(self, inputs: Sequence[Any]) -> None:
        super().__init__()
        self._inputs = inputs

    def fact(self, address: Address) -> Fact:
        """Return an input."""
        assert isinstance(address, int)  # noqa: S101
        return Fact(self, address, self._inputs[address], None)

    def runnable_id(self, component: str, inputs: tuple[Any, ...]) -> str:
        """Refuse: the id is a hash of values that are not here."""
        del inputs
        raise NoRun(f"{component!r} runs in a worker process, which does not know its runnable_id; use idempotency_key")


# -- and back ------------------------------------------------------------------------------------


def pack_outcome(ticket: int, outcome: Outcome) -> bytes:
    """Return *outcome* as a frame."""
    if outcome.error is not None:
        return _packed_error(ticket, outcome.error, outcome.duration_ns)
    try:
        return _framed(ticket, (True, (outcome.result, outcome.added), outcome.duration_ns))
    except Exception as error:  # noqa: BLE001 - a value that cannot be sent is a failing attempt
        return _packed_error(ticket, _unsendable(outcome, error), outcome.duration_ns)


def _unsendable(outcome: Outcome, error: Exception) -> NotTransferable:
    """Find out what it was that cannot be pickled."""
    try:
        _framed(0, outcome.result)
    except Exception as own:  # noqa: BLE001 - this is the one
        what, hint = f"its result, {an(type(outcome.result).__qualname__)},", "return data that can be pickled"
        return NotTransferable(outcome.component, what, text_of(own), f"{hint}, or run it on a thread")
    what = "its addition to the run"
    return NotTransferable(outcome.component, what, text_of(error), _NAMELESS if outcome.added else _HINT)


def _packed_error(ticket: int, error: BaseException, duration_ns: int) -> bytes:
    try:
        whole = _framed(ticket, error)
    except Exception:  # noqa: BLE001 - described, it can be sent
        whole = b""
    return _framed(ticket, (False, (whole, describe(error)), duration_ns))


def unpack_outcome(runnable: Runnable, frame: bytes) -> Outcome:
    """Return the outcome of *runnable*; an exception that cannot be read here is described."""
    try:
        completed, value, duration = pickle.load(_opened(frame))  # noqa: S301 - our own child's
    except Exception as error:  # noqa: BLE001 - a value that cannot be read is a failing attempt
        why = f"to read it fails with {type(error).__qualname__}: {text_of(error)}"
        return outcome_of(runnable, None, NotTransferable(runnable.component, "its result", why, _HINT), 0)
    if completed:
        result, added = value
        return outcome_of(runnable, result, None, duration, added)
    whole, detail = value
    raised = _read_error(whole, detail)
    return outcome_of(runnable, None, _noted(described(detail), detail) if raised is None else raised, duration)


def _read_error(whole: bytes, detail: ErrorDetail) -> BaseException | None:
    """Return the exception as it was, unless its class cannot be created from its ``args``."""
    try:
        error: Any = pickle.load(_opened(whole)) if whole else None  # noqa: S301 - our own child's
        is_same = issubclass(type(error), BaseException) and text_of(error) == detail.message
        return sound(_noted(error, detail)) if is_same else None
    except Exception:  # noqa: BLE001 - such classes are many
        return None


def _noted(error: BaseException, detail: ErrorDetail) -> BaseException:
    """Return *error* with a note of where it was raised."""
    error.add_note(f"in a worker process:\n{detail.traceback}")
    return error


def outcome_of(
    runnable: Runnable,
    result: Any,
    error: BaseException | None,
    duration_ns: int,
    added: tuple[Addition, ...] = (),
) -> Outcome:
    status: Literal["completed", "failed"] = "completed" if error is None else "failed"
    run_id = runnable.run_id
    return Outcome(*runnable.key, status, result, error, runnable.attempt, duration_ns, run_id=run_id, added=added)


# -- pickling ------------------------------------------------------------------------------------


def _framed(ticket: int, *values: Any) -> bytes:
    """Pickle *values* one after the other, as a frame of *ticket*."""
    buffer = io.BytesIO()
    buffer.write(_TICKET.pack(ticket))
    for value in values:
        _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def pickled(value: Any) -> bytes:
    """Pickle *value*, decorated functions by the name of their component."""
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def unpickled(data: bytes) -> Any:
    """Read what :func:`pickled` has written, for this process or a worker of it."""
    return pickle.loads(data)  # noqa: S301 - never of stored data


class _Pickler(pickle.Pickler):
    """Pickles a decorated function by the name of its component."""

    def reducer_override(self, obj: Any) -> Any:
        """Return how to find *obj* again, if its name leads to the component that was made of it."""
        if type(obj) is FunctionType and "<" not in obj.__qualname__:
            module, name = obj.__module__, obj.__qualname__
            try:
                found = _at(module, name)
            except (AttributeError, ImportError):
                return NotImplemented
            if found is not obj and _function_of(found) is obj:
                return find, (module, name)
        return NotImplemented


def find(module: str, name: str) -> Any:
    """Return the function of the component at *name* in *module*."""
    return _function_of(_at(module, name))


def _at(module: str, name: str) -> Any:
    return reduce(getattr, name.split("."), importlib.import_module(module))


def _function_of(component: Any) -> Any:
    try:
        inside = Function.inside(component)
    except Exception:  # noqa: BLE001 - it is some other object, and may raise anything
        return None
    return None if inside is None else inside.call

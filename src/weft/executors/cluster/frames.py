"""
The frames that a runner and the workers of a cluster exchange, as bytes.

Values cross as Weft's own bytes, as they are written to a log: what a step returns on a cluster is what its run would
have after a resume.  Classes are known by the annotations of the function, or because the application has registered
them, on both sides.  The function crosses by its module and name, and telemetry as it does to a worker process.

A frame begins with the ticket of its work; one with nothing else is a heartbeat, as in :mod:`weft.executors.transfer`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import reduce
from typing import Any

from weft.core.events import ErrorDetail
from weft.core.failure import describe, restored, text_of
from weft.core.functions.reports import Reporter
from weft.core.run.runnable import Outcome, Runnable
from weft.errors import DescribedError, NotTransferable, UnencodableValue, an
from weft.executors.transfer import (
    outcome_of,
    packed_entries,
    pickled,
    sent_runnable,
    sign_of_life,
    unpacked_entries,
    unpickled,
)
from weft.log.class_registry import name_of
from weft.log.known_types import classes_of
from weft.log.value_decoder import Values
from weft.log.value_encoder import encode_value

_HINT = "send data, and open connections and the like inside the step, or choose another executor for it"
_NAMELESS = "define it at the top level of a module that the cluster can import"
_START = len(sign_of_life(0))
_REPORT = b"\xc1"
"""The mark that follows the ticket in a report; MessagePack, in which an outcome is written, never uses this byte."""


def pack(ticket: int, runnable: Runnable) -> bytes:
    """
    Return the frame with which a worker can run *runnable*.

    Raises:
        BaseException: its arguments could not be made.
        NotTransferable: the function has no name there, or an argument is not data.
    """
    if runnable.broken is not None:
        raise runnable.broken
    call, kwargs = runnable.node.call, runnable.kwargs
    if runnable.override is not None:
        call, kwargs = runnable.override.call, dict(runnable.override.constants)
    component = runnable.component
    reporter = runnable.reporter or (None if runnable.runner is None else runnable.runner.reporter)
    about = (
        *(runnable.run_id, component, runnable.attempt, runnable.idempotency_key, runnable.is_condition),
        *(runnable.on_heartbeat is not None, packed_entries(runnable) if runnable.entries else b"", runnable.token),
        None if reporter is None else reporter.keeps_streams,
    )
    inputs = [runnable.lineage.fact(address).value for address in runnable.inputs]
    function = _function(component, call)
    try:
        body = encode_value((about, function, runnable.args, kwargs, inputs))
    except UnencodableValue as error:
        raise _explained(component, runnable.args, kwargs, error) from error
    return sign_of_life(ticket) + body


def _function(component: str, call: Any) -> bytes:
    name = getattr(call, "__qualname__", repr(call))
    if getattr(call, "__module__", None) == "__main__":
        why = "it is in the main program, which the cluster does not import"
        raise NotTransferable(component, f"its function {name}", why, _NAMELESS)
    try:
        return pickled(call)
    except Exception as error:
        raise NotTransferable(component, f"its function {name}", text_of(error), _NAMELESS) from error


def _explained(component: str, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> NotTransferable:
    """Find out which argument it was."""
    named = [(f"its argument {place}", value) for place, value in enumerate(args, 1)]
    named += [(f"its argument {keyword!r}", value) for keyword, value in kwargs.items()]
    for what, value in named:
        try:
            encode_value(value)
        except UnencodableValue as own:
            return NotTransferable(component, f"{what}, {an(type(value).__qualname__)},", text_of(own), _HINT)
    return NotTransferable(component, "an input", text_of(error), _HINT)


def unpack(frame: bytes, beat: Callable[[], object], reporter_for: Callable[[bool], Reporter | None]) -> Runnable:
    """
    Return, on the other side, the runnable that was packed.

    *beat* takes its heartbeats; *reporter_for* makes what takes its reports, given whether there are streams.

    Raises:
        NotTransferable: the function, or the class of an argument, is not known here.
    """
    about, function, *_ = Values().decode(frame[_START:])  # without its classes, which the function leads to
    run_id, component, attempt, key, is_condition, is_heard, entries, token, keeps = about
    try:
        call = unpickled(function)
    except BaseException as error:
        why = f"on the cluster it fails with {type(error).__qualname__}: {text_of(error)}"
        raise NotTransferable(component, "its function", why, "make its module importable there") from error
    _, _, args, kwargs, inputs = _decoded(component, "an argument", call, frame[_START:])
    loaded = unpacked_entries(component, entries)
    sent = sent_runnable(call, args, kwargs, inputs, is_condition, run_id, component, attempt, key, loaded)
    sent.on_heartbeat, sent.token, sent.reporter = (
        beat if is_heard else None,
        token,
        None if keeps is None else reporter_for(keeps),
    )
    return sent


def _decoded(component: str, what: str, call: Any, data: bytes) -> Any:
    values = Values({name_of(kind): kind for kind in classes_of(call)})
    found = values.decode(data)
    if values.unknown:
        why = f"the class {next(iter(values.unknown))} is not known on the other side"
        hint = "name it in an annotation of the function, or weft.log.register it in the module of the function"
        raise NotTransferable(component, what, why, hint)
    return found


# -- meanwhile -----------------------------------------------------------------------------------


def report_frame(ticket: int, *report: Any) -> bytes:
    """Return what the work of *ticket* reports while it runs, as a frame."""
    return sign_of_life(ticket) + _REPORT + encode_value(report)


def report_in(frame: bytes) -> tuple[Any, ...] | None:
    """Return what a *frame* reports; None if it is not a report."""
    if frame[_START : _START + 1] != _REPORT:
        return None
    report: tuple[Any, ...] = Values().decode(frame[_START + 1 :])
    return report


# -- and back ------------------------------------------------------------------------------------


def pack_outcome(ticket: int, outcome: Outcome) -> bytes:
    """Return *outcome* as a frame."""
    if outcome.error is not None:
        return _packed_error(ticket, outcome.error, outcome.duration_ns)
    try:
        added = pickled(outcome.added) if outcome.added else b""
        return sign_of_life(ticket) + encode_value((True, outcome.result, added, outcome.duration_ns))
    except Exception as error:  # noqa: BLE001 - a value that cannot be sent is a failing attempt
        is_value = isinstance(error, UnencodableValue)
        what = f"its result, {an(type(outcome.result).__qualname__)}," if is_value else "its addition to the run"
        hint = "return data, or choose another executor for it" if is_value else _NAMELESS
        why = NotTransferable(outcome.component, what, text_of(error), hint)
        return _packed_error(ticket, why, outcome.duration_ns)


def _packed_error(ticket: int, error: BaseException, duration_ns: int) -> bytes:
    detail = describe(error)
    try:
        args = encode_value(tuple(error.args))
    except Exception:  # noqa: BLE001 - without them it is described
        args = b""
    told = (detail.type, detail.bases, detail.message, detail.traceback, args)
    return sign_of_life(ticket) + encode_value((False, told, duration_ns))


def unpack_outcome(runnable: Runnable, frame: bytes) -> Outcome:
    """Return the outcome of *runnable*; what cannot be read here is a failed attempt."""
    try:
        completed, *rest = _decoded(runnable.component, "its result", runnable.node.call, frame[_START:])
        if completed:
            result, added, duration = rest
            return outcome_of(runnable, result, None, duration, unpickled(added) if added else ())
        (type_, bases, message, traceback, args), duration = rest
        error = _read_error(ErrorDetail(type_, bases, message, traceback), args)
    except Exception as unread:  # noqa: BLE001 - a value that cannot be read is a failing attempt
        error, duration = unread, 0
    return outcome_of(runnable, None, error, duration)


def _read_error(detail: ErrorDetail, encoded: bytes) -> BaseException:
    """
    Return the exception as it was: of a class that is imported here and takes these arguments, or else described.

    Its constructor is not called: most are not made for the arguments that the exception keeps.
    """
    args = Values().decode(encoded) if encoded else None
    error = restored(detail.type, detail.bases, detail.message, args, {})
    kind = _imported(detail.type)
    if type(error) is DescribedError and kind is not None and args is not None:
        try:
            same = kind.__new__(kind, *args)
            same.args = args
            error = same if text_of(same) == detail.message else error
        except Exception:  # noqa: BLE001, S110 - such classes are many, and it is described
            pass
    error.add_note(f"on the cluster:\n{detail.traceback}")
    return error


def _imported(name: str) -> type[BaseException] | None:
    """Return the class of exceptions of this name, if a module that is imported here has it."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        module: Any = sys.modules.get(".".join(parts[:length]))
        if module is not None:
            kind: Any = reduce(lambda found, part: getattr(found, part, None), parts[length:], module)
            return kind if isinstance(kind, type) and issubclass(kind, BaseException) else None
    return None

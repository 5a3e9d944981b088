"""
A step and its outcome as bytes that are stored: data, and nothing that is called or imported when it is read.

The function is not sent: the worker has it, in the workflow that it has registered under this name and version.  Nor
are its constants, and the values that it reads from the context, which may be secrets.  The other arguments are sent.
A large one is sent once for all steps of the run that have it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Final, NamedTuple

import msgspec

from weft.core.failure import arguments, describe, restored, text_of
from weft.core.plan.node import FunctionNode
from weft.core.run.runnable import Outcome, Runnable, own_arguments
from weft.errors import DescribedError, MissingContext, NotTransferable, UnencodableValue, an
from weft.executors.transfer import outcome_of, sent_runnable
from weft.log.value_decoder import Values
from weft.log.value_encoder import encode_value
from weft.typing import RunId

LARGE: Final = 16_384
"""Bytes from which a value is stored beside the steps that have it."""
FRESH: Final = 600.0
"""Seconds after which a large value is sent again: it may have been removed if no step of its run needed it."""
LONGEST_NOTE: Final = 1_000
"""Characters of a note that are sent with the progress of a step."""
_MOST: Final = 256
"""How many large values are remembered."""
_HINT = "send data, and open connections and the like inside the step, or leave out queue= in its policy"
_CLASS = "name it in an annotation of a step of the workflow, or weft.log.register it in the module of the workflow"
_ADDS = "leave out queue= in its policy: only the worker that has the run can change its workflow"

_NOTHING: Mapping[str, Any] = {}

Kinds = Mapping[str, type]
"""The classes that may be read, by the name they have in logs."""


class LargeValues:
    """The large values that were encoded lately, by identity: the steps of a map share them."""

    def __init__(self) -> None:
        self._known: dict[tuple[RunId, int], tuple[object, bytes, float]] = {}

    def encoded(self, run: RunId, value: object) -> tuple[bytes | None, bytes, bytes | None]:
        """Return *value* as bytes if it is small; otherwise None and its hash, and the bytes if they are to be sent."""
        key = run, id(value)
        known = self._known.get(key)
        if known is not None and known[0] is value and monotonic() < known[2]:
            return None, known[1], None
        body = encode_value(value)
        if len(body) < LARGE:
            return body, b"", None
        content = hashlib.sha256(body).digest()
        if len(self._known) >= _MOST:
            del self._known[next(iter(self._known))]
        self._known[key] = value, content, monotonic() + FRESH
        return None, content, body

    def forget(self) -> None:
        """Send all of them again: it is not known whether they were stored."""
        self._known.clear()


class Packed(NamedTuple):
    """A step as it is stored."""

    body: bytes
    values: dict[tuple[RunId, bytes], bytes]
    """Large values that are stored with it."""


def pack(runnable: Runnable, node: str, executor: str, large: LargeValues) -> Packed:
    """
    Return *runnable* as bytes; a worker runs the function of *node* on its *executor*.

    Raises:
        BaseException: its arguments could not be made.
        NotTransferable: an argument is not data.
    """
    if runnable.broken is not None:
        raise runnable.broken
    known = runnable.node.arguments
    own: set[str] = set()
    if known is not None:
        own = {*known.constants, *(parameter for parameter, _ in known.contexts)} - set(known.by_keyword)
    parts: list[tuple[bytes | None, bytes]] = []
    places: dict[int, int] = {}
    values: dict[tuple[RunId, bytes], bytes] = {}

    def place(what: str, value: object) -> int:
        found = places.get(id(value))
        if found is None:
            try:
                body, content, whole = large.encoded(runnable.run_id, value)
            except UnencodableValue as error:
                shown = f"{what}, {an(type(value).__qualname__)},"
                raise NotTransferable(runnable.component, shown, text_of(error), _HINT) from error
            if whole is not None:
                values[runnable.run_id, content] = whole
            found = places[id(value)] = len(parts)
            parts.append((body, content))
        return found

    args = [place(f"its argument {number}", value) for number, value in enumerate(runnable.args, 1)]
    kwargs = {
        name: place(f"its argument {name!r}", value) for name, value in runnable.kwargs.items() if name not in own
    }
    inputs = [place("an input", runnable.lineage.fact(address).value) for address in runnable.inputs]
    about = (runnable.run_id, runnable.component, runnable.attempt, runnable.idempotency_key)
    return Packed(encode_value((1, node, executor, about, parts, args, kwargs, inputs)), values)


class Unpacked:
    """A step that was read, as far as that is possible without its function and its large values."""

    def __init__(self, body: bytes) -> None:
        version, self.node, self.executor, self._about, self._parts, self._args, self._kwargs, self._inputs = (
            Values().decode(body)
        )
        if version != 1:
            raise NotTransferable(self.component, "it", f"version {version} is unknown", "upgrade Weft on this worker")

    @property
    def component(self) -> str:
        """The name under which it runs."""
        name: str = self._about[1]
        return name

    @property
    def large(self) -> list[bytes]:
        """The hashes of its large values."""
        return [content for body, content in self._parts if body is None]

    def runnable(
        self, node: FunctionNode, context: Mapping[str, Any], kinds: Kinds, load: Callable[[bytes], bytes]
    ) -> Runnable:
        """
        Return what runs the function of *node* here.

        Args:
            context: the context of this worker.
            kinds: the classes of values.
            load: returns a large value.

        Raises:
            MissingContext: this worker has no such key.
            NotTransferable: a class, or a large value, is not known here.
        """
        run, component, attempt, key = self._about
        values = [self._decoded(load(content) if body is None else body, kinds) for body, content in self._parts]
        kwargs: dict[str, Any] = {}
        if node.arguments is not None:
            check_context(node, context)
            kwargs = own_arguments(node, node.arguments, context)
        kwargs.update({name: values[place] for name, place in self._kwargs.items()})
        args = tuple(values[place] for place in self._args)
        inputs = [values[place] for place in self._inputs]
        return sent_runnable(node.call, args, kwargs, inputs, node.is_test, run, component, attempt, key, ())

    def _decoded(self, body: bytes, kinds: Kinds) -> Any:
        return decoded(self.component, "an argument", body, kinds)


def check_context(node: FunctionNode, context: Mapping[str, Any]) -> None:
    """
    Check that *context* has what *node* requires.

    Raises:
        MissingContext: it does not.
    """
    missing = [
        (node.name, ref.key)
        for _, ref in (() if node.arguments is None else node.arguments.contexts)
        if ref.is_required and not {f"{node.name}.{ref.key}", f"{node.owner}.{ref.key}", ref.key} & context.keys()
    ]
    if missing:
        raise MissingContext(missing)


def decoded(component: str, what: str, body: bytes, kinds: Kinds) -> Any:
    """
    Return a value.

    Raises:
        NotTransferable: it is of a class that is not known here.
    """
    values = Values(dict(kinds))
    found = values.decode(body)
    if values.unknown:
        why = f"the class {next(iter(values.unknown))} is not known on the other side"
        raise NotTransferable(component, what, why, _CLASS)
    return found


# -- and back ------------------------------------------------------------------------------------


def pack_outcome(outcome: Outcome) -> bytes:
    """Return *outcome* as bytes; a value that is not data is a failed attempt."""
    if outcome.error is not None:
        return _packed_error(outcome.error, outcome.duration_ns)
    if outcome.added:
        why = NotTransferable(outcome.component, "its addition to the run", "it holds functions", _ADDS)
        return _packed_error(why, outcome.duration_ns)
    try:
        return encode_value((True, outcome.duration_ns, encode_value(outcome.result)))
    except UnencodableValue as error:
        shown = f"its result, {an(type(outcome.result).__qualname__)},"
        why = NotTransferable(
            outcome.component, shown, text_of(error), "return data, or leave out queue= in its policy"
        )
        return _packed_error(why, outcome.duration_ns)


def _packed_error(error: BaseException, duration_ns: int) -> bytes:
    detail, described = describe(error), (None, dict[str, Any]())
    try:
        parts = encode_value(arguments(error))
    except UnencodableValue:
        parts = encode_value(described)
    told = (detail.type, detail.bases, detail.message, detail.traceback, parts)
    return encode_value((False, duration_ns, told))


def unpack_outcome(runnable: Runnable, data: bytes, kinds: Kinds) -> Outcome:
    """Return the outcome of *runnable*; what cannot be read here is a failed attempt."""
    duration = 0
    try:
        is_complete, duration, told = Values().decode(data)
        if is_complete:
            return outcome_of(runnable, decoded(runnable.component, "its result", told, kinds), None, duration)
        error = _read_error(*told)
    except Exception as unread:  # noqa: BLE001 - a value that cannot be read is a failing attempt
        error = unread
    return outcome_of(runnable, None, error, duration)


def _read_error(type_: str, bases: tuple[str, ...], message: str, traceback: str, parts: bytes) -> BaseException:
    """Return an exception of the same class, if that is imported here: it is found, and its own code is not called."""
    args, attributes = Values().decode(parts)
    error = restored(type_, tuple(bases), message, args, attributes)
    kind = imported(type_)
    if type(error) is DescribedError and kind is not None and args is not None:
        builtin = next(base for base in kind.__mro__ if base.__module__ == "builtins")
        try:
            same: BaseException = builtin.__new__(kind, *args)
            same.args = args
            error = same if text_of(same) == message else error
        except Exception:  # noqa: BLE001, S110 - such classes are many, and it is described
            pass
    error.add_note(f"on another worker:\n{traceback}")
    return error


_pack_report = msgspec.msgpack.Encoder().encode
_reports = msgspec.msgpack.Decoder(tuple[int | float, int | float | None, str])


def pack_report(done: float, total: float | None, note: str) -> bytes:
    """
    Return how far a step has come, as bytes; a longer note is cut off.

    >>> unpack_report(pack_report(3, 10, "third page"))
    (3, 10, 'third page')
    """
    return _pack_report((done, total, note[:LONGEST_NOTE]))


def unpack_report(data: bytes) -> tuple[float, float | None, str]:
    """
    Return what :func:`pack_report` was given.

    Raises:
        DecodeError: *data* is something else.
    """
    return _reports.decode(data)


def imported(name: str) -> type[BaseException] | None:
    """Return the class of exceptions of this name, if a module that is imported here defines it; nothing is called."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        found: Any = sys.modules.get(".".join(parts[:length]))
        if found is not None:
            for part in parts[length:]:
                found = getattr(found, "__dict__", _NOTHING).get(part)
            return found if isinstance(found, type) and issubclass(found, BaseException) else None
    return None

"""
Exceptions as data, and back.

A log keeps the class of an exception, the classes it derives from, its message and traceback.  The exception that is
read back has the same class if that is a builtin or one of Weft's own; any other becomes a ``DescribedError``.
Nothing is imported and no constructor of the application is called.

A failure that a graph handles is a fact like any other, a :class:`Failure`:

    >>> failure = Failure("fetch", "TimeoutError", ("OSError", "Exception", "BaseException"), "took 3 s")
    >>> failure.is_a(OSError), failure.is_a(ValueError)
    (True, False)
"""

from __future__ import annotations

import builtins
import traceback
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from weft import errors
from weft.core.events import ErrorDetail
from weft.errors import DescribedError, InvalidComponent

_LONGEST = 20_000
"""How many characters are kept of a message, its beginning, and of a traceback, its end."""


ErrorType = type[BaseException]

PROPAGATES = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""Exceptions that are not user code's to decide: they end the loop, and what ran has neither failed nor completed."""


class Failure(msgspec.Struct, frozen=True):
    """The failure of a component, as a value: an error route carries it."""

    component: str
    type: str
    """The qualified name of the exception's class, with the module unless it is a builtin."""
    bases: tuple[str, ...]
    """The qualified names of the classes it derives from, nearest first."""
    message: str
    traceback: str = ""
    attempts: int = 1
    input: Any = None
    """The value that the component was at work on; of several, a tuple."""

    def is_a(self, kind: ErrorType) -> bool:
        """Whether the exception was a *kind*."""
        return _name(kind) in (self.type, *self.bases)

    def __repr__(self) -> str:
        return f"Failure({self.component!r}, {self.type}: {self.message})"


EVERYTHING = ("BaseException",)
"""The classes of an error route that names none."""


def names_of(errors: Iterable[ErrorType]) -> tuple[str, ...]:
    """Return the qualified names of exception classes; of none, that of all."""
    kinds: list[Any] = list(errors)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise InvalidComponent(f"on_error({kind!r}): use classes of exceptions, and then=... for what handles them")
    return tuple(sorted({_name(kind) for kind in kinds})) or EVERYTHING


def distance(names: tuple[str, ...], error: ErrorDetail) -> int | None:
    """
    Return how many classes lie between *error* and the nearest of *names*; None if it is none of them.

    >>> detail = ErrorDetail("KeyError", ("LookupError", "Exception", "BaseException"), "'k'")
    >>> distance(("LookupError",), detail), distance(("KeyError",), detail), distance(("OSError",), detail)
    (1, 0, None)
    """
    return next((place for place, name in enumerate((error.type, *error.bases)) if name in names), None)


def describe(error: BaseException) -> ErrorDetail:
    """
    Return *error* as plain data.

    Its class may be anything: where its own code (``__str__``, ``__notes__``, ``__cause__``, …) fails, that part is
    left out, and the rest is kept.
    """
    kind = type(error)
    known = vars(error).get("detail") if kind is DescribedError else None
    if isinstance(known, ErrorDetail):
        return known
    bases = tuple(_name(base) for base in _MRO.__get__(kind)[1:-1])
    message = text_of(error)
    return ErrorDetail(_name(kind), bases, message, _traceback(error, message))


def sound(error: BaseException) -> BaseException:
    """Return *error*; if it cannot be asked what it is, or what caused it, what describes it."""
    try:
        _ = error.__class__, error.__cause__  # isinstance asks for the one, raising from another error for the other
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - it can be described all the same
        detail = describe(error)
        described = DescribedError(detail.type, detail.message)
        described.detail = detail
        return described
    return error


def described(detail: ErrorDetail) -> BaseException:
    """Return an exception that stands for *detail*."""
    module, _, name = detail.type.rpartition(".")
    known = {"": builtins, "weft.errors": errors}.get(module)
    kind = getattr(known, name, None)
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        return DescribedError(detail.type, detail.message)
    try:
        error = kind.__new__(kind, detail.message)
    except TypeError:  # a builtin that wants more than a message
        return DescribedError(detail.type, detail.message)
    error.args = (detail.message,)
    if text_of(error) != detail.message:  # one whose text is not its first argument
        return DescribedError(detail.type, detail.message)
    return error


def outline(error: BaseException) -> tuple[str, tuple[str, ...], str]:
    """Return the class of *error*, the classes it derives from, and its message; of a stand-in, of the original."""
    kind = type(error)
    if kind is not DescribedError:
        return _name(kind), tuple(_name(base) for base in _MRO.__get__(kind)[1:-1]), text_of(error)
    known: Any = vars(error)
    detail = known.get("detail")
    if isinstance(detail, ErrorDetail):
        return detail.type, detail.bases, detail.message
    return known.get("kind", ""), (), known.get("message", "")


def arguments(error: Any) -> tuple[tuple[Any, ...] | None, dict[str, Any]]:
    """Return the arguments that *error* was made of, and its attributes if it is one of Weft's own."""
    if type(error) is DescribedError:
        return error.original_args, {}
    if isinstance(error, OSError) and len(error.args) == 2 and error.filename is not None:
        beside = () if error.filename2 is None else (None, error.filename2)
        return (*error.args, error.filename, *beside), {}
    held = vars(error) if type(error).__module__ == errors.__name__ else {}
    return tuple(error.args), {name: value for name, value in held.items() if not name.startswith("__")}


def restored(
    type_: str, bases: tuple[str, ...], message: str, args: tuple[Any, ...] | None, attributes: Mapping[str, Any]
) -> BaseException:
    """Return the exception that was written as these parts: a builtin, one of Weft's own, or a stand-in."""
    error = _made(type_, (message,) if args is None else args)
    if error is not None and text_of(error) == message:
        error.__dict__.update(attributes)
        return error
    stand_in = DescribedError(type_, message)
    stand_in.detail, stand_in.original_args = ErrorDetail(type_, bases, message), args
    return stand_in


def _made(type_: str, args: tuple[Any, ...]) -> BaseException | None:
    module, _, name = type_.rpartition(".")
    kind: Any = getattr({"": builtins, "weft.errors": errors}.get(module), name, None)
    if not (isinstance(kind, type) and issubclass(kind, BaseException)) or kind is DescribedError:
        return None
    try:
        if module:  # its own constructor would make another message of this one
            error = kind.__new__(kind, *args)
            error.args = args
        else:
            error = kind(*args)
    except Exception:  # noqa: BLE001 - arguments that do not fit
        return None
    return error if type(error) is kind else None


_MRO: Any = vars(type)["__mro__"]
_QUALNAME: Any = vars(type)["__qualname__"]
_TRACEBACK: Any = vars(BaseException)["__traceback__"]
"""Attributes that Python itself knows of a class or an exception, whatever that says of itself."""


def _name(kind: ErrorType) -> str:
    try:
        return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - a metaclass that cannot say it
        return str(_QUALNAME.__get__(kind))


# In what follows, code of the exception may raise anything, SystemExit included.  Only a KeyboardInterrupt is passed
# on: it may be that of a person, and nothing here can tell.


def text_of(error: BaseException) -> str:
    """Return what *error* says, or that it cannot say it."""
    try:
        text = str(error.args[0]) if isinstance(error, KeyError) and len(error.args) == 1 else str(error)
    except KeyboardInterrupt:
        raise
    except BaseException as broken:  # noqa: BLE001 - an exception whose own text fails must still be recorded
        return f"<{_QUALNAME.__get__(type(error))} whose text fails with {_QUALNAME.__get__(type(broken))}>"
    text = str.__str__(text)  # of a subclass that overrides methods, the text alone
    if len(text) > _LONGEST:
        kept = _LONGEST - 50  # with what is said of the rest, not longer than what is kept as it is
        text = f"{text[:kept]}… and {len(text) - kept} more characters"
    return _writable(text)


def _traceback(error: BaseException, message: str) -> str:
    try:
        shown = "".join(traceback.format_exception(error))
    except KeyboardInterrupt:
        raise
    except BaseException as broken:  # noqa: BLE001 - then without causes and notes
        shown = _frames(error)
        shown += f"{_name(type(error))}: {message}\n(what it says besides fails with {_name(type(broken))})\n"
    return _writable(shown[-_LONGEST:])


def _frames(error: BaseException) -> str:
    try:
        return f"Traceback (most recent call last):\n{''.join(traceback.format_tb(_TRACEBACK.__get__(error)))}"
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - a loader that cannot show the source
        return ""


def _writable(text: str) -> str:
    """Return *text* with what UTF-8 cannot hold escaped: half characters, as from the names of odd files."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()

"""
Exceptions as data, and back.

A log keeps what an exception was: its class, the classes it derives from, its message and traceback.  What
comes back keeps its class if that is a builtin or one of Weft's own; of any other there is a description.
Nothing is imported and no constructor of the application is called.
"""

from __future__ import annotations

import builtins
import traceback

from weft import errors
from weft.core.events import ErrorDetail
from weft.errors import DescribedError

_LONGEST = 20_000
"""How many characters of a traceback are kept, the end of it."""


def describe(error: BaseException) -> ErrorDetail:
    """Return *error* as plain data."""
    kind = type(error)
    bases = tuple(_name(base) for base in kind.__mro__[1:-1])
    shown = "".join(traceback.format_exception(error))[-_LONGEST:]
    return ErrorDetail(_name(kind), bases, _message(error), shown)


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
    if _message(error) != detail.message:  # one whose text is not its first argument
        return DescribedError(detail.type, detail.message)
    return error


def _name(kind: type[BaseException]) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return str(error.args[0]) if isinstance(error, KeyError) and len(error.args) == 1 else str(error)
    except Exception as broken:  # noqa: BLE001 - an exception whose own text fails must still be recorded
        return f"<{type(error).__qualname__} whose text fails with {type(broken).__qualname__}>"

"""
The waits of nodes: for a time, for a signal, or for the first of the two.

``sleep`` and ``wait_for`` put a record of the wait on their node.  The fold only sees that there is one; its functions
are called by the driver of a run (``weft.core.run.waits``), which knows the time.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import Any

import msgspec

from weft.core.functions.function import Function
from weft.core.functions.unresolved import Unresolved
from weft.errors import InvalidComponent, InvalidSignal, InvalidWait, WeftError

AWARE = "give it a time zone: datetime(..., tzinfo=timezone.utc), or the_time.astimezone() if it is local time"
"""The advice for a datetime that does not say when it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """The wait of one node.  Without a *signal* it sleeps."""

    signal: str | None = None
    seconds: float | None = None
    """How long it sleeps, besides what *length* returns, or waits for the signal; None for as long as that takes."""
    length: Function | None = None
    """Says of a value how many seconds to sleep."""
    until: float | None = None
    moment: Function | None = None
    """Says of a value until when to sleep."""
    match: Function | None = None
    """Says of the value of a signal, and of what waits for it, whether the one is for the other."""
    schema: Any = None
    """The type that the value of a signal is converted to; a placeholder, if a class of it is not known here."""

    def due(self, component: str, value: Any, now: float) -> tuple[float, bool] | None:
        """
        Return until when to wait, and whether that is a length of time from *now*; None if there is no limit.

        A function of the user is called with *value* and may raise.

        Raises:
            InvalidWait: the function returned something that is not a time.
        """
        if self.until is not None:
            return self.until, False
        if self.moment is not None:
            return _moment(component, self.moment.plainly((value,), {})), False
        if self.seconds is None:
            return None
        more = 0.0 if self.length is None else _length(component, self.length.plainly((value,), {}))
        return now + max(0.0, self.seconds + more), True

    def converted(self, value: Any) -> Any:
        """
        Return the *value* of a signal as the type that this wait asks for.

        Raises:
            InvalidSignal: it does not fit; the error says where.
            UnresolvedFunction: this process does not know a class of the type.
        """
        if self.schema is None:
            return value
        if isinstance(self.schema, Unresolved):
            return self.schema()
        try:
            return msgspec.convert(value, self.schema, dec_hook=_validated)
        except WeftError:
            raise
        except Exception as error:
            raise InvalidSignal(str(self.signal), str(error)) from error

    def is_for(self, value: Any, waiting: Any) -> bool:
        """Return whether a signal with *value* is for what arrived at the wait; the user's function may raise."""
        if self.match is None:
            return True
        return bool(self.match.plainly((value, waiting)[: len(self.match.required) or 1], {}))


def _validated(kind: type, value: Any) -> Any:
    """Return *value* as a *kind*, a class that msgspec leaves to others: a pydantic model, or any other class."""
    validate = getattr(kind, "model_validate", None)
    if validate is not None:
        return validate(value)
    if not isinstance(value, kind):
        raise TypeError(f"Expected `{kind.__qualname__}`, got `{type(value).__qualname__}`")
    return value


def _length(component: str, given: Any) -> float:
    seconds = given.total_seconds() if isinstance(given, dt.timedelta) else given
    if not _is_number(seconds):
        raise InvalidWait(component, given, "return a number of seconds, or a timedelta")
    return float(seconds)


def _moment(component: str, given: Any) -> float:
    if isinstance(given, dt.datetime):
        if given.utcoffset() is None:
            raise InvalidWait(component, given, AWARE)
        return given.timestamp()
    if not _is_number(given):
        raise InvalidWait(component, given, "return a datetime with a time zone, or seconds since the epoch")
    return float(given)


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given)


def checked_seconds(what: str, given: Any) -> float:
    """
    Return *given*, a number of seconds or a timedelta, in seconds.

    Raises:
        InvalidComponent: it is neither.
    """
    seconds = given.total_seconds() if isinstance(given, dt.timedelta) else given
    if not _is_number(seconds):
        raise InvalidComponent(f"{what}={given!r:.80}: use a number of seconds, or a timedelta")
    return float(seconds)


def checked_moment(what: str, given: Any) -> float:
    """
    Return *given*, a datetime or seconds since the epoch, in seconds since the epoch.

    Raises:
        InvalidComponent: it is neither, or a datetime without a time zone.
    """
    if isinstance(given, dt.datetime):
        if given.utcoffset() is None:
            raise InvalidComponent(f"{what}={given!r}: this does not say which time zone it is in; {AWARE}")
        return given.timestamp()
    if not _is_number(given):
        hint = "use a datetime with a time zone, seconds since the epoch, or a function of the value"
        raise InvalidComponent(f"{what}={given!r:.80}: {hint}")
    return float(given)


def called_while_waiting(what: str, call: Any, most: int = 1) -> Function:
    """
    Return *call*, the argument *what* of a sleep or a wait, as a function of at most this many values.

    Raises:
        InvalidComponent: it would have to be awaited, reads the run, or takes other parameters.
    """
    function = Function.of(call)
    if function.is_async:
        raise InvalidComponent(
            f"{what}={function.label} is a coroutine function; use a plain one, it is called at once"
        )
    if function.references:
        raise InvalidComponent(
            f"{what}={function.label} reads the run ({', '.join(function.references)}); let a step before it do that, "
            "and return what this function needs"
        )
    if function.unfilled or not any(function.takes(count) for count in range(1, most + 1)):
        takes = "one value" if most == 1 else f"one to {most} values"
        raise InvalidComponent(
            f"{what}={function.label} is called with {takes}, and takes ({', '.join(function.required)})"
        )
    return function

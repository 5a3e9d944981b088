"""
A sleep: passes on what arrives, but later.

    >>> from weft import Workflow, step
    >>> from weft.testing import VirtualClock
    >>> remind = step(lambda order: f"remind {order}", name="remind")
    >>> run = Workflow("reminder", sleep(days=30) >> remind).run("o-1", clock=VirtualClock())
    >>> run.value("remind")
    'remind o-1'

While it sleeps it costs nothing: no thread and no task waits.  Its end is written down, in UTC, so a restart neither
shortens nor lengthens it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from weft.core.components.waiting import Waiting
from weft.core.components.waits import Waits, called_while_waiting, checked_moment, checked_seconds
from weft.core.draw.progress import duration
from weft.core.functions.function import Function
from weft.core.functions.identity import canonical
from weft.errors import InvalidComponent, WrongArity

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion


T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class Sleep(Waiting):
    """Passes on what arrives, after a length of time or at a time of day."""

    seconds: float = 0.0
    length: Function | None = None
    """Says of a value how many seconds to sleep, in addition to *seconds*."""
    until: float | None = None
    """In seconds since the epoch."""
    moment: Function | None = None
    """Says of a value until when to sleep."""
    kind: ClassVar[str] = "sleep"

    if TYPE_CHECKING:

        def __call__(self, value: T, /) -> T:
            """Draw it inside ``@workflow``."""
            ...

    def functions(self) -> dict[str, Function]:
        """Return the function that computes the length or the end of the sleep, if there is one."""
        given = {"seconds": self.length, "until": self.moment}
        return {part: function for part, function in given.items() if function is not None}

    def check_width(self, width: int, source: str) -> None:
        """Require one value."""
        if width != 1:
            raise WrongArity(f"{self.label!r} passes on one value and gets {width} from {source}")

    def expand(self, into: Expansion) -> None:
        """One node that waits."""
        seconds = self.seconds if self.until is None and self.moment is None else None
        into.feed(into.wait(Waits(seconds=seconds, length=self.length, until=self.until, moment=self.moment)))

    @property
    def note(self) -> str:
        """The length or the end of the sleep, as a short text for pictures."""
        if self.until is not None:
            return f"◷ until {_stamp(self.until)}"
        if self.moment is not None:
            return f"◷ until {self.moment.name or '…'}"
        if self.length is None:
            return f"◷ {duration(self.seconds) if self.seconds > 0 else 'no time'}"
        return f"◷ {self.length.name or '…'}{f' + {duration(self.seconds)}' if self.seconds > 0 else ''}"

    def details(self) -> bytes:
        """The length and the end of the sleep."""
        return canonical((self.seconds, self.until))


def _stamp(seconds: float) -> str:
    """Return *seconds* since the epoch as text, in UTC."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):  # beyond what a datetime can say
        return f"{seconds:g}"


def sleep(
    seconds: float | timedelta | Callable[[Any], float | timedelta] | None = None,
    *,
    minutes: float = 0,
    hours: float = 0,
    days: float = 0,
    until: datetime | float | Callable[[Any], datetime | float] | None = None,
    name: str | None = None,
) -> Sleep:
    """
    Pass on what arrives after a time: ``sleep(days=30)``; or at a time: ``sleep(until=the_deadline)``.

    Args:
        seconds: how long; also a timedelta, or a function of the value that arrived, which returns one of these.
        minutes: added to *seconds*, as *hours* and *days* are.
        hours: see *minutes*.
        days: of 24 hours.
        until: when to go on: a datetime with a time zone, seconds since the epoch, or a function of the value that
            arrived, which returns one of these.  A time in the past means now.
        name: its name.

    Raises:
        InvalidComponent: no time at all, a length below zero, something that is not a time, or both a length and
            *until*.
    """
    more = sum(
        checked_seconds(what, given) * unit
        for what, given, unit in (("minutes", minutes, 60), ("hours", hours, 3600), ("days", days, 86400))
    )
    if callable(seconds):
        length, constant = called_while_waiting("seconds", seconds), more
    else:
        length, constant = None, (0.0 if seconds is None else checked_seconds("seconds", seconds)) + more
    if until is None:
        if seconds is None and not more:
            raise InvalidComponent("sleep() needs a length: use sleep(5), sleep(days=30) or sleep(until=...)")
        if constant < 0:
            raise InvalidComponent(f"sleep() of {constant:g} seconds: use a length of time that is not below zero")
        return Sleep(name, constant, length)
    if constant or length is not None:
        raise InvalidComponent("sleep() takes a length of time or until=, not both")
    if callable(until):
        return Sleep(name, moment=called_while_waiting("until", until))
    return Sleep(name, until=checked_moment("until", until))

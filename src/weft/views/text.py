r"""
Values, times and names as text that is safe to print.

Stored values may contain anything; no control character of them reaches the terminal.

    >>> plain("red \x1b[31m alert")
    'red \\x1b[31m alert'
    >>> word("order 7"), word("a\x1b[0m")
    ("'order 7'", "$'a\\x1b[0m'")
    >>> shown(list(range(100)), longest=20)
    '[0, 1, 2, 3, 4, 5...'
    >>> ago(7_300.0)
    '2 h ago'
"""

from __future__ import annotations

import datetime as dt
import math
from shlex import quote
from typing import Any, cast

import msgspec

LONGEST = 72
"""How many characters of a value are shown."""
_DEEPEST = 100
"""How deep values may nest before they are described in words."""


def plain(text: str) -> str:
    """Return *text* with everything that is not printable escaped: control characters, line ends, lone surrogates."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode("ascii") for each in text
    )


def word(text: str) -> str:
    """Return *text* as one word of a command for bash or zsh, on one line: what is not printable is escaped."""
    if text.isprintable():
        return quote(text)
    return f"$'{''.join(map(_escaped, text))}'"


def _escaped(character: str) -> str:
    if character in "'\\":
        return f"\\{character}"
    if character.isprintable():
        return character
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x80 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def shown(value: object, longest: int | None = LONGEST) -> str:
    """Return *value* on one line, of at most *longest* characters."""
    try:
        text = plain(repr(value))
    except Exception as error:  # noqa: BLE001 - a value that cannot be shown is described
        text = f"<{type(value).__name__} whose repr fails with {type(error).__name__}>"
    return text if longest is None or len(text) <= longest else f"{text[: longest - 3]}..."


def short_type(name: str) -> str:
    """
    Return the name of an error without its module.

    >>> short_type("myapp.payments.CardDeclined"), short_type("ValueError")
    ('CardDeclined', 'ValueError')
    """
    return name.rpartition(".")[2] or name


def error_text(error: Any) -> str:
    """Return an error of the log on one line: its type without the module, and its message."""
    kind = short_type(error.type)
    return f"{kind}: {error.message}" if error.message else kind


def as_json(value: Any, depth: int = 0) -> Any:
    """Return *value* as JSON data; values that JSON cannot hold are described in words."""
    if value is None or isinstance(value, bool | str):
        return value
    if type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else repr(value)
    if depth < _DEEPEST and isinstance(value, list | tuple | set | frozenset):
        return [as_json(each, depth + 1) for each in cast("Any", value)]
    if depth < _DEEPEST and isinstance(value, dict) and all(isinstance(key, str) for key in cast("Any", value)):
        return {key: as_json(held, depth + 1) for key, held in cast("Any", value).items()}
    return shown(cast("object", value), longest=None)


def from_json(text: str) -> Any:
    """
    Return what a person has typed as JSON.

    Raises:
        msgspec.DecodeError: it is not JSON, or nested too deeply.
    """
    try:
        return msgspec.json.decode(text)
    except RecursionError as error:
        raise msgspec.DecodeError("it is nested too deeply") from error


def ago(seconds: float) -> str:
    """Return how long ago something was, in one unit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "now"


def took(nanoseconds: float) -> str:
    """
    Return a duration in a unit that fits.

    >>> took(999_900), took(999.9), took(1_500)
    ('1 ms', '1 µs', '1.5 µs')
    """
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if nanoseconds >= 0.999_5 * size:
            return (
                f"{nanoseconds / size:.3g} {unit}" if nanoseconds < 1000 * size else f"{nanoseconds / size:.0f} {unit}"
            )
    return f"{nanoseconds:.0f} ns"


def stamp(seconds: float) -> str:
    """
    Return a time, in seconds since the epoch, as UTC.

    >>> stamp(0.25)
    '1970-01-01T00:00:00.250Z'
    """
    try:
        moment = dt.datetime.fromtimestamp(seconds, dt.UTC)
    except (OverflowError, ValueError, OSError):  # an impossible time, which a damaged file may contain
        return f"{seconds!r} s"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def count(number: int, noun: str) -> str:
    """Return a number with its noun: "1 run", "2 runs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

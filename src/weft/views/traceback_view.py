"""
A traceback in which the frames of libraries are folded away: the frames of the user's code are read first.

    >>> text = '''Traceback (most recent call last):
    ...   File "/srv/app/orders.py", line 7, in charge
    ...     bank.pay(amount)
    ...   File "/usr/lib/python3.11/site-packages/bank/api.py", line 90, in pay
    ...     raise Declined(code)
    ... Declined: do_not_honor
    ... '''
    >>> [(part.is_library, part.frames) for part in traceback_parts(text)]
    [(False, 0), (False, 1), (True, 1), (False, 0)]
"""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path
from typing import Final

import msgspec

_FRAME: Final = re.compile(r'^ *(?:[|] *)*File "([^"]*)", line ')
_LIBRARIES: Final = ("/site-packages/", "/dist-packages/", "<frozen ", "/lib/python3", "\\lib\\site-packages\\")
_WEFT: Final = str(Path(__file__).parents[1]) + "/"
_STANDARD: Final = sysconfig.get_path("stdlib") + "/"


class TracebackPart(msgspec.Struct, frozen=True):
    """Consecutive lines of a traceback: frames of libraries, frames of the user's code, or neither."""

    text: str
    is_library: bool
    frames: int


def traceback_parts(text: str) -> list[TracebackPart]:
    """Return *text* in parts, in order; a frame and the lines under it are of one part."""
    parts: list[tuple[str, list[str], int]] = []
    for line in text.splitlines():
        frame = _FRAME.match(line)
        kind = _kind(frame[1]) if frame else None
        if kind is None and parts and parts[-1][0] != "other" and line.startswith(("    ", "  |")):
            parts[-1][1].append(line)  # the code of the frame before
            continue
        kind = kind or "other"
        if not parts or parts[-1][0] != kind:
            parts.append((kind, [], 0))
        parts[-1][1].append(line)
        if frame:
            parts[-1] = (kind, parts[-1][1], parts[-1][2] + 1)
    return [TracebackPart("\n".join(lines), kind == "library", frames) for kind, lines, frames in parts]


def _kind(path: str) -> str:
    is_library = path.startswith((_WEFT, _STANDARD)) or any(each in path for each in _LIBRARIES)
    return "library" if is_library else "own"

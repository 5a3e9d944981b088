"""
Prepares text for a picture: replaces control characters, shortens it, and estimates its width.

    >>> visible("two\\nlines \\0")
    'two lines ␀'
    >>> shortened("a_very_long_name_of_a_step", 12)
    'a_very_…step'
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_SPACES = re.compile(r"\s+")
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]")

_NARROW: Final = frozenset("ijlIft.,:;'|!()[]{}`r/\\ ")
_BROAD: Final = frozenset("mMwW@%&—…")
_BROADEST: Final = frozenset("mW")


def visible(text: str) -> str:
    """Return *text* on one line, with a sign in place of every character that no document can hold or show."""
    return _UNSEEN.sub(_sign, _SPACES.sub(" ", text)).strip() or "␣"


def _sign(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else "�"


def shortened(text: str, most: int) -> str:
    """Return *text* in at most *most* characters, the middle left out."""
    if len(text) <= most:
        return text
    end = most // 3
    return f"{text[: most - end - 1]}…{text[-end:]}"


def width(text: str, size: float) -> float:
    """Return how wide *text* is at a font *size*, in the broadest of the fonts that a picture asks for."""
    return size * sum(map(_advance, text)) / 100


def _advance(char: str) -> int:
    """Return the width of *char* in hundredths: whole numbers add up to the same everywhere."""
    if char in _NARROW:
        return 40
    if char in _BROAD:
        return 110 if char in _BROADEST else 98
    if char.isascii():
        return 80 if char.isupper() else 63
    if unicodedata.combining(char):
        return 0
    return 105 if unicodedata.east_asian_width(char) in "WF" else 80

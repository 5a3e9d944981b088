"""
Checks texts of a caller that go into events: the name of the caller, why a run was cancelled.

A log with anything else in their place could be written, but not read again.
"""

from __future__ import annotations

from weft.errors import InvalidArgument


def check_text_or_none(name: str, value: object) -> None:
    """
    Refuse a *value* of the argument *name* that is neither None nor text.

    Raises:
        InvalidArgument: it is something else, or UTF-8 cannot hold it.
    """
    if value is None:
        return
    if not isinstance(value, str):
        raise InvalidArgument(f"{name}={value!r:.80}: use text; str(...) makes it of anything")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{name}={value!r:.80}: use text without lone surrogates") from None

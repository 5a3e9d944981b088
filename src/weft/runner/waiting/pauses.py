"""
The pauses between two polls of something that does not notify of its changes.

    >>> from itertools import islice
    >>> list(islice(pauses(1.0, 2.0, 5.0), 5))
    [1.0, 2.0, 4.0, 5.0, 5.0]
"""

from __future__ import annotations

from collections.abc import Iterator


def pauses(first: float, factor: float, longest: float) -> Iterator[float]:
    """Yield seconds that grow by *factor*, from *first* to *longest*, without an end."""
    pause = first
    while True:
        yield pause
        pause = min(pause * factor, longest)

"""
Computes how long to wait before a retry.

    >>> [delay(Policy(backoff="exponential", base_delay=1, max_delay=5), retry) for retry in (1, 2, 3, 4)]
    [1.0, 2.0, 4.0, 5.0]
    >>> [delay(Policy(backoff="linear", base_delay=2), retry) for retry in (1, 2)]
    [2.0, 4.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.errors import InvalidPolicy
from weft.policy.policy import Policy

_LARGEST = 62
"""Doubling more often than this exceeds any wait that makes sense."""


def delay(policy: Policy, retry: int, draw: Callable[[], float] = lambda: 0.5) -> float:
    """
    Return the seconds before *retry*, counted from 1.

    *draw* returns a number from 0 to 1, for ``jitter``, which waits between 0 and the time of ``exponential``.

    Raises:
        InvalidPolicy: a backoff function did not return a number of seconds.
    """
    doubled = float(policy.base_delay * 2 ** min(retry - 1, _LARGEST))
    match policy.backoff:
        case "none":
            return 0.0
        case "linear":
            return float(min(policy.base_delay * retry, policy.max_delay))
        case "exponential":
            return float(min(doubled, policy.max_delay))
        case "jitter":
            return draw() * min(doubled, policy.max_delay)
        case function:
            return float(min(_seconds(function(retry), retry), policy.max_delay))


def _seconds(given: object, retry: int) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given) or given < 0:
        raise InvalidPolicy(f"the backoff function returned {given!r} for retry {retry}; it must return seconds")
    return float(given)

"""
Computes when a deadline is in danger, while there is still time to do something about it.

    >>> danger_at(100.0, 200.0), danger_at(100.0, 200.0, usual=50.0), danger_at(100.0, 200.0, usual=500.0)
    (180.0, 150.0, 100.0)
"""

from __future__ import annotations

from typing import Final

SHARE: Final = 0.2
"""The part of the time of a deadline that is left when it is in danger, whatever has to be done until then."""
_NEW: Final = 0.25
"""The weight of the last duration in the usual one."""


def danger_at(began: float, deadline: float, usual: float | None = None) -> float:
    """
    Return when a *deadline* is in danger: a fifth of its time is left, or less than what is *usual*.

    Args:
        began: when its time began to run, on the same clock.
        usual: how many seconds the step usually takes that has to be done; None if that is not known.
    """
    left = max((deadline - began) * SHARE, usual or 0.0)
    return min(max(began, deadline - left), deadline)


def usual_after(usual: float | None, seconds: float) -> float:
    """
    Return the updated usual duration after an attempt of *seconds*.

    >>> usual_after(None, 8.0), usual_after(8.0, 16.0), usual_after(8.0, 8.0)
    (8.0, 10.0, 8.0)
    """
    return seconds if usual is None else usual + (seconds - usual) * _NEW

"""``weft`` in a process whose clock is wrong: ``python offset_clock.py SECONDS worker --dsn …``."""

from __future__ import annotations

import sys
import time


def set_clock(seconds: float) -> None:
    """Put the clock of this process forward, or back if *seconds* are negative."""
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + seconds  # type: ignore[assignment]
    time.time_ns = lambda: real_ns() + round(seconds * 1e9)  # type: ignore[assignment]


if __name__ == "__main__":
    set_clock(float(sys.argv.pop(1)))
    from weft.cli.app import app  # after that: some modules keep the function that tells the time

    app()

"""
What is being measured now, on the standard error: a run of all benchmarks takes a while.
"""

from __future__ import annotations

import sys
import time


class Progress:
    """Says which of *count* subjects begins, and how much time has passed."""

    def __init__(self, count: int) -> None:
        self._count, self._number, self._began = count, 0, time.monotonic()

    def begin(self, subject: str) -> None:
        """Say that *subject* is next."""
        self._number += 1
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        said = f"[{self._number} of {self._count}, {minutes}:{seconds:02}] measuring {subject} ..."
        print(said, file=sys.stderr, flush=True)

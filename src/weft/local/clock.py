"""What the core is handed from outside: the time of day, and names for runs."""

from __future__ import annotations

import time
import uuid


def now() -> float:
    """Return the time of day in seconds since the epoch."""
    return time.time()


def new_run_id() -> str:
    """Return a name that no other run has."""
    return uuid.uuid4().hex

"""
The packages above core that its thin methods call, imported when they are first needed.

``Workflow.run`` and its like are there to be found, and do nothing by themselves: the loops that execute are in
``weft.local``, and how a definition is written down is known to ``weft.log``.  Nothing else in core imports either.
"""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def local() -> Any:
    """Return the package that executes runs in memory."""
    import weft.local

    return weft.local


@cache
def log() -> Any:
    """Return the package that writes and reads definitions as data."""
    import weft.log

    return weft.log

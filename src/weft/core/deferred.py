"""
Imports the packages above core, ``weft.local`` and ``weft.log``, when a method of core first needs them.

``Workflow.run`` and similar methods are only a convenience for users: the loops that execute are in ``weft.local``, and
the encoding of definitions is in ``weft.log``.  Nothing else in core imports either.
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

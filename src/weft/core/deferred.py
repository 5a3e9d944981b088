"""
Imports modules of higher layers (``weft.local``, ``weft.log``, workflows) when a method of core first needs them.

``Workflow.run`` and similar methods are only a convenience for users: the loops that execute are in ``weft.local``, and
the encoding of definitions is in ``weft.log``.  Nothing else in core imports either.  A part of a workflow draws itself
as a workflow of that part alone.
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


def drawn(fragment: Any) -> str | None:
    """Return *fragment* as SVG, drawn as a workflow of nothing else; None if it cannot stand alone."""
    from weft.core.workflow import Workflow
    from weft.errors import DefinitionError

    try:
        return Workflow(getattr(fragment, "name", None) or "part", fragment).to_svg()
    except DefinitionError:
        return None

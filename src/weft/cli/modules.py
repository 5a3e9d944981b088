"""
The code of the application, which a run needs to go on: only what ``--import`` and
``--context`` name is imported.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from weft.core.workflow import Workflow
from weft.errors import ContextNotFound, ImportFailed


def imported(names: Iterable[str]) -> list[Workflow]:
    """
    Import modules, also from the current folder; return the workflows that stand at their top.

    Raises:
        ImportFailed: one of them cannot be imported.
    """
    modules = [_import(name) for name in names]
    return [held for module in modules for held in vars(module).values() if isinstance(held, Workflow)]


def context(where: str) -> dict[str, Any]:
    """
    Return the context at *where*, ``MODULE:NAME``: a mapping, or what a function returns.

    Raises:
        ImportFailed: the module cannot be imported.
        ContextNotFound: there is no such thing in it.
    """
    module, _, name = where.partition(":")
    if not module or not name:
        raise ContextNotFound(where, "that is no MODULE:NAME")
    found: Any = getattr(_import(module), name, None)
    try:
        found = found() if callable(found) else found
    except Exception as error:
        raise ContextNotFound(where, f"it raised {type(error).__name__}: {error}") from error
    if not isinstance(found, Mapping):
        raise ContextNotFound(where, f"that is {type(found).__name__}")
    return {str(key): value for key, value in cast("Any", found).items()}


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise ImportFailed(name, error) from error

"""
Imports the code of the application, which a run needs to continue: only the modules that ``--import`` and
``--context`` name.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from weft.core.functions.offered import offer_module
from weft.core.workflow import Workflow
from weft.errors import ContextNotFound, ImportFailed, WorkflowNotFound
from weft.log.module_names import workflows_of


def imported(names: Iterable[str]) -> list[Workflow]:
    """
    Import modules, from the current folder too, and offer them; return the workflows at their top level.

    Args:
        names: names of modules, or paths of their files.

    Raises:
        ImportFailed: one of them cannot be imported.
    """
    modules = [_import(name) for name in names]
    for module in modules:
        offer_module(module)
    return [workflow for module in modules for workflow in workflows_of(module)]


def context(where: str) -> dict[str, Any]:
    """
    Return the context at *where*, ``MODULE:NAME``: a mapping, or what a function returns.

    Raises:
        ImportFailed: the module cannot be imported.
        ContextNotFound: the module has no such name.
    """
    module, _, name = where.partition(":")
    if not module or not name:
        raise ContextNotFound(where, "that is not MODULE:NAME")
    found: Any = getattr(_import(module), name, None)
    try:
        found = found() if callable(found) else found
    except Exception as error:
        raise ContextNotFound(where, f"it raised {type(error).__name__}: {error}") from error
    if not isinstance(found, Mapping):
        raise ContextNotFound(where, f"that is {type(found).__name__}")
    return {str(key): value for key, value in cast("Any", found).items()}


def workflow_at(where: str) -> Workflow:
    """
    Return the workflow at *where*: ``MODULE:NAME``, or ``MODULE`` if it has one workflow; the module is offered.

    Raises:
        ImportFailed: the module cannot be imported.
        WorkflowNotFound: the module has no such workflow.
    """
    module, name = split(where)
    imported_module = _import(module)
    offer_module(imported_module)
    if not name:
        known = workflows_of(imported_module)
        if len(known) == 1:
            return known[0]
        names = [key for key, value in vars(imported_module).items() if isinstance(value, Workflow)]
        has = f"it has several workflows, {', '.join(names)}" if known else "it has no workflow at its top level"
        raise WorkflowNotFound(where, has)
    found: Any = getattr(imported_module, name, None)
    if not isinstance(found, Workflow):
        what = "there is no such name" if found is None else f"that is {type(found).__name__}"
        names = [key for key, value in vars(imported_module).items() if isinstance(value, Workflow)]
        raise WorkflowNotFound(where, f"{what}, and the module has the workflows {', '.join(names)}" if names else what)
    return found  # pyright: ignore[reportUnknownVariableType] - a workflow of anything


def split(where: str) -> tuple[str, str]:
    r"""
    Return the module and the name that *where* consists of.

    >>> split("shop.orders:order"), split("shop/orders.py:order"), split("shop.orders")
    (('shop.orders', 'order'), ('shop/orders.py', 'order'), ('shop.orders', ''))
    """
    module, colon, name = where.rpartition(":")
    return (module, name) if colon and name.isidentifier() else (where, "")


def is_workflow(where: str) -> bool:
    """Whether *where* names a module that can be found, and something in it."""
    module, name = split(where)
    if not name or not module:
        return False
    if module.endswith(".py"):
        return Path(module).is_file()
    first = module.partition(".")[0]
    here = Path.cwd() / first
    if here.is_dir() or here.with_suffix(".py").is_file():
        return True
    try:
        return importlib.util.find_spec(first) is not None
    except (ImportError, ValueError):
        return False


def _import(name: str) -> ModuleType:
    file = Path(name).resolve() if name.endswith(".py") else None
    if file is not None and not file.is_file():
        raise ImportFailed(name, FileNotFoundError("there is no such file"), is_found=True)
    folder, module = (Path.cwd(), name) if file is None else _home(file)
    if str(folder) not in sys.path and not (file is None and "" in sys.path):
        sys.path.insert(0, str(folder))
    try:
        found = importlib.import_module(module)
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        is_found = missing is None or not f"{module}.".startswith(f"{missing}.")
        raise ImportFailed(name, error, is_found=is_found) from error
    if file is not None and Path(found.__file__ or "").resolve() != file:
        taken = ImportError(f"{module!r} is {found.__file__} here; rename one of them")
        raise ImportFailed(name, taken, is_found=True)
    return found


def _home(file: Path) -> tuple[Path, str]:
    """Return the folder from which *file* is imported, and its name as a module."""
    folder, parts = file.parent, [] if file.stem == "__init__" else [file.stem]
    while (folder / "__init__.py").exists():
        folder, parts = folder.parent, [folder.name, *parts]
    return folder, ".".join(parts)

"""
The names of modules: one that another process would know, and the module of a name.

A module that is run is called ``__main__`` and also has a real name, from ``python -m`` or from its file; the
real name is stored.  Looking a module up never imports it: only imported modules can be found.

    >>> home("json.decoder")
    'json.decoder'
    >>> [module.__name__ for module in modules("json", was_main=False)]
    ['json']
    >>> modules("never.imported", was_main=False)
    []
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from weft.core.workflow import Workflow

MAIN = "__main__"
MAINS = (MAIN, "__mp_main__")
"""The names of the module that is run, here and in a process that ``multiprocessing`` has started."""

kind_of: Any = type
"""Returns the class of a value, typed as ``Any``."""


def home(module: str) -> str:
    """Return the name by which another process could import *module*; ``__main__`` if there is none."""
    if module not in MAINS:
        return module
    main = sys.modules.get(MAIN)
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # python -m name
        return str(spec.name)
    file = getattr(main, "__file__", None)
    if not isinstance(file, str):  # a notebook, a prompt, python -c
        return MAIN
    return file.replace("\\", "/").rpartition("/")[2].removesuffix(".py")


def modules(name: str, *, was_main: bool) -> list[ModuleType]:
    """
    Return the imported modules that *name* may stand for, the likeliest first.

    Args:
        was_main: whether the process that stored the name was running that module.
    """
    loaded = dict(sys.modules)
    main = loaded.get(MAIN)
    here = home(MAIN)
    found: list[Any] = [loaded.get(name)]
    if main is not None and (here == name or name.endswith(f".{here}")):
        found.insert(0 if was_main else 1, main)
    if was_main and "." not in name:  # a script knows its file and not its package
        found.extend(module for key, module in loaded.items() if key.endswith(f".{name}"))
    return [module for module in dict.fromkeys(found) if isinstance(module, ModuleType)]


def workflows_of(module: ModuleType) -> list[Workflow]:
    """Return the workflows at the top level of *module*."""
    return [held for held in contents(module).copy().values() if Workflow in kind_of(held).__mro__]


def contents(module: ModuleType) -> dict[str, Any]:
    """Return the names in *module*, without triggering a module that loads itself lazily."""
    held: dict[str, Any] = object.__getattribute__(module, "__dict__")
    return held

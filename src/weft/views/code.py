"""
The modules with the code of a run, as its definition names them, for the option ``--import``.

    >>> from weft import Workflow, step
    >>> from textwrap import dedent
    >>> modules_of(Workflow("w", step(dedent) >> step(str)))
    ()
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.core.workflow import Workflow

_MAINS = ("__main__", "__mp_main__")
"""No other process can import these: a prompt, a notebook, or ``python -c``."""


def modules_of(workflow: Workflow) -> tuple[str, ...]:
    """
    Return the modules that the functions and classes of *workflow* come from, in the order in which it names them.

    Modules of Python and of Weft are left out: they are always there.  If one of them cannot be imported
    elsewhere, the others are of no use, and none are returned.
    """
    try:
        definition = workflow.to_dict()
    except WeftError:  # it has a part that cannot be written, so no other process can import it either
        return ()
    found = dict.fromkeys(_called(definition))
    if any(module in _MAINS for module in found):
        return ()
    return tuple(module for module in found if not _is_always_there(module))


def _is_always_there(module: str) -> bool:
    first = module.partition(".")[0]
    return first == "weft" or first in sys.stdlib_module_names


def _called(data: object) -> Iterator[str]:
    """Yield the modules of the functions and classes that *data*, a definition, refers to."""
    if isinstance(data, Mapping):
        called: Any = cast("Mapping[str, Any]", data).get("$call")
        if isinstance(called, Mapping) and isinstance(module := cast("Mapping[str, Any]", called).get("module"), str):
            yield module
        for each in cast("Mapping[str, Any]", data).values():
            yield from _called(each)
    elif isinstance(data, list | tuple):
        for each in cast("list[Any]", data):
            yield from _called(each)

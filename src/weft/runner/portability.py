"""
The parts of a run that another process could not find again: lambdas and local functions, callbacks, hooks.

A run on a durable store that has such a part can be resumed only where it is passed again.  That is said once for each
definition, when a run of it is started, and not when it has to be resumed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final, cast

from weft.core.workflow import Workflow
from weft.errors import NotPortable, WeftError
from weft.log import to_dict
from weft.runner.options import RunOptions

_log = logging.getLogger("weft.runner")

_NAMED: Final = 5
"""How many parts a message names."""


def check_portable(workflow: Workflow, options: RunOptions, *, is_required: bool) -> None:
    """
    Report the parts of a run of *workflow* with *options* that another process could not find again.

    Raises:
        NotPortable: *is_required*, and there are some.
    """
    found = [*_local_functions(workflow), *options.unstorable]
    if not found:
        return
    error = NotPortable(workflow.name, found[:_NAMED], len(found))
    if is_required:
        raise error
    _log.warning("%s", error)


def _local_functions(workflow: Workflow) -> Iterator[str]:
    """Yield the functions of *workflow* that have no name by which another process could find them, in words."""
    try:
        data = to_dict(workflow)
    except WeftError:  # what cannot be written is said when it is written
        return
    for component in data["components"]:
        if any(call.get("local") for call in _calls(component.get("fields", {}))):
            yield f"the function of {component['name']!r}"
    for matcher, policy in data.get("policies", ()):
        if any(call.get("local") for call in _calls([matcher, policy])):
            yield f"a function in the policy for {matcher!r}" if isinstance(matcher, str) else "a function in a policy"


def _calls(data: Any) -> Iterator[dict[str, Any]]:
    """Yield the references to functions inside *data*."""
    if isinstance(data, dict):
        known = cast("dict[str, Any]", data)
        if isinstance(known.get("$call"), dict):
            yield known["$call"]
        for inner in known.values():
            yield from _calls(inner)
    elif isinstance(data, list | tuple):
        for inner in cast("list[Any]", data):
            yield from _calls(inner)

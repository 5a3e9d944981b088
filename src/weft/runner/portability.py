"""
The parts of a run that another process could not find again: local functions, constants that are not data, hooks.

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
    found = [*_local_parts(workflow), *options.unstorable]
    if not found:
        return
    error = NotPortable(workflow.name, found[:_NAMED], len(found))
    if is_required:
        raise error
    _log.warning("%s", error)


def _local_parts(workflow: Workflow) -> Iterator[str]:
    """Yield the functions and constants of *workflow* that another process could not find, in words."""
    try:
        data = to_dict(workflow)
    except WeftError:  # what cannot be written is said when it is written
        return
    for component in data["components"]:
        for what in _described(component.get("fields", {})):
            yield f"{what} of {component['name']!r}"
    for matcher, policy in data.get("policies", ()):
        rule = f"in the policy for {matcher!r}" if isinstance(matcher, str) else "in a policy"
        for what in _described([matcher, policy]):
            yield f"{what.replace('the', 'a', 1)} {rule}"


def _described(data: Any) -> list[str]:
    """Return what inside *data* another process could not find: a function, constants by their classes."""
    found = list(_references(data))
    functions = ["the function"] if any(key == "$call" and body.get("local") for key, body in found) else []
    constants = dict.fromkeys(body for key, body in found if key == "$lost")
    return functions + [f"the constant ({name})" for name in constants]


def _references(data: Any) -> Iterator[tuple[str, Any]]:
    """Yield the references to functions inside *data*, and the constants that could not be written."""
    if isinstance(data, dict):
        known = cast("dict[str, Any]", data)
        if isinstance(known.get("$call"), dict):
            yield "$call", known["$call"]
        if isinstance(known.get("$lost"), str):
            yield "$lost", known["$lost"]
        for inner in known.values():
            yield from _references(inner)
    elif isinstance(data, list | tuple):
        for inner in cast("list[Any]", data):
            yield from _references(inner)

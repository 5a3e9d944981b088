"""
The parts of a run that another process could not find again: local functions, constants that are not data, hooks.

A run on a durable store that has such a part can be resumed only where it is passed again.  The warning
comes once for each definition, when a run of it is started: later, when a run has to be resumed, it would be too late.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final, cast
from weakref import ref

from weft.core.workflow import Workflow
from weft.errors import NotPortable, WeftError
from weft.log import to_dict
from weft.runner.options import RunOptions

_log = logging.getLogger("weft.runner")

_NAMED: Final = 5
"""How many parts a message names."""


_SAID: Final = 1024
"""How many warnings a runner remembers, so that it does not repeat them."""


def check_portable(workflow: Workflow, options: RunOptions) -> None:
    """
    Refuse a run of *workflow* with *options* if another process could not find some of its parts again.

    Raises:
        NotPortable: there are some.
    """
    error = _unfindable(workflow, options)
    if error is not None:
        raise error


class PortabilityWarnings:
    """The warnings of one runner about definitions with parts that another process could not find again."""

    def __init__(self, *, is_durable: bool) -> None:
        self._is_durable = is_durable
        self._said: dict[str, None] = {}
        self._last: tuple[ref[Workflow], tuple[str, ...]] | None = None
        """The last definition and options that were looked at: most starts are like the one before."""

    def look_at(self, workflow: Workflow, options: RunOptions) -> None:
        """Warn of a run of *workflow* with *options*, unless this definition, or an equal one, was warned of before."""
        last = self._last
        if not self._is_durable or (last and last[0]() is workflow and last[1] == options.unstorable):
            return
        self._last = (ref(workflow), options.unstorable)
        error = _unfindable(workflow, options)
        if error is None or str(error) in self._said:
            return
        if len(self._said) >= _SAID:
            del self._said[next(iter(self._said))]
        self._said[str(error)] = None
        _log.warning("%s", error)


def _unfindable(workflow: Workflow, options: RunOptions) -> NotPortable | None:
    found = [*_local_parts(workflow), *options.unstorable]
    return NotPortable(workflow.name, found[:_NAMED], len(found)) if found else None


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

"""
The workflows of this program that workers drive, and that clients start by name.

A module that defines workflows adds them when it is imported; ``weft worker --import`` does that, and adds the
workflows at the top level of the module too.

    >>> from weft import Workflow, registry, step
    >>> double = Workflow("double", step(lambda x: x * 2, name="double"))
    >>> registry.add(double)
    >>> registry.get("double") is double
    True
"""

from __future__ import annotations

from typing import Any

from weft.core.workflow import Workflow
from weft.errors import InvalidOption, UnknownWorkflow

_known: dict[tuple[str, str], Workflow[Any, Any]] = {}
"""By name and version."""
_newest: dict[str, Workflow[Any, Any]] = {}
"""By name: the one that was added last."""


def add(*workflows: Workflow[Any, Any]) -> None:
    """
    Make *workflows* known.  Several versions of one name can be known; the one that was added last is started by name.

    Raises:
        InvalidOption: something else than a workflow.
    """
    for workflow in workflows:
        if not isinstance(workflow, Workflow):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidOption(f"registry.add({workflow!r:.60}): use workflows")
        _known[workflow.name, workflow.version] = workflow
        _newest[workflow.name] = workflow


def get(name: str) -> Workflow[Any, Any]:
    """
    Return the workflow of this *name* that was added last.

    Raises:
        UnknownWorkflow: none was added.
    """
    found = _newest.get(name)
    if found is None:
        raise UnknownWorkflow(name, sorted(_newest))
    return found


def workflows() -> list[Workflow[Any, Any]]:
    """Return all workflows that were added, in all their versions."""
    return list(_known.values())

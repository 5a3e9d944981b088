"""The order in which screens list the components of a workflow: each after those that feed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.core.plan.compiled_workflow import CompiledWorkflow


def in_order(workflow: CompiledWorkflow) -> list[str]:
    """
    Return the names of the components of *workflow*, each after those that feed it.

    What feeds itself, in a loop, keeps its place in the definition.
    """
    children: dict[str, list[str]] = {}
    missing: dict[str, int] = {}
    for name in workflow.components:
        parents = {each for inlet in workflow.wiring.fed_by(name) for each in inlet.parents}
        parents &= workflow.components.keys() - {name}
        region = workflow.wiring.regions.get(name)
        if region is not None and region in workflow.components and region != name:
            parents.add(region)
        missing[name] = len(parents)
        for parent in parents:
            children.setdefault(parent, []).append(name)
    ordered: list[str] = []
    ready = [name for name, count in missing.items() if not count]
    left = dict.fromkeys(workflow.components)
    while left:
        if not ready:  # only loops are left
            ready.append(next(iter(left)))
        name = ready.pop(0)
        if name not in left:
            continue
        del left[name]
        ordered.append(name)
        for child in children.get(name, ()):
            missing[child] -= 1
            if not missing[child]:
                ready.append(child)
    return ordered

"""Workflows whose steps start children, and which children a run has."""

from __future__ import annotations

from typing import Any

from weft import AsyncRunner, Workflow, current, step
from weft.core.events import ChildStarted


def parent_of(child: Workflow, **options: Any) -> Workflow:
    """Return a workflow whose only step returns what *child* makes of its input."""

    async def delegate(x: Any) -> Any:
        started = await current().astart_child(child, x, **options)
        return await started.result()

    return Workflow("parent", step(delegate, name="delegate"))


def careless(child: Workflow, **options: Any) -> Workflow:
    """Return a workflow that starts *child*, returns its id and does not wait for it."""

    async def start(x: Any) -> str:
        return (await current().astart_child(child, x, **options)).id

    return Workflow("careless", step(start, name="start"))


async def children_of(runner: AsyncRunner, run: str) -> list[str]:
    return [event.child for event in await runner.log(run) if isinstance(event, ChildStarted)]

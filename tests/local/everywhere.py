"""The three loops that run a workflow in memory, for tests of what holds in each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from weft import Run, Workflow


def serially(workflow: Workflow, **options: Any) -> Run:
    return workflow.run(1, **options)


def in_parallel(workflow: Workflow, **options: Any) -> Run:
    return workflow.run(1, parallel=2, **options)


def in_a_loop(workflow: Workflow, **options: Any) -> Run:
    return asyncio.run(workflow.arun(1, **options))


everywhere = pytest.mark.parametrize("go", [serially, in_parallel, in_a_loop])
Go = Callable[..., Run]

"""
Hamilton: functions in a module, wired by the names of their parameters.

The driver is built once, with a dict as its result and no lifecycle adapters;
`execute` is measured.  A map needs its dynamic execution; both of its executors
are the synchronous one, the cheapest for work this small.
"""

from __future__ import annotations

import sys

from hamilton import ad_hoc_utils, base, driver
from hamilton.execution.executors import SynchronousLocalTaskExecutor

from benchmarks.harness import Work

_STEP = """
def {name}({parent}: int) -> int:
    return {parent} + 1
"""

_MAP = """
from hamilton.htypes import Collect, Parallelizable

def item(items: list) -> Parallelizable[int]:
    yield from items

def square(item: int) -> int:
    return item * item

def total(square: Collect[int]) -> int:
    return sum(square)
"""


def chain(size: int) -> Work:
    """Steps in a row, each adding one."""
    parents = ["x", *(f"step_{i}" for i in range(size))]
    steps = (_STEP.format(name=f"step_{i}", parent=parents[i]) for i in range(size))
    built = _builder("".join(steps)).build()
    last = parents[-1]

    def call() -> object:
        # Its traversal is recursive, several frames a step; a thousand steps need more than Python's default.
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit + 10 * size)
        try:
            return built.execute([last], inputs={"x": 0})[last]
        finally:
            sys.setrecursionlimit(limit)

    return Work(call, expected=size, units=size)


def leaves(size: int) -> Work:
    """One root and its leaves, all of them asked for."""
    names = [f"leaf_{i}" for i in range(size)]
    steps = [("root", "x"), *((name, "root") for name in names)]
    source = "".join(_STEP.format(name=name, parent=parent) for name, parent in steps)
    built = _builder(source).build()
    return Work(lambda: sum(built.execute(names, inputs={"x": 0}).values()), expected=2 * size, units=size)


def map_reduce(size: int) -> Work:
    """The sum of the squares of a list."""
    built = (
        _builder(_MAP)
        .enable_dynamic_execution(allow_experimental_mode=True)
        .with_local_executor(SynchronousLocalTaskExecutor())
        .with_remote_executor(SynchronousLocalTaskExecutor())
        .build()
    )
    items = list(range(size))
    return Work(
        lambda: built.execute(["total"], inputs={"items": items})["total"],
        expected=sum(i * i for i in items),
        units=size,
    )


def _builder(source: str) -> driver.Builder:
    module = ad_hoc_utils.module_from_source(source)
    return driver.Builder().with_modules(module).with_adapters(base.DictResult())

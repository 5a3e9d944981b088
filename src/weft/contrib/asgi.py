"""
A runner that lives as long as an ASGI application, for FastAPI and Starlette.

    from fastapi import FastAPI, Request
    from weft.contrib.asgi import lifespan

    service = FastAPI(lifespan=lifespan("runs.db", orders))

    @service.post("/orders/{id}")
    async def order(id: str, order: dict, request: Request):
        return await (await request.state.runner.start(orders, order, id=id)).result()

The runner is opened when the server starts, takes back the runs that an earlier process left, and is closed when the
server stops: steps in flight end, and everything is written.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TypedDict

from weft.core.workflow import Workflow
from weft.ports.store import Store
from weft.runner.runner import AsyncRunner

__all__ = ["lifespan"]


class LifespanState(TypedDict):
    """The state that requests find in ``request.state``."""

    runner: AsyncRunner


Lifespan = Callable[[Any], AbstractAsyncContextManager[LifespanState]]


def lifespan(
    runner: AsyncRunner | Store | str | Path | Callable[[], AsyncRunner],
    *offered: Workflow | ModuleType | type,
    resume: bool = True,
) -> Lifespan:
    """
    Return the ``lifespan=`` of an application whose requests find a runner in ``request.state.runner``.

    Args:
        runner: an :class:`weft.AsyncRunner` that is not open yet, a store or where it is (``"runs.db"``), or a function
            that returns a runner, for an application that is started several times in one process.
        offered: workflows, modules and classes that stored runs may use; see :meth:`weft.AsyncRunner.register`.
        resume: whether runs that no living process owns are taken over when the application starts.
    """

    @asynccontextmanager
    async def live(_: Any) -> AsyncGenerator[LifespanState]:
        async with _made(runner) as opened:
            if offered:
                opened.register(*offered)
            if resume:
                await opened.resume_all()
            yield {"runner": opened}

    return live


def _made(runner: AsyncRunner | Store | str | Path | Callable[[], AsyncRunner]) -> AsyncRunner:
    if isinstance(runner, AsyncRunner):
        return runner
    if isinstance(runner, str | Path) or not callable(runner):
        return AsyncRunner(runner)
    return runner()

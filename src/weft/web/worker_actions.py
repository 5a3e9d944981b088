"""The actions on workers: drain one, and let it claim again."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from weft.errors import InvalidOption
from weft.web.actions import done
from weft.web.sight import source_of


async def drain_worker(request: Request) -> Response:
    """Let a worker release its runs, and claim none."""
    return await _tell(request, resume=False)


async def resume_worker(request: Request) -> Response:
    """Let a worker claim again."""
    return await _tell(request, resume=True)


async def _tell(request: Request, *, resume: bool) -> Response:
    source = source_of(request)
    worker, by = request.path_params["worker"], request.state.identity.name

    async def tell() -> None:
        client = await source.fleet()
        if client is None:
            raise InvalidOption("this store has no fleet, and so no workers")
        await client.drain(worker, resume=resume, by=by)

    return await done(request, tell, "/workers")

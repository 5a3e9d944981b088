"""How long the components of a workflow usually take, computed from its latest completed runs and kept for a while."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from weft.views import Waterfall, waterfall
from weft.views.usual import Usual, gathered, usual_times
from weft.web.source import UNREADABLE, Budget, Source

RUNS: Final = 100
"""How many completed runs are read."""
EVENTS: Final = 10_000
"""How many events they may have together."""
KEPT: Final = 60.0
"""Seconds until the answer is computed again."""


async def usual_of(source: Source, workflow: str) -> dict[str, Usual]:
    """Return what is usual for each component of *workflow*."""
    found = source.answers.soon(("usual", workflow), partial(_read, source, workflow), at_least=KEPT)
    return await found if isinstance(found, asyncio.Future) else found


async def _read(source: Source, workflow: str) -> dict[str, Usual]:
    runner = await source.reader()
    budget, falls = Budget(EVENTS), list[Waterfall]()
    for record in await runner.runs(workflow=workflow, status="completed", limit=RUNS):
        if budget.allows(record):
            try:
                _, run = await source.run(record.id)
            except UNREADABLE:
                continue
            falls.append(waterfall(run))
    return usual_times(gathered(falls))

"""
A client that makes the logs of simulated runs shorter, while they work, wait, or have finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from weft.errors import NoSnapshot, RunBusy
from weft.runner import AsyncRunner
from weft.testing.simulation.callers import Callers
from weft.testing.simulation.scenario import Scenario


class Shortening:
    """Truncates logs, and stores them in less space."""

    def __init__(self, dice: Random, scenario: Scenario, callers: Callers, tell: Callable[[str], None]) -> None:
        self._dice, self._scenario, self._callers, self._tell = dice, scenario, callers, tell

    async def perhaps(self, runner: AsyncRunner, run: str) -> None:
        """Truncate or compact the log of *run*, as often as the scenario says so."""
        dice, scenario = self._dice, self._scenario
        if scenario.compacts and dice.random() < scenario.compacts:
            await asyncio.sleep(dice.choice((0.0, 0.1, 0.5)))
            moved = await self._callers.made(lambda: runner.compact(run))
            self._tell(f"{moved} segments of {run} were moved")
        if scenario.truncates and dice.random() < scenario.truncates:
            await asyncio.sleep(dice.choice((0.0, 0.1, 0.5)))
            try:
                removed = await self._callers.made(lambda: runner.truncate(run))
            except (NoSnapshot, RunBusy) as error:
                self._tell(f"{run} is not truncated: {error}")
            else:
                self._tell(f"{removed} events of {run} were removed")

"""Starts of a run that exists: which run they are compared with."""

from __future__ import annotations

from typing import Any

import pytest
from virtual_time import double, virtually

from weft import AsyncRunner
from weft.errors import RunExists, UniqueKeyTaken
from weft.runner import every_n
from weft.stores import MemoryStore


@virtually
async def test_a_repeated_start_is_compared_with_the_run_here_and_not_with_what_is_stored_of_it() -> None:
    """Its first input is not durable yet, and what was before that has left memory."""
    store = MemoryStore()
    async with AsyncRunner(store, executor="inline", checkpoint=every_n(100)) as runner:
        await runner.start(double, id="r", unique="order 7")
        assert (await runner.evict("r")).runs == 0  # no value: only the event that defines it
        await runner.send("r", 1)
        assert store._runs["r"].record.head == 1

        await runner.start(double, 1, id="r", open=True)
        await runner.start(double, 1, unique="order 7", open=True)
        with pytest.raises(RunExists, match="with another input"):
            await runner.start(double, 2, id="r", open=True)
        with pytest.raises(UniqueKeyTaken, match="with another input"):
            await runner.start(double, 2, unique="order 7", open=True)


@pytest.mark.parametrize("is_truncated", [False, True])
@virtually
async def test_a_repeated_start_loads_the_first_input_of_a_run_here_and_keeps_it_no_longer(is_truncated: Any) -> None:
    async with AsyncRunner(MemoryStore(), executor="inline", snapshot_every=1) as runner:
        await runner.start(double, 1, id="r", open=True)
        for number in range(40):
            await (await runner.send("r", number)).result()
        assert (await runner.evict("r")).facts > 40
        if is_truncated:
            assert await runner.truncate("r") > 40
        before = (await runner.get("r")).resident_facts

        await runner.start(double, 1, id="r", open=True)
        if not is_truncated:  # else its first input is not known any more
            with pytest.raises(RunExists, match="with another input"):
                await runner.start(double, 2, id="r", open=True)

        assert (await runner.get("r")).resident_facts == before

"""A journal outlives whatever a store says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from weather import double, runner_on, virtually

from weft.errors import StoreError
from weft.stores import MemoryStore
from weft.testing.wrapping import WrappedStore

T = TypeVar("T")


@virtually
async def test_a_store_that_answers_for_too_few_runs_fails_those_and_no_others() -> None:
    class Forgetful(WrappedStore):
        is_forgetful = True

        async def around(self, call: str, act: Callable[[], Awaitable[T]]) -> Any:
            result = await act()
            return [] if call == "append" and self.is_forgetful else result

    store = Forgetful(MemoryStore())
    async with runner_on(store) as runner:
        with pytest.raises(StoreError, match="of each"):
            await runner.start(double, 1)
        store.is_forgetful = False

        assert await (await runner.start(double, 4)).result() == 8

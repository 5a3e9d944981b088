"""A store that is unavailable delays what needs it, and nothing else."""

from __future__ import annotations

import pytest
from virtual_time import double, runner_on, virtually

from weft.errors import CorruptStore, StoreFull
from weft.stores import MemoryStore
from weft.testing import Fault, FaultyStore

AWAY = [Fault.fail(), Fault.fail_after()]


@pytest.mark.parametrize("call", ["acquire", "load_since", "load_definitions", "release"])
@pytest.mark.parametrize("fault", AWAY)
@virtually
async def test_stopping_and_resuming_wait_for_a_store_that_is_unavailable(call: str, fault: Fault) -> None:
    store = FaultyStore(MemoryStore(), {(call, 1): fault})
    async with runner_on(store) as runner:
        handle = await runner.start(double, 5, id="a", open=True)
        await handle.wait()

        await runner.stop("a")
        is_free = (await store.inner.find("a")).owner is None
        await runner.resume("a", workflow=double)
        await handle.send(6)
        run = await handle.wait()

    assert (run.values("double"), is_free) == ([10, 12], True)


@pytest.mark.parametrize("call", ["list_free", "acquire_many", "load_many", "load_definitions"])
@pytest.mark.parametrize("fault", AWAY)
@virtually
async def test_no_run_is_left_out_because_the_store_was_unavailable_when_all_were_resumed(
    call: str, fault: Fault
) -> None:
    inner = MemoryStore()
    async with runner_on(inner, lasts=60.0, grace=0.0) as runner:
        for name in ("a", "b"):
            await runner.start(double, 5, id=name)

    async with runner_on(FaultyStore(inner, {(call, 1): fault})) as runner:
        runner.register(double)
        resumed = await runner.resume_all()
        results = [await handle.result() for handle in resumed]

    assert ([handle.id for handle in resumed], results) == (["a", "b"], [10, 10])


@virtually
async def test_a_run_that_could_not_be_loaded_is_free_for_others() -> None:
    inner = MemoryStore()
    async with runner_on(inner) as runner:
        await (await runner.start(double, 5, id="a", open=True)).wait()

    async with runner_on(FaultyStore(inner, {("load_since", 1): Fault.fail(CorruptStore("it", "bad"))})) as runner:
        with pytest.raises(CorruptStore):
            await runner.resume("a", workflow=double)
        is_free = (await inner.find("a")).owner is None

    assert is_free


@virtually
async def test_a_run_waits_while_the_disk_is_full() -> None:
    full = {("append", number): Fault.fail(StoreFull("the store", "by order")) for number in range(2, 8)}
    async with runner_on(FaultyStore(MemoryStore(), full)) as runner:
        handle = await runner.start(double, 1, id="a")
        waiting = await runner.status("a")

        run = await handle.wait()

    assert (waiting, run.value("double")) == ("running", 2)

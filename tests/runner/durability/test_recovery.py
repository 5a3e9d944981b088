"""Bringing a stored run back: as it was, or not at all."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from weft import AsyncRunner, Run, Workflow, accumulator, each, reduce, step
from weft.errors import RunnerClosed, UnknownClass
from weft.log import chain, encode_segment
from weft.log.event_codec import AT_ONCE
from weft.ports.store import Append
from weft.runner.durability.recovery import recover
from weft.stores import MemoryStore


@dataclass
class Parcel:
    """A class that only annotations can make known."""

    weight: int


@step
def packed(weight):  # type: ignore[no-untyped-def]
    return Parcel(weight)


@step
def announced(weight: int) -> Parcel:
    return Parcel(weight)


weighed = step(lambda parcel: parcel.weight, name="weighed")


@accumulator(init=None)
def last(_, parcel):  # type: ignore[no-untyped-def]
    return parcel


def brought_back(run: Run) -> Run:
    """Store *run*, and bring it back."""
    return asyncio.run(_brought_back(run))


async def _brought_back(run: Run) -> Run:
    async with MemoryStore() as store:
        await put(store, run)
        return (await recover(store, await store.load(run.id), workflow=run.workflow)).run


async def put(store: MemoryStore, run: Run, *, segments: int = 1) -> None:
    """Store the log of *run*, in so many segments."""
    log, link, written = run.log(), b"", 0
    size = -(-len(log) // segments)
    for first in range(0, len(log), size):
        segment = encode_segment(log[first : first + size])
        link = chain(link, segment.body)
        append = Append(
            run=run.id,
            workflow=run.workflow.name,
            version=run.workflow.version,
            create=first == 0,
            expected=written,
            count=segment.count,
            body=segment.body,
            chain=link,
            at=0.0,
            facts=segment.facts,
            definitions=segment.definitions,
        )
        assert await store.append([append]) == [None]
        written += segment.count
    await store.release([run.id])


def half_way(workflow: Workflow) -> Run:
    """Return a run of *workflow* whose first step has ended."""
    run = workflow.plan(3)
    (runnable,) = run.prepare()
    return run.apply(runnable.execute())


def test_a_run_does_not_go_on_with_a_record_in_place_of_a_value() -> None:
    run = half_way(Workflow("parcels", packed >> weighed))

    with pytest.raises(UnknownClass, match=r"register\(Class\)") as raised:
        brought_back(run)

    assert raised.value.run == run.id
    assert [name.rpartition(".")[2] for name in raised.value.classes] == ["Parcel"]


def test_a_class_that_an_annotation_mentions_is_not_an_obstacle() -> None:
    run = half_way(Workflow("parcels", announced >> weighed))

    again = brought_back(run)

    assert again.react().value("weighed") == 3


def test_state_of_an_unknown_class_is_not_gone_on_with() -> None:
    run = Workflow("parcels", packed >> last).run(3)

    with pytest.raises(UnknownClass):
        brought_back(run)


def test_values_that_will_not_be_read_are_not_an_obstacle() -> None:
    run = Workflow("parcels", packed).run(3)

    again = brought_back(run)

    assert again.value("packed").fields == {"weight": 3}


# -- in slices -----------------------------------------------------------------------------------

negated = step(lambda x: -x, name="negated")
total = reduce(lambda so_far, x: so_far + x, init=0, name="total")
SUM = Workflow("sum", each(negated) >> total)


@pytest.mark.parametrize(("segments", "least"), [(1, 8), (40, 8), (10 * AT_ONCE, 18)])
def test_a_long_log_is_brought_back_in_slices_between_which_others_have_their_turn(segments: int, least: int) -> None:
    run = SUM.run(list(range(10 * AT_ONCE)))
    rounds = 0

    async def main() -> Run:
        async with MemoryStore() as store:
            await put(store, run, segments=segments)
            coming = asyncio.ensure_future(recover(store, await store.load(run.id), workflow=SUM))
            nonlocal rounds
            while not coming.done():
                rounds += 1
                await asyncio.sleep(0)
            return (await coming).run

    assert asyncio.run(main()) == run
    # A slice may be a little longer.  Many segments are hashed, and looked through for references, in slices too.
    assert rounds >= least


def test_a_short_log_is_brought_back_at_once() -> None:
    run = SUM.run(list(range(10)))

    async def pause() -> None:
        raise AssertionError("there is no need for it")

    async def main() -> Run:
        async with MemoryStore() as store:
            await put(store, run)
            return (await recover(store, await store.load(run.id), workflow=SUM, pause=pause)).run

    assert asyncio.run(main()) == run


def test_another_run_begins_and_ends_while_a_long_one_is_brought_back() -> None:
    long = SUM.run(list(range(40 * AT_ONCE)))
    short = Workflow("short", negated)

    async def main() -> None:
        async with MemoryStore() as store, AsyncRunner(store, executor="inline") as runner:
            await put(store, long)
            coming = asyncio.ensure_future(runner.resume(long.id, workflow=SUM))
            await asyncio.sleep(0)

            assert await (await runner.start(short, 1)).result() == -1
            assert not coming.done()
            await coming

    asyncio.run(main())


@pytest.mark.parametrize("slices", [0, 1, 7, 20])
def test_a_runner_that_is_closed_while_a_run_is_brought_back_leaves_it_as_it_was(slices: int) -> None:
    begun = SUM.plan(list(range(20 * AT_ONCE)))
    while len(begun.prepare()) == 1:
        begun.react()
    for runnable in begun.prepare()[: 12 * AT_ONCE]:
        begun.apply(runnable.execute())

    async def main() -> None:
        async with MemoryStore() as store:
            await put(store, begun)
            before = await store.load(begun.id)
            runner = await AsyncRunner(store, executor="inline").open()
            coming = asyncio.ensure_future(runner.resume(begun.id, workflow=SUM))
            for _ in range(1 + slices):
                await asyncio.sleep(0)
            await runner.close()

            with pytest.raises(RunnerClosed):
                await coming
            after = await store.load(begun.id)
            assert after.segments == before.segments
            assert after.record.owner is None
            async with AsyncRunner(store, executor="inline") as another:
                await another.resume(begun.id, workflow=SUM)
                assert await another.result(begun.id) == -sum(range(20 * AT_ONCE))

    asyncio.run(main())

"""Bringing a stored run back: as it was, or not at all."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from weft import Run, Workflow, accumulator, step
from weft.errors import UnknownClass
from weft.log import chain, encode_segment
from weft.ports.store import Append
from weft.runner.recovery import recover
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
    segment = encode_segment(run.log())
    async with MemoryStore() as store:
        append = Append(
            run=run.id,
            workflow=run.workflow.name,
            create=True,
            expected=0,
            count=segment.count,
            body=segment.body,
            chain=chain(b"", segment.body),
            at=0.0,
            facts=segment.facts,
            definitions=segment.definitions,
        )
        assert await store.append([append]) == [None]
        return (await recover(store, await store.load(run.id), workflow=run.workflow)).run


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


def test_a_class_that_an_annotation_mentions_is_no_obstacle() -> None:
    run = half_way(Workflow("parcels", announced >> weighed))

    again = brought_back(run)

    assert again.react().value("weighed") == 3


def test_state_of_an_unknown_class_is_not_gone_on_with() -> None:
    run = Workflow("parcels", packed >> last).run(3)

    with pytest.raises(UnknownClass):
        brought_back(run)


def test_values_that_nobody_will_read_are_no_obstacle() -> None:
    run = Workflow("parcels", packed).run(3)

    again = brought_back(run)

    assert again.value("packed").fields == {"weight": 3}

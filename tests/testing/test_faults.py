"""The faulty store: transparent without faults, and otherwise as bad as it was told to be."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from weft.errors import StoreFull, StoreUnavailable
from weft.ports.store import Append
from weft.stores import MemoryStore
from weft.testing import (
    FactStoreContract,
    Fault,
    FaultyStore,
    ListableStoreContract,
    LogStoreContract,
    OwnedStoreContract,
    SnapshotStoreContract,
)
from weft.testing.faults import Crash


class TestFaultyStore(
    LogStoreContract, FactStoreContract, SnapshotStoreContract, OwnedStoreContract, ListableStoreContract
):
    @pytest.fixture
    def store(self) -> FaultyStore:
        return FaultyStore(MemoryStore())


def first(run: str) -> Append:
    return Append(run=run, workflow="w", create=True, expected=0, count=1, body=b"1", chain=b"h", at=0.0)


@pytest.mark.parametrize(
    ("fault", "kind", "is_written"),
    [
        (Fault.fail(), StoreUnavailable, False),
        (Fault.fail(StoreFull("it", "by order")), StoreFull, False),
        (Fault.fail_after(), StoreUnavailable, True),
        (Fault.crash(), Crash, False),
        (Fault.crash_after(), Crash, True),
    ],
)
def test_a_call_fails_before_or_after_it_is_done(fault: Fault, kind: type[BaseException], is_written: bool) -> None:
    async def main() -> list[bool]:
        async with FaultyStore(MemoryStore(), {("append", 2): fault}) as store:
            await store.append([first("a")])
            with pytest.raises(kind):
                await store.append([first("b")])
            await store.append([first("c")])
            return [await store.exists(run) for run in "abc"]

    assert asyncio.run(main()) == [True, is_written, True]


def test_a_callable_decides_for_every_call() -> None:
    def every_other_append(call: str, number: int) -> Fault | None:
        return Fault.fail() if call == "append" and number % 2 else None

    async def main() -> list[bool]:
        async with FaultyStore(MemoryStore(), every_other_append) as store:
            results = await asyncio.gather(*(store.append([first(run)]) for run in "abcd"), return_exceptions=True)
            return [isinstance(each, StoreUnavailable) for each in results]

    assert asyncio.run(main()) == [True, False, True, False]


def test_a_delayed_call_is_done_when_the_test_lets_it() -> None:
    async def main() -> tuple[bool, bool]:
        gate = asyncio.Event()
        async with FaultyStore(MemoryStore(), {("append", 1): Fault.delay(gate)}) as store:
            pending = asyncio.ensure_future(store.append([first("a")]))
            await asyncio.sleep(0)
            before = await store.exists("a")
            gate.set()
            await pending
            return before, await store.exists("a")

    assert asyncio.run(main()) == (False, True)


def test_only_the_contracts_need_pytest() -> None:
    program = "import sys; sys.modules['pytest'] = None; from weft.testing import FaultyStore, VirtualClock"

    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    import weft.testing

    with pytest.raises(AttributeError, match="Nothing"):
        weft.testing.Nothing  # noqa: B018

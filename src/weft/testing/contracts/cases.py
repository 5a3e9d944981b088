"""
Helpers of the store contracts: small appends, and tests that are coroutines.

No plugin for coroutines is needed.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol

import pytest
from msgspec import structs

from weft.errors import RunNotFound
from weft.ports.store import (
    Append,
    FactStore,
    ListableStore,
    LoadedRun,
    LogStore,
    OwnedStore,
    RunRecord,
    SnapshotStore,
    Store,
    TruncatingStore,
)

P = ParamSpec("P")

Test = Callable[Concatenate[Any, P], None]


class LogAndFactStore(LogStore, FactStore, Protocol):
    """The store that the contract of facts tests."""


class SnapshotLogStore(LogStore, SnapshotStore, OwnedStore, ListableStore, Protocol):
    """The store that the contract of snapshots tests."""


class TruncatingLogStore(SnapshotLogStore, TruncatingStore, Protocol):
    """The store that the contract of truncation tests."""


class OwnedLogStore(LogStore, OwnedStore, ListableStore, Protocol):
    """The store that the contract of ownership tests."""


class ListableLogStore(LogStore, FactStore, ListableStore, Protocol):
    """The store that the contract of listings and retention tests."""


def opened(test: Callable[Concatenate[Any, P], Coroutine[Any, Any, None]]) -> Test[P]:
    """Make a test of a coroutine function: its stores are open inside, and closed afterwards."""

    @functools.wraps(test)
    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> None:
        stores = [each for each in kwargs.values() if isinstance(each, Store)]

        async def main() -> None:
            for store in stores:
                await store.open()
            try:
                await test(self, *args, **kwargs)
            finally:
                for store in stores:
                    await store.close()

        asyncio.run(main())

    return run


def first(run: str, body: bytes = b"1", **given: Any) -> Append:
    """Return the append that creates a run, by default with one event."""
    settings: dict[str, Any] = {"workflow": "orders", "count": 1, "chain": b"c" + body[:16], "at": 1.0, **given}
    return Append(run=run, create=True, expected=0, body=body, **settings)


def more(run: str, expected: int, body: bytes = b"2", **given: Any) -> Append:
    """Return an append to a run whose head is *expected*."""
    settings: dict[str, Any] = {"count": 1, "chain": b"c" + body[:16], "at": 2.0, **given}
    return Append(run=run, expected=expected, body=body, **settings)


def bodies(loaded: LoadedRun) -> list[bytes]:
    """Return the bodies of the segments."""
    return [each.body for each in loaded.segments]


async def write(store: LogStore, *batch: Append) -> None:
    """Append a batch that must not be refused."""
    assert list(await store.append(batch)) == [None] * len(batch)


async def take_free(store: OwnedLogStore, **asked: Any) -> list[RunRecord]:
    """Own the free runs that ``list_free`` returns when it is *asked* so; return the records of those that were."""
    taken = await store.acquire_many([each.id for each in await store.list_free(**asked)])
    return [each for each in taken.values() if isinstance(each, RunRecord)]


def unowned(record: RunRecord) -> RunRecord:
    """Return the record without its owner, whose text each store chooses."""
    return structs.replace(record, owner=None)


def again(append: Append) -> Append:
    """Return the append as one whose first attempt ended in doubt."""
    return structs.replace(append, again=True)


async def is_there(store: LogStore, run: str) -> bool:
    """Return whether a run is stored."""
    try:
        await store.load(run)
    except RunNotFound:
        return False
    return True


def skip_unless_grouped(store: object) -> None:
    """Skip a test of appends that are written together if *store* says that it writes each run by itself."""
    if not getattr(store, "writes_groups", True):
        pytest.skip("this store writes each run by itself")

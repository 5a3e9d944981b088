"""The reference store against the contract that it is the reference of."""

from __future__ import annotations

import pytest

from weft.stores import MemoryStore
from weft.testing import (
    FactStoreContract,
    InboxStoreContract,
    ListableStoreContract,
    LogStoreContract,
    OwnedStoreContract,
    ScheduleStoreContract,
    SnapshotStoreContract,
    StatisticsStoreContract,
    StreamStoreContract,
    TruncatingStoreContract,
)


class TestMemoryStore(
    LogStoreContract,
    FactStoreContract,
    SnapshotStoreContract,
    TruncatingStoreContract,
    OwnedStoreContract,
    ScheduleStoreContract,
    ListableStoreContract,
    StatisticsStoreContract,
    InboxStoreContract,
    StreamStoreContract,
):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()

    async def crash(self, store: MemoryStore) -> None:
        store.crash()

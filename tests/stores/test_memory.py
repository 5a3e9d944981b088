"""The reference store against the contract that it is the reference of."""

from __future__ import annotations

import pytest

from weft.stores import MemoryStore
from weft.testing import (
    DeadlineStoreContract,
    FactStoreContract,
    InboxStoreContract,
    JobStoreContract,
    ListableStoreContract,
    LogStoreContract,
    OwnedStoreContract,
    ScheduleStoreContract,
    SnapshotStoreContract,
    StatisticsStoreContract,
    StreamStoreContract,
    TruncatingStoreContract,
    UniqueStoreContract,
    WaitingStoreContract,
)


class TestMemoryStore(
    LogStoreContract,
    FactStoreContract,
    SnapshotStoreContract,
    TruncatingStoreContract,
    UniqueStoreContract,
    OwnedStoreContract,
    DeadlineStoreContract,
    ScheduleStoreContract,
    ListableStoreContract,
    WaitingStoreContract,
    StatisticsStoreContract,
    InboxStoreContract,
    JobStoreContract,
    StreamStoreContract,
):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()

    async def crash(self, store: MemoryStore) -> None:
        store.crash()

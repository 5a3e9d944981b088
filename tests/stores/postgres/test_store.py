"""The PostgreSQL store against the contract, as it is opened and closed."""

from __future__ import annotations

import pytest
from postgres_stores import die

from weft.stores import PostgresStore
from weft.testing import (
    FactStoreContract,
    InboxStoreContract,
    ListableStoreContract,
    LogStoreContract,
    OwnedStoreContract,
    QueueStoreContract,
    ScheduleStoreContract,
    SharedInboxContract,
    SharedStoreContract,
    SnapshotStoreContract,
    StatisticsStoreContract,
    StreamStoreContract,
    TruncatingStoreContract,
)


class TestPostgresStore(
    LogStoreContract,
    FactStoreContract,
    SnapshotStoreContract,
    TruncatingStoreContract,
    StreamStoreContract,
    OwnedStoreContract,
    ListableStoreContract,
    StatisticsStoreContract,
    InboxStoreContract,
    SharedStoreContract,
    SharedInboxContract,
    QueueStoreContract,
    ScheduleStoreContract,
):
    @pytest.fixture
    def store(self, dsn: str, schema: str) -> PostgresStore:
        return PostgresStore(dsn, schema=schema)

    @pytest.fixture
    def another(self, dsn: str, schema: str) -> PostgresStore:
        return PostgresStore(dsn, schema=schema)

    async def crash(self, store: PostgresStore) -> None:
        """Leave the lease, and let its time pass."""
        await die(store)

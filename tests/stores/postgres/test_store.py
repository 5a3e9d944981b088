"""The PostgreSQL store against the contract, as it is opened and closed."""

from __future__ import annotations

from typing import Any

import pytest
from postgres_stores import ask, die

from weft.stores import PostgresStore
from weft.testing import (
    DeadlineStoreContract,
    FactStoreContract,
    InboxStoreContract,
    JobStoreContract,
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
    TransactionalStoreContract,
    TruncatingStoreContract,
    UniqueStoreContract,
    WaitingStoreContract,
)


class TestPostgresStore(
    LogStoreContract,
    FactStoreContract,
    SnapshotStoreContract,
    TruncatingStoreContract,
    UniqueStoreContract,
    StreamStoreContract,
    OwnedStoreContract,
    ListableStoreContract,
    WaitingStoreContract,
    StatisticsStoreContract,
    InboxStoreContract,
    JobStoreContract,
    SharedStoreContract,
    SharedInboxContract,
    QueueStoreContract,
    DeadlineStoreContract,
    ScheduleStoreContract,
    TransactionalStoreContract,
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

    async def put(self, store: PostgresStore, connection: Any, word: str) -> None:
        """Write a word into a table beside those of the store."""
        await connection.execute(_CREATE.replace("app", store._statements.schema))
        await connection.execute(_INSERT.replace("app", store._statements.schema), word)

    def put_blocking(self, store: PostgresStore, connection: Any, word: str) -> None:
        """Write a word, as a plain function does."""
        connection.execute(_CREATE.replace("app", store._statements.schema))
        connection.execute(_INSERT.replace("app", store._statements.schema), word)

    async def words(self, store: PostgresStore) -> list[str]:
        """Return the words that are committed."""
        schema = store._statements.schema
        if not (await ask(store, "select to_regclass($1)", f"{schema}.words"))[0][0]:
            return []
        return [row["word"] for row in await ask(store, f"select word from {schema}.words order by key")]  # noqa: S608


_CREATE = "create table if not exists app.words (key bigint generated always as identity, word text)"
_INSERT = "insert into app.words (word) values ($1)"

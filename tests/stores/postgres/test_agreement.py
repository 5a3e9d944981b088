"""The PostgreSQL store does what the reference does, for any calls in any order."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from agreement import agree, scripts
from hypothesis import given, settings
from postgres_stores import ask

from weft.stores import PostgresStore

SCHEMA = f"agreement {uuid.uuid4().hex}"
TABLES = "weft_runs, weft_queue, weft_events, weft_facts, weft_definitions, weft_inbox, weft_snapshots"


@settings(max_examples=20)  # each opens another store
@given(script=scripts)
def test_the_postgresql_store_agrees_with_the_reference(server_dsn: str, script: list[tuple[str, Any]]) -> None:
    async def main() -> None:
        async with PostgresStore(server_dsn, schema=SCHEMA) as store:
            await ask(store, f"truncate {TABLES}")
            await agree(store, script)

    asyncio.run(main())

"""Connections and statements that a worker costs the server, at rest and at work."""

from __future__ import annotations

import asyncio
import time

from servers import asked
from test_moving import is_in, working
from test_worker import until

from weft import AsyncClient
from weft.stores import PostgresStore


def test_a_worker_uses_at_most_four_connections(dsn: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            async with AsyncClient(dsn) as client:
                await client.start_many("chain", range(50))
            async with working(dsn) as worker:
                await is_in(worker, "working")

                async def is_done() -> bool:
                    sql = "select count(*) = 0 from weft_queue"
                    return bool(await asyncio.to_thread(asked, dsn, lambda db: db.fetchval(sql)))

                await until(is_done)
                sql = """
                    select count(*) from pg_stat_activity
                    where datname = current_database() and pid <> pg_backend_pid()
                """
                assert await asyncio.to_thread(asked, dsn, lambda db: db.fetchval(sql)) <= 4

    asyncio.run(main())


def test_an_idle_worker_makes_at_most_one_statement_in_a_second(dsn: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(120), working(dsn) as worker:
            await is_in(worker, "working")
            runner = worker._runner
            assert runner is not None
            store = runner._queue_store
            assert isinstance(store, PostgresStore)
            assert store._opened is not None
            said: list[str] = []
            first = store.presence.renewals

            async def renewed(count: int) -> None:
                async def found() -> bool:
                    return store.presence.renewals >= first + count

                await until(found)

            await renewed(1)
            begun, renewals = time.monotonic(), store.presence.renewals
            for each in (store._opened.appends, store._opened.others):
                if each._db is not None:
                    each._db.add_query_logger(lambda query: said.append(query.query))
            await renewed(4)
            passed = time.monotonic() - begun

            # More time passes on a busy machine, and not more statements; the first one of each kind takes none.
            assert len(said) + store.presence.renewals - renewals <= passed + 2, said

    asyncio.run(main())

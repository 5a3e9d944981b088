"""A worker that stands still in a transactional step, with rows locked: another worker runs the step to its end."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import asyncpg
import transacting_flows as flows
from processes import workers
from test_worker import until

from weft import AsyncClient

FLOWS = Path(flows.__file__)


def test_a_step_whose_worker_stands_still_with_rows_locked_is_run_by_another_one(dsn: str, tmp_path: Path) -> None:
    async def main() -> None:
        db = await asyncpg.connect(dsn)
        await db.execute("create table paid (id integer primary key, n integer)")
        async with AsyncClient(dsn) as client:
            await client.migrate()
            with workers(dsn, tmp_path, FLOWS) as fleet:
                frozen = fleet.start()
                handle = await client.start(flows.payment, 1, id="p")

                async def has_locked() -> bool:
                    return fleet.notes.exists()

                await until(has_locked)
                frozen.send_signal(signal.SIGSTOP)
                fleet.start()

                assert await handle.result(timeout=120) == 2
                assert await db.fetchval("select n from paid") == 1
                frozen.send_signal(signal.SIGCONT)
        await db.close()

    asyncio.run(main())

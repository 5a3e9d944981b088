"""
Times the pages of the dashboard on a file with a million runs, and the page of a run that maps 50,000 elements.

    python benchmarks/dashboard.py                   # a million runs; a few minutes and 1.5 GB on the disk
    python benchmarks/dashboard.py --runs 10000

A few runs are really made, and their rows copied under other ids, with times over the last thirty days.  Each page is
asked for over ASGI, without a network, the first time and then five times; the median of the five is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from weft import Runner, Workflow, each, reduce, step, wait_for
from weft.web import app

MONTH = 30 * 86_400.0
SHARES = {"done": 0.9895, "failed": 0.0003, "waits": 0.01, "stopped": 0.0002}
"""By template: its share of the runs."""
PAGES = (
    "/runs",
    "/runs?span=all",
    "/runs?span=all&sort=age",
    "/runs?span=all&status=completed",
    "/runs?span=7d&workflow=orders",
    "/problems",
    "/workflows",
    "/workflows/orders",
    "/schedules",
    "/workers",
    "/limits",
    "/versions",
    "/runs/done-1",
)


@step
def check(order: int) -> int:
    """Refuse some orders."""
    if order < 0:
        raise ValueError("refused")
    return order


@step
def price(line: int) -> float:
    """Return a price."""
    return line * 1.25


@step
def lines(order: int) -> list[int]:
    """Return the lines of an order."""
    return list(range(order))


total = reduce(lambda acc, x: acc + x, init=0.0, name="total")
orders = Workflow("orders", check)
asks = Workflow("asks", check >> wait_for("approved", timeout=30 * 86_400))
wide = Workflow("wide", lines >> each(price) >> total)


def fill(path: Path, runs: int) -> None:
    """Make one run of each kind, and copy its rows."""
    logging.getLogger("weft").setLevel(logging.CRITICAL)
    with Runner(path, executor="inline") as runner:
        runner.start(orders, 1, id="done").result()
        runner.start(orders, -1, id="failed").wait()
        for id in ("waits", "stopped"):
            runner.start(asks, 1, id=id)
            runner.wait_until(id, lambda run: run.waiting_for != [])
        runner.cancel("stopped", "wrong file", by="alan")
    now = time.time()
    with closing(sqlite3.connect(path)) as db, db:
        for name, share in SHARES.items():
            count = max(1, round(runs * share))
            (key,) = db.execute("select key from runs where id = ?", (name,)).fetchone()
            (first,) = db.execute("select max(key) from runs").fetchone()
            # A column that is not named here, of a later schema too, is copied as it is.
            db.execute("create temp table one as select * from runs where key = ?", (key,))
            names, values = _columns(db)
            sql = f"""with recursive n (i) as (values (1) union all select i + 1 from n where i < :count)
                insert into runs (key, id, {names})
                select :first + i, r.id || '-' || i, {values} from n, one r"""  # noqa: S608 - names of the table itself
            db.execute(
                sql,
                {"count": count, "first": first, "now": now, "month": MONTH},
            )
            db.execute("drop table one")
            db.execute(
                """insert into segments
                select (n.key << 32) + (s.place & 4294967295), s.count, s.chain, s.at, s.body
                from runs n, segments s
                where n.key > :first and s.place between :key << 32 and (:key << 32) + 4294967295""",
                {"first": first, "key": key},
            )


def _columns(db: sqlite3.Connection) -> tuple[str, str]:
    """Return the names of the columns that are copied, and what is put there: other times, and no owner."""
    at = ":now - :month * i / :count"
    other = {"created_at": at, "updated_at": at, "owner": "null"}
    other["finished_at"] = f"case when r.finished_at is null then null else {at} end"
    names = [row[1] for row in db.execute("pragma table_info(one)") if row[1] not in ("key", "id")]
    return ", ".join(names), ", ".join(other.get(name, f"r.{name}") for name in names)


async def asked(application: Any, address: str) -> tuple[int, int]:
    """Return the status and the size of a page."""
    path, _, query = address.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "scheme": "http",
        "headers": [(b"host", b"localhost")],
        "server": ("localhost", 80),
    }
    status, size = 0, 0

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, size
        status = message.get("status", status)
        size += len(message.get("body", b""))

    await application(scope, receive, send)
    return status, size


async def timed(call: Callable[[], Awaitable[tuple[int, int]]]) -> tuple[float, float, tuple[int, int]]:
    """Return the seconds of the first call, the median of five more, and the answer."""
    took: list[float] = []
    answer = (0, 0)
    for _ in range(6):
        began = time.perf_counter()
        answer = await call()
        took.append(time.perf_counter() - began)
    return took[0], statistics.median(took[1:]), answer


async def measured(path: Path, addresses: tuple[str, ...]) -> None:
    """Print how long each page takes, and how large it is."""
    application = app(path)
    async with application.router.lifespan_context(application):
        for address in addresses:
            first, median, (status, size) = await timed(lambda address=address: asked(application, address))  # type: ignore[misc]
            print(
                f"{address:<36} {status}  first {first * 1e3:8.1f} ms   then {median * 1e3:8.1f} ms   {size:>9,} bytes"
            )


def main() -> None:
    """Make the files, and ask for the pages."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=1_000_000)
    options.add_argument("--elements", type=int, default=50_000)
    options.add_argument("--folder", type=Path, help="where the files are made; a temporary folder if not given")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        many, one = Path(folder) / "many.db", Path(folder) / "wide.db"
        began = time.perf_counter()
        fill(many, given.runs)
        print(f"{given.runs:,} runs, {many.stat().st_size / 1e6:,.0f} MB, made in {time.perf_counter() - began:,.0f} s")
        asyncio.run(measured(many, PAGES))
        with Runner(one, executor="inline") as runner:
            runner.start(wide, given.elements, id="wide").result()
        print(f"a map of {given.elements:,} elements")
        asyncio.run(measured(one, ("/runs/wide", "/runs/wide?select=price", "/runs/wide?at=1000", "/runs")))


if __name__ == "__main__":
    main()

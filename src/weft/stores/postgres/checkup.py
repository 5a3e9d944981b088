"""
Checks a PostgreSQL store and the fleet on it, for ``weft doctor``: the schema, rights, queue, workers and server.

It reads with one connection, and changes nothing unless it is asked to repair.  A statement sees the database as it was
at one moment, so a concurrent write is never taken for damage.  A repair is one statement, which checks again what it
changes.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from weft.errors import NewerStore
from weft.ports.checkup import Finding
from weft.ports.workers import WorkerRecord, stranded
from weft.stores.postgres import driver, presence, schema
from weft.stores.postgres.error_mapping import problem
from weft.stores.postgres.statements import Statements

MOST: Final = 100
"""How many runs of one kind are named."""
AT_ONCE: Final = 10_000
"""Runs that a repair fixes at once."""
SKEW: Final = 2.0
"""Seconds by which the clocks may differ before it is said."""
PATIENCE: Final = 5.0
"""Seconds within which a notification has to arrive."""
_OLDEST: Final = 12
_TABLES: Final = (
    *("runs", "queue", "events", "facts", "definitions", "inbox", "workers", "snapshots", "streams", "chunks"),
    *("progress", "schedules", "limits", "limit_places", "tasks", "task_values", "shard", "shards", "jobs"),
    "deadlines",
)

Repair = Callable[[Any], Awaitable[int]]
"""Repairs something over a connection, and returns how many rows it has changed."""


class Checkup:
    """
    Looks at the store at *dsn*.

    Args:
        is_quick: leave out what reads every run.
    """

    def __init__(self, dsn: str, *, schema: str = "public", is_quick: bool = False, timeout: float = 60.0) -> None:
        address, self._is_prepared, schema = driver.read(dsn, schema)
        self._dsn, self._timeout, self._is_quick = address, timeout, is_quick
        self._statements = Statements(schema)
        self.name = f"the store at {driver.shown(address)}"
        self.runs = 0
        """How many runs there are."""
        self.workers = 0
        """How many workers are alive."""
        self.repairs: dict[str, Repair] = {}
        """By the words of a finding that can be repaired: what repairs it."""

    async def _connect(self) -> Any:
        db = await driver.connect(self._dsn, timeout=self._timeout, is_prepared=self._is_prepared)
        return db if self._is_prepared else driver.Pooled(db)

    async def findings(self) -> AsyncIterator[Finding]:
        """
        Yield everything that is found, as it is found.

        Raises:
            StoreError: it cannot be reached, or a newer Weft has migrated it.
        """
        db = None
        try:
            db = await self._connect()
            async for finding in self._all(db):
                yield finding
        except Exception as error:
            raise problem(self.name, error) from error
        finally:
            if db is not None:
                db.terminate()

    async def repair(self, finding: Finding) -> int:
        """Repair what *finding* says can be repaired; return how many rows were changed."""
        db = await self._connect()
        try:
            return await self.repairs[finding.repair](db)
        except Exception as error:
            raise problem(self.name, error) from error
        finally:
            db.terminate()

    async def _all(self, db: Any) -> AsyncIterator[Finding]:
        async for finding in self._server(db):
            yield finding
        found, known = await schema.version_of(db, self._statements), schema.newest(self._statements)
        if found > known:
            raise NewerStore(self.name, found, known)
        if found < known:
            yield self._offers(
                Finding(
                    where="the schema",
                    what=f"it has version {found}, and this Weft needs {known}" if found else "there are no tables yet",
                    next="weft migrate --store URL, by a role that may create tables",
                    repair="migrate the schema",
                ),
                self._migrate,
            )
            return
        missing = await self._missing(db)
        if missing:
            yield Finding(
                where="the schema",
                what=f"tables are missing: {', '.join(missing)}",
                next="restore the database from a backup: a migration creates a table once",
            )
            return
        for check in (self._rights, self._queue, self._fleet):
            async for finding in check(db):
                yield finding

    def _offers(self, finding: Finding, repair: Repair) -> Finding:
        self.repairs[finding.repair] = repair
        return finding

    # -- the server ------------------------------------------------------------------------------

    async def _server(self, db: Any) -> AsyncIterator[Finding]:
        used, most, fsync, commits, version = await db.fetchrow(self._statements["check_connections"])
        if version // 10_000 < _OLDEST:
            yield Finding(
                where="the server",
                what=f"it is PostgreSQL {version // 10_000}",
                next=f"Weft is tested with {_OLDEST} and newer",
                certainty="likely",
            )
        if db.get_settings().server_encoding != "UTF8":
            yield Finding(
                where="the database",
                what=f"it is encoded as {db.get_settings().server_encoding}, and ids are any text",
                next="create the database with encoding 'UTF8'",
            )
        if used > 0.8 * most:
            yield Finding(
                where="the server",
                what=f"{used} of {most} connections are in use; a worker needs up to 4",
                next="raise max_connections, or put a pooler in front and give workers --listen-dsn",
                certainty="likely",
                is_damage=False,
            )
        if "off" in (fsync, commits):
            setting = "fsync" if fsync == "off" else "synchronous_commit"
            yield Finding(
                where="the server",
                what=f"{setting} is off: work that was acknowledged can be lost when the server crashes",
                next=f"{setting} = on, unless this is a test",
                is_damage=False,
            )
        skew = await self._skew(db)
        if abs(skew) > SKEW:
            yield Finding(
                where="the clocks",
                what=f"that of the server is {abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} this machine's",
                next="leases and schedules go by the server's, the times in logs by each machine's: synchronise them",
                is_damage=False,
            )
        if not await self._can_listen(db):
            yield Finding(
                where="LISTEN",
                what=f"a notification did not arrive in {PATIENCE:g} s",
                next="this looks like a transaction pooler: give workers --listen-dsn with a direct address, or "
                "they only poll",
                certainty="likely",
                is_damage=False,
            )

    async def _skew(self, db: Any) -> float:
        """Return how many seconds the clock of the server is ahead, of three questions the one answered fastest."""
        answers: list[tuple[float, float]] = []
        for _ in range(3):
            before = time.time()
            server = await db.fetchval("select extract(epoch from clock_timestamp())::double precision")
            after = time.time()
            answers.append((after - before, server - (before + after) / 2))
        took, skew = min(answers)
        return skew if abs(skew) > took else 0.0

    async def _can_listen(self, db: Any) -> bool:
        channel, arrived = f"weft_doctor_{uuid.uuid4().hex}", asyncio.Event()

        def on_payload(*_: Any) -> None:
            arrived.set()

        other = await self._connect()
        try:
            await other.add_listener(channel, on_payload)
            await db.execute(f"select pg_notify('{channel}', '')")
            async with asyncio.timeout(PATIENCE):
                await arrived.wait()
        except TimeoutError:
            return False
        finally:
            other.terminate()
        return True

    # -- the schema ------------------------------------------------------------------------------

    async def _migrate(self, db: Any) -> int:
        await schema.migrate(db, self._statements, self.name)
        return 1

    async def _missing(self, db: Any) -> list[str]:
        names = [f"{self._statements.schema}.weft_{name}" for name in _TABLES]
        rows = await db.fetch("select n from unnest($1::text[]) as n where to_regclass(n) is null", names)
        return [row[0].rpartition(".")[2] for row in rows]

    async def _rights(self, db: Any) -> AsyncIterator[Finding]:
        needed = [(f"weft_{name}", right) for name in _TABLES for right in schema.rights(f"weft_{name}")]
        rows = await db.fetch(
            "select p, count(*) from unnest($1::text[], $2::text[]) as needed (n, p) "
            "where not has_table_privilege(n, p) group by p",
            [f"{self._statements.schema}.{table}" for table, _ in needed],
            [right for _, right in needed],
        )
        lacking = {right for right, _ in rows}
        if not lacking:
            return
        user = await db.fetchval("select current_user")
        reads = "select" not in lacking
        yield Finding(
            where="the role",
            what=f"{user} may not {', '.join(right for right in schema.RIGHTS if right in lacking)} where it has to",
            next=f"weft migrate --worker {user}, by a role that may grant that"
            + ("; for looking it is enough" if reads else ""),
            is_damage=not reads,
        )

    # -- the queue and the runs ------------------------------------------------------------------

    async def _queue(self, db: Any) -> AsyncIterator[Finding]:
        ask, schema_ = self._statements, self._statements.schema
        self.runs = await db.fetchval(f"select count(*) from {schema_}.weft_runs")  # noqa: S608 - its name is quoted
        unqueued = await db.fetch(ask["check_unqueued"], AT_ONCE)
        if unqueued:
            keys = [row[0] for row in unqueued]

            async def enqueue(db: Any) -> int:
                return int((await db.fetchrow(ask["repair_unqueued"], keys))[0])

            yield self._offers(
                Finding(
                    where="the queue",
                    what=f"{_runs(unqueued)} not finished and not in the queue: no worker will have them",
                    next="weft doctor --repair puts them back",
                    repair="put these runs back into their queue",
                ),
                enqueue,
            )
        wrong = await db.fetch(ask["check_messages"], AT_ONCE)
        if wrong:
            told = [row[0] for row in wrong]

            async def recount(db: Any) -> int:
                return int((await db.fetchrow(ask["repair_messages"], told))[0])

            yield self._offers(
                Finding(
                    where="the inbox",
                    what=f"{_runs(wrong)} in the queue with another number of messages than there are",
                    next="weft doctor --repair counts them again, and a worker looks",
                    repair="count the messages of these runs again",
                ),
                recount,
            )
        if self._is_quick:
            return
        for table, column, number in await db.fetch(ask["check_strays"]):
            if number:
                text = ask["repair_strays"].replace("{table}", table).replace("{column}", column)

                async def remove(db: Any, text: str = text) -> int:
                    return int(await db.fetchval(text))

                yield self._offers(
                    Finding(
                        where=table,
                        what=f"{number:,} rows belong to no run",
                        next="nothing reads them; weft doctor --repair deletes them",
                        is_damage=False,
                        repair=f"delete the rows of {table} that belong to no run",
                    ),
                    remove,
                )
        for run, head, last in await db.fetch(ask["check_heads"], MOST):
            yield Finding(
                where=f"run {run!r}",
                what=f"its row says {head:,} events, and its log has {last:,}",
                next="restore the database from a backup, or delete the run; weft verify reads the rest of its log",
                run=run,
            )

    # -- the fleet -------------------------------------------------------------------------------

    async def _fleet(self, db: Any) -> AsyncIterator[Finding]:
        workers: list[WorkerRecord] = await presence.workers(db, self._statements)
        self.workers = len(workers)
        for worker, name, seconds, runs in await db.fetch(self._statements["check_leases"]):
            yield Finding(
                where=f"worker {worker}" if worker else name,
                what=f"its lease ended {seconds:,.0f} s ago with {runs:,} runs, and it has not closed: {name}",
                next="another worker takes them with its next claim" if workers else "start a worker: it takes them",
                is_damage=not workers,
            )
        waiting = await presence.waiting(db, self._statements)
        if waiting and not workers:
            yield Finding(
                where="the fleet",
                what=f"no worker is alive, and {sum(each.runs for each in waiting):,} runs are due",
                next="weft worker --store URL --import MODULE",
            )
            return
        for each in stranded(waiting, workers):
            yield Finding(
                where=f"{each.workflow}@{each.version[:8]}",
                what=f"{each.runs:,} runs are due in the queue {each.queue!r}, for up to {each.oldest:,.0f} s, and no "
                "worker that is alive knows this version and serves this queue",
                next="start a worker with that code, or weft upgrade the runs",
                certainty="likely" if each.oldest < 60 else "certain",
            )


def _runs(rows: list[Any]) -> str:
    """Return how many runs there are, with the ids of some."""
    names = ", ".join(repr(row[1]) for row in rows[:3])
    more = f" and {len(rows) - 3:,} more" if len(rows) > 3 else ""
    return f"{len(rows):,}{' or more' if len(rows) == AT_ONCE else ''} runs ({names}{more}) are"

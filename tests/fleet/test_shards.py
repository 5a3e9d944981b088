"""A fleet on several databases: where runs are, what spans them, and how the list of databases changes."""

from __future__ import annotations

import asyncio

import asyncpg
import fleet_flows as flows
import pytest
from shard_databases import Databases
from test_worker import until

from weft import AsyncClient, Client
from weft.errors import (
    InvalidStoreOption,
    RunExists,
    RunNotFound,
    ShardsChanged,
    StoreUnavailable,
)
from weft.fleet.placement import ALONE, JOINING, Generations
from weft.ports.queue import Placement
from weft.stores import PostgresStore
from weft.testing.contracts.cases import first

NOWHERE = "postgresql://weft:secret@127.0.0.1:1/none"


ALL = (0, 1, 2)


def test_each_run_is_in_one_database_and_lists_span_them(shards: Databases) -> None:
    names = [f"order-{i}" for i in range(60)]

    async def act(client: AsyncClient) -> None:
        await client.start_many(flows.chain, range(50), ids=names[:50])
        for x, name in enumerate(names[50:], 50):
            await client.start(flows.chain, x, id=name)
        with pytest.raises(RunExists, match="with another input"):
            await client.start(flows.chain, 7, id="order-1")
        assert (await client.start(flows.chain, 1, id="order-1")).id == "order-1"

        parts = [await shards.ids(number) for number in ALL]
        assert all(parts)  # how many go where is chance: the ids of the databases are drawn
        assert sum(len(part) for part in parts) == 60
        assert await client.count() == 60
        assert await client.tally() == {("chain", "running"): 60}
        assert await client.queue_depth() == 60
        ((queue,),) = [await client.queues()]
        assert (queue.queue, queue.waiting) == ("default", 60)
        found = [await client.find(name) for name in names]
        assert [record.id for record in found] == names
        with pytest.raises(RunNotFound, match="order-60"):
            await client.find("order-60")

        pages, last = [], None
        while page := await client.runs(limit=7, after=last):
            pages.append(page)
            last = page[-1]
        listed = [record for page in pages for record in page]
        assert listed == sorted(found, key=lambda record: (record.created_at, record.id), reverse=True)
        assert [len(page) for page in pages] == [7] * 8 + [4]

    shards.on(ALL, act)


def test_the_order_and_the_spelling_of_the_addresses_do_not_matter(shards: Databases) -> None:
    async def start(client: AsyncClient) -> None:
        await client.start_many(flows.chain, range(20), ids=[f"order-{i}" for i in range(20)])

    shards.on(ALL, start)
    separator = "&" if "?" in shards.dsns[0] else "?"
    shards._replace(dsns=[f"{dsn}{separator}application_name=x" for dsn in reversed(shards.dsns)]).on(ALL, start)

    assert shards.on(ALL, lambda client: client.count()) == 20


def test_a_new_database_moves_nothing_and_no_id_is_started_twice(shards: Databases) -> None:
    names = [f"order-{i}" for i in range(60)]

    async def before(client: AsyncClient) -> None:
        await client.start_many(flows.chain, range(60), ids=names)

    async def after(client: AsyncClient) -> list[str]:
        assert await client.count() == 60
        assert {(await client.find(name)).id for name in names} == set(names)
        await client.start_many(flows.chain, range(60), ids=names)
        for name in names:
            await client.signal(name, "any")
        assert await client.count() == 60
        more = [f"more-{i}" for i in range(60)]
        await client.start_many(flows.chain, range(60), ids=more)
        assert {(await client.find(name)).id for name in more} == set(more)
        return more

    shards.on((0, 1), before)
    parts = [asyncio.run(shards.ids(number)) for number in (0, 1)]
    more = shards.on(ALL, after)
    later = [asyncio.run(shards.ids(number)) for number in ALL]

    assert [part & set(names) for part in later] == [*parts, set()]
    assert 0 < len(later[2]) < 60  # where each goes depends on the ids of the databases, which are drawn
    assert set.union(*later) == {*names, *more}
    assert {asyncio.run(shards.shard(number)).fence[:2] for number in ALL} == {"2:"}


def test_a_database_that_had_runs_is_asked_for_every_id(shards: Databases) -> None:
    """Clients of one database have used two of them, before they were one fleet."""
    names = [f"order-{i}" for i in range(20)]

    async def alone(number: int, ids: list[str]) -> None:
        async with shards.alone(number) as client:
            await client.start_many(flows.chain, range(len(ids)), ids=ids)

    async def together(client: AsyncClient) -> None:
        await client.start_many(flows.chain, range(10), ids=names[:10])
        await client.start_many(flows.chain, range(10), ids=names[10:])
        assert await client.count() == 20

    asyncio.run(alone(0, names[:10]))
    asyncio.run(alone(1, names[10:]))
    shards.on(ALL, together)

    assert [asyncio.run(shards.ids(number)) for number in ALL] == [set(names[:10]), set(names[10:]), set()]


def test_a_client_with_an_outdated_list_starts_nothing(shards: Databases) -> None:
    async def main() -> None:
        async with asyncio.timeout(120), shards.alone(0) as alone, shards.client(0) as one:
            await one.start(flows.chain, 1, id="first")
            with pytest.raises(ShardsChanged, match="one of 1 databases"):
                await alone.start(flows.chain, 1, id="second")
            async with shards.client(0, 1) as two:
                for client in (alone, one):
                    with pytest.raises(ShardsChanged, match="is one of 2 databases"):
                        await client.start(flows.chain, 2, id="second")
                    with pytest.raises(ShardsChanged, match="is one of 2 databases"):
                        await client.schedule("nightly", "chain", every=60, input=1)
                assert (await one.find("first")).id == "first"
                await two.start(flows.chain, 2, id="second")
                await shards.agree(*ALL)
                with pytest.raises(ShardsChanged, match="is one of 3 databases"):
                    await two.start_many(flows.chain, range(30))
        for outdated in (shards.alone(0), shards.client(0), shards.client(1, 2)):
            with pytest.raises(ShardsChanged, match=r"pass the addresses of all databases of the fleet"):
                await outdated.open()
            await outdated.close()

    asyncio.run(main())


def test_a_client_that_is_refused_as_it_is_entered_leaves_no_connection(shards: Databases) -> None:
    asyncio.run(shards.agree(0, 1))

    async def main() -> None:
        refused = shards.alone(0)
        with pytest.raises(ShardsChanged):
            await refused.__aenter__()
        assert not refused._store.is_open

    asyncio.run(main())
    blocking = Client(shards.dsns[0], schema=shards.schema)
    with pytest.raises(ShardsChanged):
        blocking.__enter__()
    assert not blocking._inner._store.is_open


def test_a_change_of_the_list_waits_for_a_start_and_then_sees_it(shards: Databases) -> None:
    async def main() -> None:
        async with asyncio.timeout(120), shards.store(0) as old:
            await shards.agree(0)
            old.fence = (await old.read_shard()).fence
            statement, values = old.enqueueing(first("order-7", release=True), Placement())
            db = await asyncpg.connect(shards.dsns[0])
            async with db.transaction():
                assert (await db.fetchrow(statement, *values))[0]
                changing = asyncio.create_task(shards.agree(*ALL))
                await until(lambda: db.fetchval(WAITS))
                assert not changing.done()
            await changing
            again = await db.fetchrow(statement, *values)
            await db.close()
            store = shards.sharded()
            await store.open()
            (answer,) = await store.enqueue([first("order-7", release=True, at=9.0)], Placement())
            await store.close()

        assert not again[0]
        assert isinstance(answer, RunExists)

    asyncio.run(main())


WAITS = """
select exists (
    select from pg_locks l join pg_database d on d.oid = l.database
    where not l.granted and d.datname = current_database()
)
"""


def test_a_change_that_was_broken_off_is_finished_by_the_next_client(shards: Databases) -> None:
    async def main() -> None:
        async with asyncio.timeout(120), shards.store(0) as a, shards.store(1) as b, shards.store(2) as new:
            await shards.agree(0, 1)
            stores = {(await store.read_shard()).id: store for store in (a, b, new)}
            one = Generations().grown((await a.read_shard()).shards)

            # It dies when the new database is joining: clients that know it alone are refused, others are not.
            assert not await new.join_shards(ALONE, JOINING)
            with pytest.raises(ShardsChanged):
                await shards.alone(2).__aenter__()
            await shards.agree(0, 1)

            # It dies when the first database has decided.
            two = one.grown(stores)
            assert await stores[one.first].record_shards(two.shards, two.fence, [one.fence])
            await shards.agree(*ALL)

            assert {(await store.read_shard()).fence for store in stores.values()} == {two.fence}

    asyncio.run(main())


def test_of_two_changes_at_once_one_is_refused(shards: Databases) -> None:
    async def main() -> None:
        async with asyncio.timeout(120):
            await shards.agree(0)
            answers = await asyncio.gather(shards.agree(0, 1), shards.agree(0, 2), return_exceptions=True)
            refused = [each for each in answers if each is not None]
            assert len(refused) == 1
            assert isinstance(refused[0], ShardsChanged)
            await shards.agree(*ALL)

            assert len({(await shards.shard(number)).fence for number in ALL}) == 1

    asyncio.run(main())


def test_a_database_that_is_down_stops_only_what_is_in_it(shards: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"order-{i}" for i in range(30)]
    shards.on(ALL, lambda client: client.start_many(flows.chain, range(30), ids=names))
    up = asyncio.run(shards.ids(0)) | asyncio.run(shards.ids(1))

    async def main() -> None:
        down = PostgresStore(NOWHERE, schema=shards.schema)
        store = shards.sharded(shards.store(0), down, shards.store(1))
        async with asyncio.timeout(120):
            await store.open()
            try:
                for name in names:
                    if name in up:
                        assert (await store.find(name)).id == name
                    else:
                        with pytest.raises(StoreUnavailable) as error:
                            await store.find(name)
                        assert "postgresql://weft@127.0.0.1:1/none" in str(error.value)
                        assert "secret" not in str(error.value)
                with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1"):
                    await store.count()

                monkeypatch.setattr(down, "_dsn", shards.dsns[2])  # it is back
                assert await store.count() == 30
                assert {(await store.find(name)).id for name in names} == set(names)
            finally:
                await store.close()

    asyncio.run(main())


def test_the_list_is_not_changed_while_a_database_is_down(shards: Databases) -> None:
    asyncio.run(shards.agree(0, 1))

    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1"):
        asyncio.run(shards._replace(dsns=[*shards.dsns[:2], NOWHERE]).agree(*ALL))

    assert asyncio.run(shards.shard(0)).fence.startswith("1:")


def test_one_database_is_not_named_twice(shards: Databases) -> None:
    with pytest.raises(InvalidStoreOption, match="are one database, or one is a copy of the other"):
        asyncio.run(shards.agree(0, 0))
    with pytest.raises(InvalidStoreOption, match="needs a database"):
        AsyncClient([])


def test_a_schedule_is_in_one_database_and_stays_there(shards: Databases) -> None:
    names = [f"nightly-{i}" for i in range(12)]

    async def declare(client: AsyncClient) -> None:
        for name in names:
            await client.schedule(name, "chain", every=3600, input=1)
        assert [each.name for each in await client.schedules()] == sorted(names)
        await client.pause(names[0])

    async def again(client: AsyncClient) -> None:
        await declare(client)
        await client.unschedule(names[1])
        assert len(await client.schedules()) == 11

    async def rows(number: int) -> int:
        async with shards.store(number) as store:
            return len(await store.list_schedules())

    shards.on((0, 1), declare)
    counts = [asyncio.run(rows(number)) for number in ALL]
    shards.on(ALL, again)

    assert sum(counts) == 12
    assert counts[2] == 0
    later = [asyncio.run(rows(number)) for number in ALL]
    assert (sum(later), later[2]) == (11, 0)

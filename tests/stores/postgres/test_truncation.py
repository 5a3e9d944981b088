"""Logs on PostgreSQL whose beginning is removed: by a runner, and by one that dies before it has removed everything."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from postgres_stores import ask, inside

from weft import Runner, Workflow, accumulator
from weft.errors import HistoryTruncated
from weft.events import LogTruncated
from weft.ports.store import Segment
from weft.stores import PostgresStore
from weft.stores.postgres import commands
from weft.testing.contracts.cases import first, more, write


def add(total: int, x: int) -> int:
    """Return the sum."""
    return total + x


SUMS = Workflow("sums", accumulator(add, init=0, name="sums"))


def test_what_a_process_that_died_has_not_removed_is_not_read(
    dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = commands.remove_truncated

    async def dies(*_: Any) -> bool:
        raise ConnectionResetError

    async def main(store: PostgresStore) -> None:
        await write(store, first("r", b"abc", count=3), more("r", 3, b"d"), more("r", 4, b"e", snapshot=b"five"))
        monkeypatch.setattr(commands, "remove_truncated", dies)
        with pytest.raises(Exception, match="ConnectionResetError"):
            await store.truncate_before("r", 5, link=b"link 4", expected=5, epoch=1)

        left = [Segment(5, 1, b"e")]
        assert list((await store.load("r")).segments) == left
        assert list((await store.load_since("r", 2)).segments) == left
        assert list(await store.load_between("r", 1, 5)) == left
        assert list(await store.load_between("r", 1, 4)) == []
        count = "select count(*) from weft_events"
        assert (await ask(store, count))[0][0] == 3

        monkeypatch.setattr(commands, "remove_truncated", remove)
        await store.truncate_before("r", 5, link=b"link 4", expected=5, epoch=1)
        assert (await ask(store, count))[0][0] == 1

    inside(PostgresStore(dsn, schema=schema), main)


def test_segments_are_removed_in_slices(dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_REMOVED_AT_ONCE", 2)

    async def main(store: PostgresStore) -> None:
        await write(store, first("r", b"0"), *(more("r", number, b"x") for number in range(1, 6)))
        await write(store, first("other", b"1"), more("r", 6, b"x", snapshot=b"seven"))
        await store.truncate_before("r", 7, link=b"link 6", expected=7, epoch=1)

        rows = await ask(store, "select r.id, e.first from weft_events e join weft_runs r on r.key = e.run order by 1")
        assert [tuple(row) for row in rows] == [("other", 1), ("r", 7)]

    inside(PostgresStore(dsn, schema=schema), main)


def test_a_truncated_run_goes_on_in_another_runner(dsn: str, schema: str) -> None:
    with Runner(PostgresStore(dsn, schema=schema), snapshot_every=5, executor="inline") as runner:
        run = runner.start(SUMS, id="r")
        for number in range(10):
            run.send(number)
        run.wait(30)
        removed = runner.truncate("r")

        assert removed > 0

    with Runner(PostgresStore(dsn, schema=schema), executor="inline") as runner:
        run = runner.resume("r", workflow=SUMS)
        assert runner.log("r")[0] == LogTruncated(removed)
        run.send(100)

        assert run.wait(30).state_of("sums") == 145
        with pytest.raises(HistoryTruncated):
            runner.fork("r", "other", at=2)

    async def found(store: PostgresStore) -> int:
        return (await store.find("r")).first

    assert inside(PostgresStore(dsn, schema=schema), found) == removed + 1


def test_a_truncation_that_meets_an_append_is_refused_or_comes_first(dsn: str, schema: str) -> None:
    """Both are compare-and-set on the same row: whichever comes second sees what the first has left."""

    async def main(store: PostgresStore) -> None:
        await write(store, first("r", b"a"), more("r", 1, b"b", snapshot=b"two"))
        answers = await asyncio.gather(
            store.append([more("r", 2, b"c")]),
            store.truncate_before("r", 3, link=b"link 2", expected=2, epoch=1),
            return_exceptions=True,
        )
        loaded = await store.load("r")

        assert answers[0] == [None]
        assert [each.body for each in loaded.segments] == ([b"c"] if answers[1] is None else [b"a", b"b", b"c"])

    inside(PostgresStore(dsn, schema=schema), main)

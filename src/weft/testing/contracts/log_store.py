"""The contract of stores for logs that grow."""

from __future__ import annotations

import asyncio

import pytest

from weft.errors import (
    BrokenChain,
    ConcurrentAppend,
    MissingContent,
    OwnershipLost,
    RunExists,
    RunNotFound,
    StoreClosed,
)
from weft.ports.store import FIRST_EPOCH, LoadedRun, LogStore, RunRecord, Segment
from weft.testing.contracts.cases import (
    again,
    bodies,
    first,
    is_there,
    more,
    opened,
    skip_unless_grouped,
    unowned,
    write,
)
from weft.testing.contracts.run_outcome import RunOutcomeContract


class LogStoreContract(RunOutcomeContract):
    """The contract of logs that grow."""

    @opened
    async def test_events_come_back_in_the_order_in_which_they_were_appended(self, store: LogStore) -> None:
        await write(store, first("r", b"a"))
        await write(store, more("r", 1, b"bcd", count=3))
        await write(store, more("r", 4, b"e"))

        loaded = await store.load("r")

        assert list(loaded.segments) == [Segment(1, 1, b"a"), Segment(2, 3, b"bcd"), Segment(5, 1, b"e")]
        assert loaded.record.head == 5

    @pytest.mark.parametrize(
        ("position", "expected"),
        [(0, [b"a", b"bcd", b"e"]), (1, [b"bcd", b"e"]), (2, [b"bcd", b"e"]), (4, [b"e"]), (5, []), (99, [])],
    )
    @opened
    async def test_a_log_is_read_on_from_a_position(
        self, store: LogStore, position: int, expected: list[bytes]
    ) -> None:
        await write(store, first("q", b"x"), first("r", b"a"), first("s", b"z"))
        await write(store, more("r", 1, b"bcd", count=3), more("q", 1, b"y"))
        await write(store, more("r", 4, b"e"))

        assert bodies(await store.load_since("r", position)) == expected

    @opened
    async def test_many_logs_are_read_at_once(self, store: LogStore) -> None:
        names = [f"r{i}" for i in range(70)]
        await write(store, *(first(name, name.encode()) for name in names))
        await write(store, *(more(name, 1, b"2" + name.encode(), count=3) for name in names[:40]))

        found = await store.load_many(names)

        assert list(found) == names
        assert [found[name] for name in names] == [await store.load(name) for name in names]
        assert dict(await store.load_many([])) == {}

    @opened
    async def test_of_many_logs_those_that_are_not_there_are_told_apart(self, store: LogStore) -> None:
        await write(store, first("a"), first("b"))

        found = await store.load_many(["a", "nope", "b", "a"])

        assert [type(found[run]) for run in ("a", "nope", "b")] == [LoadedRun, RunNotFound, LoadedRun]
        assert len(found) == 3

    @opened
    async def test_the_record_tells_where_the_run_stands(self, store: LogStore) -> None:
        await write(store, first("r", version="v1", chain=b"h1", at=1.0))
        await write(store, more("r", 1, chain=b"h2", at=3.0, status="parked", reason="poison", version="v2"))

        record = (await store.load("r")).record

        assert unowned(record) == RunRecord(
            id="r",
            workflow="orders",
            version="v2",
            status="parked",
            reason="poison",
            head=2,
            chain=b"h2",
            created_at=1.0,
            updated_at=3.0,
        )

    @opened
    async def test_what_an_append_does_not_say_stays_as_it_was(self, store: LogStore) -> None:
        await write(store, first("r", version="v1", status="parked", reason="why"))
        await write(store, more("r", 1))

        record = (await store.load("r")).record

        assert (record.status, record.reason, record.workflow, record.version) == ("parked", "why", "orders", "v1")

    @opened
    async def test_a_new_status_brings_its_own_reason(self, store: LogStore) -> None:
        await write(store, first("r", status="parked", reason="why"))
        await write(store, more("r", 1, status="running"))

        record = (await store.load("r")).record

        assert (record.status, record.reason) == ("running", "")

    @opened
    async def test_an_append_without_events_changes_the_record_alone(self, store: LogStore) -> None:
        await write(store, first("r", b"a", chain=b"h"))
        await write(store, more("r", 1, b"", count=0, chain=b"other", status="waiting"))

        loaded = await store.load("r")

        assert (loaded.record.status, loaded.record.head, loaded.record.chain) == ("waiting", 1, b"h")
        assert bodies(loaded) == [b"a"]

    @opened
    async def test_what_is_refused_leaves_the_batch_and_the_others_are_written(self, store: LogStore) -> None:
        await write(store, first("a"), first("b"), first("c"), first("d"))

        results = await store.append(
            [
                more("a", 1, b"written"),
                more("nope", 1),
                more("b", 7),
                more("c", 1, epoch=9),
                first("d", b"again"),
                first("e", b"new"),
            ]
        )

        kinds = [type(each) for each in results]
        assert kinds == [type(None), RunNotFound, ConcurrentAppend, OwnershipLost, RunExists, type(None)]
        found = {run: bodies(await store.load(run)) for run in "abcde"}
        assert found == {"a": [b"1", b"written"], "b": [b"1"], "c": [b"1"], "d": [b"1"], "e": [b"new"]}

    @opened
    async def test_a_refusal_says_where_the_run_stands(self, store: LogStore) -> None:
        await write(store, first("r"), more("r", 1))

        head, epoch = await store.append([more("r", 1), more("r", 2, epoch=5)])

        assert isinstance(head, ConcurrentAppend)
        assert (head.run_id, head.expected, head.actual) == ("r", 1, 2)
        assert isinstance(epoch, OwnershipLost)
        assert (epoch.run_id, epoch.epoch, epoch.actual) == ("r", 5, FIRST_EPOCH)

    @opened
    async def test_events_that_follow_another_link_than_the_last_one_are_refused(self, store: LogStore) -> None:
        await write(store, first("r", b"a", chain=b"h1", previous=b""), first("s", b"x", chain=b"i1"))
        await write(store, more("r", 1, b"b", chain=b"h2", previous=b"h1"), more("s", 1, b"y", chain=b"i2"))

        results = await store.append(
            [
                more("r", 2, b"c", chain=b"h3", previous=b"h1", status="idle"),
                more("s", 2, b"z", chain=b"i3", previous=b"i2"),
            ]
        )
        (alone,) = await store.append([more("r", 2, b"c", chain=b"h3", previous=b"")])

        assert [type(each) for each in results] == [BrokenChain, type(None)]
        assert isinstance(alone, BrokenChain)
        assert (alone.run_id, alone.expected) == ("r", 2)
        loaded = await store.load("r")
        assert (bodies(loaded), loaded.record.chain, loaded.record.status) == ([b"a", b"b"], b"h2", "running")
        assert bodies(await store.load("s")) == [b"x", b"y", b"z"]

    @opened
    async def test_a_change_of_the_record_alone_is_refused_after_another_link(self, store: LogStore) -> None:
        await write(store, first("r", b"a", chain=b"h1"))

        (refused,) = await store.append([more("r", 1, b"", count=0, previous=b"h0", status="idle")])
        (taken,) = await store.append([more("r", 1, b"", count=0, previous=b"h1", status="waiting")])

        assert isinstance(refused, BrokenChain)
        assert taken is None
        assert (await store.load("r")).record.status == "waiting"

    @opened
    async def test_a_log_without_events_ends_in_the_empty_link(self, store: LogStore) -> None:
        await write(store, *(first(run, b"", count=0, chain=b"", previous=b"") for run in "rs"))

        results = await store.append(
            [
                more("r", 0, b"a", chain=b"h1", previous=b"h0"),
                more("s", 0, b"", count=0, previous=b"h0", status="idle"),
                more("s", 0, b"", count=0, previous=b"", status="waiting"),
                more("s", 0, b"a", chain=b"h1", previous=b""),
                more("s", 1, b"b", chain=b"h2", previous=b"h1"),
            ]
        )

        assert [type(each) for each in results] == [BrokenChain, BrokenChain, type(None), type(None), type(None)]
        assert bodies(await store.load("r")) == []
        assert bodies(await store.load("s")) == [b"a", b"b"]

    @opened
    async def test_several_appends_in_one_batch_follow_one_another_by_their_links(self, store: LogStore) -> None:
        await write(
            store,
            first("r", b"a", chain=b"h1", previous=b""),
            more("r", 1, b"b", chain=b"h2", previous=b"h1"),
            more("r", 2, b"c", chain=b"h3", previous=b"h2", status="idle"),
        )

        assert (await store.load("r")).record.chain == b"h3"

    @opened
    async def test_what_was_written_in_doubt_is_found_whatever_it_followed(self, store: LogStore) -> None:
        batch = [
            first("r", b"a", chain=b"h1", previous=b""),
            more("r", 1, b"b", chain=b"h2", previous=b"h1"),
            more("r", 2, b"", count=0, chain=b"h2", previous=b"h2", status="waiting"),
            more("r", 2, b"c", chain=b"h3", previous=b"h2"),
        ]
        await write(store, *batch)

        await write(store, *(again(each) for each in batch))

        assert bodies(await store.load("r")) == [b"a", b"b", b"c"]

    @opened
    async def test_what_was_not_written_in_doubt_must_follow_the_last_link(self, store: LogStore) -> None:
        await write(store, first("r", b"a", chain=b"h1"))

        (refused,) = await store.append([again(more("r", 1, b"b", chain=b"h2", previous=b"h0"))])

        assert isinstance(refused, BrokenChain)

    @opened
    async def test_what_is_refused_leaves_no_trace(self, store: LogStore) -> None:
        await write(store, first("r", b"a", chain=b"h"))
        before = await store.load("r")

        (refused,) = await store.append(
            [more("r", 5, b"x", status="failed", reason="no", version="v9", release=True, definitions={b"d": b"D"})]
        )

        assert isinstance(refused, ConcurrentAppend)
        assert await store.load("r") == before
        with pytest.raises(MissingContent):
            await store.load_definitions([b"d"])

    @opened
    async def test_an_id_is_created_once(self, store: LogStore) -> None:
        await write(store, first("r", b"mine"))

        results = await asyncio.gather(*(store.append([first("r", b"theirs")]) for _ in range(5)))

        assert [type(each) for (each,) in results] == [RunExists] * 5
        assert bodies(await store.load("r")) == [b"mine"]

    @opened
    async def test_of_many_who_create_an_id_at_once_one_does(self, store: LogStore) -> None:
        results = await asyncio.gather(*(store.append([first("r", b"%d" % i)]) for i in range(10)))

        assert sum(each is None for (each,) in results) == 1
        assert len((await store.load("r")).segments) == 1

    @opened
    async def test_of_many_who_append_at_one_position_one_does(self, store: LogStore) -> None:
        await write(store, first("r"))

        results = await asyncio.gather(*(store.append([more("r", 1, b"%d" % i)]) for i in range(10)))

        winners = [b"%d" % i for i, (each,) in enumerate(results) if each is None]
        assert len(winners) == 1
        assert bodies(await store.load("r")) == [b"1", *winners]

    @opened
    async def test_writers_to_different_runs_are_independent(self, store: LogStore) -> None:
        async def life(run: str) -> None:
            await write(store, first(run, run.encode()))
            for position in range(1, 5):
                await write(store, more(run, position, b"%s %d" % (run.encode(), position)))

        await asyncio.gather(*(life(f"r{i}") for i in range(40)))

        for i in range(40):
            run = b"r%d" % i
            expected = [run, *(b"%s %d" % (run, position) for position in range(1, 5))]
            assert bodies(await store.load(run.decode())) == expected

    @opened
    async def test_a_batch_of_hundreds_is_written_whole(self, store: LogStore) -> None:
        names = [f"r{i}" for i in range(333)]
        await write(store, *(first(name, name.encode()) for name in names))
        await write(store, *(more(name, 1, b"2" + name.encode()) for name in names))

        results = await store.append([more(name, 1 if i == 200 else 2, b"3") for i, name in enumerate(names)])

        assert [i for i, each in enumerate(results) if each is not None] == [200]
        for i, name in enumerate(names):
            third = [] if i == 200 else [b"3"]
            assert bodies(await store.load(name)) == [name.encode(), b"2" + name.encode(), *third]

    @opened
    async def test_several_appends_to_one_run_are_taken_in_their_order(self, store: LogStore) -> None:
        await write(store, first("r", b"a"), more("r", 1, b"b", status="idle"), more("r", 2, b"c"), more("r", 3, b"d"))

        loaded = await store.load("r")

        assert bodies(loaded) == [b"a", b"b", b"c", b"d"]
        assert (loaded.record.status, loaded.record.head) == ("idle", 4)

    @opened
    async def test_what_was_written_in_doubt_may_be_written_again(self, store: LogStore) -> None:
        batch = [
            first("r", b"a"),
            more("r", 1, b"b", status="idle"),
            more("r", 2, b"", count=0, chain=b"cb", status="waiting"),
            more("r", 2, b"c"),
        ]
        await write(store, *batch)
        before = await store.load("r")

        await write(store, *(again(each) for each in batch))

        assert await store.load("r") == before

    @opened
    async def test_what_was_created_and_given_up_in_doubt_may_be_written_again(self, store: LogStore) -> None:
        batch = [first("r", b"a"), more("r", 1, b"b", status="completed", release=True)]
        await write(store, *batch)

        await write(store, *(again(each) for each in batch))

        assert bodies(await store.load("r")) == [b"a", b"b"]

    @opened
    async def test_what_was_not_written_is_written_again(self, store: LogStore) -> None:
        await write(store, again(first("r", b"a")), again(more("r", 1, b"b")))

        assert bodies(await store.load("r")) == [b"a", b"b"]

    @opened
    async def test_again_means_the_very_same(self, store: LogStore) -> None:
        await write(store, first("r", b"a"), more("r", 1, b"b"))

        results = await store.append([again(first("r", b"x")), again(more("r", 1, b"x")), again(more("r", 1, b"b"))])

        assert [type(each) for each in results] == [RunExists, ConcurrentAppend, type(None)]

    @opened
    async def test_an_empty_batch_is_nothing(self, store: LogStore) -> None:
        assert list(await store.append([])) == []

    @opened
    async def test_definitions_are_kept_once(self, store: LogStore) -> None:
        await write(store, first("a", definitions={b"h1": b"one", b"h2": b"two"}))
        await write(store, first("b", definitions={b"h1": b"other", b"h3": b"three"}))

        found = await store.load_definitions([b"h1", b"h3"])

        assert dict(found) == {b"h1": b"one", b"h3": b"three"}

    @opened
    async def test_a_definition_that_was_never_stored_is_an_error(self, store: LogStore) -> None:
        with pytest.raises(MissingContent, match="definition ff"):
            await store.load_definitions([b"\xff"])

    @opened
    async def test_who_reads_on_from_an_unknown_run_is_told(self, store: LogStore) -> None:
        with pytest.raises(RunNotFound):
            await store.load_since("nope", 3)

    @opened
    async def test_a_caller_that_goes_away_leaves_the_store_whole(self, store: LogStore) -> None:
        await write(store, first("r"))
        leaving = asyncio.ensure_future(store.append([more("r", 1, b"b"), first("s", b"b")]))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)

        head = (await store.load("r")).record.head
        (refused,) = await store.append([more("r", head, b"after")])

        # The batch may still be in flight when its caller leaves: it is written completely or not at all.
        assert refused is None or isinstance(refused, ConcurrentAppend)
        both = bodies(await store.load("r"))[1:2] == [b"b"], await is_there(store, "s")
        assert both in {(True, True), (False, False)}

    @opened
    async def test_appending_to_a_closed_store_says_so(self, store: LogStore) -> None:
        await store.close()

        with pytest.raises(StoreClosed):
            await store.append([first("r")])

    @opened
    async def test_a_group_of_appends_is_written_as_a_whole(self, store: LogStore) -> None:
        skip_unless_grouped(store)
        await write(store, first("old"))

        await write(store, more("old", 1, b"end", group="g"), first("new", b"begin", group="g"), first("other"))

        assert bodies(await store.load("old")) == [b"1", b"end"]
        assert bodies(await store.load("new")) == [b"begin"]

    @opened
    async def test_a_group_is_refused_as_a_whole_and_the_others_are_written(self, store: LogStore) -> None:
        skip_unless_grouped(store)
        await write(store, first("old"), first("new", b"was there"))

        refused = await store.append(
            [more("old", 1, b"end", group="g"), first("other"), first("new", b"begin", group="g")]
        )

        assert [type(error) for error in refused] == [RunExists, type(None), RunExists]
        assert bodies(await store.load("old")) == [b"1"]
        assert bodies(await store.load("new")) == [b"was there"]
        assert await is_there(store, "other")

    @opened
    async def test_a_group_that_is_repeated_is_written_once(self, store: LogStore) -> None:
        skip_unless_grouped(store)
        await write(store, first("old"))
        group = [more("old", 1, b"end", group="g"), first("new", b"begin", group="g")]
        await write(store, *group)

        await write(store, *(again(each) for each in group))

        assert bodies(await store.load("old")) == [b"1", b"end"]

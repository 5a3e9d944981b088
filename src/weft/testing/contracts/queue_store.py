"""The contract of stores whose runs many workers claim."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol

import pytest

from weft.errors import InvalidAppend, OwnershipLost, RunExists
from weft.ports.queue import Placement, QueueStore
from weft.ports.store import Append, InboxStore, ListableStore, LogStore, OwnedStore, RunRecord
from weft.testing.contracts.cases import again, first, more, opened, write
from weft.testing.contracts.inbox_store import message

KNOWN = [("orders", "v1")]


class QueuedLogStore(LogStore, OwnedStore, ListableStore, InboxStore, QueueStore, Protocol):
    """The store that the contract of queues tests."""


def new(run: str, **given: Any) -> Append:
    """Return the append that creates a run that no process owns."""
    settings: dict[str, Any] = {"version": "v1", "release": True, **given}
    return first(run, **settings)


async def claimed(store: QueueStore, limit: int = 100, *queues: str) -> list[str]:
    """Claim runs, and return their ids."""
    return [each.id for each in await store.claim(limit, queues=queues or ["default"], workflows=KNOWN)]


class QueueStoreContract:
    """The contract of a queue, with two owners on the same data."""

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    @pytest.fixture
    def another(self) -> Any:
        """Return another store on the same data, not opened."""
        raise NotImplementedError("override the fixture `another`: return a store on the same data, not opened")

    async def crash(self, store: Any) -> None:
        """Leave *store* as the death of its process does, for longer than its lease."""
        raise NotImplementedError("override `crash`")

    @opened
    async def test_a_run_that_is_put_into_the_queue_belongs_to_no_process(self, store: QueuedLogStore) -> None:
        assert list(await store.enqueue([new("a"), new("b")], Placement())) == [None, None]

        assert (await store.find("a")).owner is None
        assert await store.queue_depth() == 2
        assert list(await store.enqueue([], Placement())) == []

    @opened
    async def test_an_id_that_is_taken_is_refused_and_the_others_are_created(self, store: QueuedLogStore) -> None:
        await store.enqueue([new("a")], Placement())

        refused, created = await store.enqueue([new("a"), new("b")], Placement())

        assert isinstance(refused, RunExists)
        assert created is None

    @opened
    async def test_an_attempt_in_doubt_creates_a_run_once(self, store: QueuedLogStore) -> None:
        await store.enqueue([new("a")], Placement())

        assert list(await store.enqueue([again(new("a"))], Placement())) == [None]
        assert await store.queue_depth() == 1

    @opened
    async def test_only_new_and_free_runs_are_put_into_the_queue(self, store: QueuedLogStore) -> None:
        with pytest.raises(InvalidAppend, match="create and release"):
            await store.enqueue([first("a")], Placement())

    @opened
    async def test_a_claim_owns_runs_in_a_new_epoch_and_no_other_has_them(
        self, store: QueuedLogStore, another: QueuedLogStore
    ) -> None:
        await store.enqueue([new("a"), new("b")], Placement())

        (record,) = await store.claim(1, queues=["default"], workflows=KNOWN)
        rest = await claimed(another)

        assert isinstance(record, RunRecord)
        assert (record.id, record.epoch, record.head, record.died_in) == ("a", 2, 1, None)
        assert record.owner is not None
        assert rest == ["b"]
        assert await claimed(store) == await claimed(another) == []

    @opened
    async def test_the_order_is_priority_then_due_time_then_creation(self, store: QueuedLogStore) -> None:
        await store.enqueue([new("low")], Placement(priority=-1))
        await store.enqueue([new("late")], Placement(scheduled_at=20.0))
        await store.enqueue([new("early 1"), new("early 2")], Placement(scheduled_at=10.0))
        await store.enqueue([new("high")], Placement(priority=7))

        assert await claimed(store) == ["high", "early 1", "early 2", "late", "low"]

    @opened
    async def test_a_limit_takes_the_most_urgent(self, store: QueuedLogStore) -> None:
        for number in range(6):
            await store.enqueue([new(f"r{number}")], Placement(priority=number))

        assert await claimed(store, 2) == ["r5", "r4"]
        assert await claimed(store, 100) == ["r3", "r2", "r1", "r0"]

    @opened
    async def test_a_run_that_is_due_later_is_left(self, store: QueuedLogStore) -> None:
        await store.enqueue([new("later")], Placement(scheduled_at=time.time() + 1000))
        await store.enqueue([new("now")], Placement())

        assert await claimed(store) == ["now"]
        assert await store.queue_depth() == 2

    @opened
    async def test_other_queues_workflows_and_versions_are_left(self, store: QueuedLogStore) -> None:
        await store.enqueue([new("elsewhere")], Placement("bulk"))
        await store.enqueue([new("unknown", workflow="invoices")], Placement())
        await store.enqueue([new("newer", version="v2")], Placement())

        assert await claimed(store) == []
        assert await claimed(store, 100, "default", "bulk") == ["elsewhere"]
        assert await store.queue_depth() == 3
        assert await store.queue_depth("bulk") == 1

    @opened
    async def test_a_finished_run_leaves_the_queue(self, store: QueuedLogStore) -> None:
        await store.enqueue([new("a")], Placement())
        await claimed(store)

        await write(store, more("a", 1, epoch=2, status="completed", release=True))

        assert await store.queue_depth() == 0
        assert await claimed(store) == []

    @opened
    async def test_a_released_run_is_due_when_it_has_to_be_woken(
        self, store: QueuedLogStore, another: QueuedLogStore
    ) -> None:
        await store.enqueue([new(run) for run in ("soon", "later", "signal")], Placement())
        await claimed(store)
        await write(
            store,
            more("soon", 1, epoch=2, status="waiting", wake_at=5.0),
            more("later", 1, epoch=2, status="waiting", wake_at=time.time() + 1000),
            more("signal", 1, epoch=2, status="waiting"),
        )

        await store.release(["soon", "later", "signal"])

        assert await claimed(another) == ["soon"]
        assert await store.queue_depth() == 2

    @opened
    async def test_a_message_makes_a_run_due(self, store: QueuedLogStore, another: QueuedLogStore) -> None:
        await store.enqueue([new("a")], Placement())
        await claimed(store)
        await write(store, more("a", 1, epoch=2, status="waiting"))
        await store.release(["a"])
        assert await claimed(another) == []

        await another.post([message("a", b"yes")])

        assert await claimed(another) == ["a"]

    @opened
    async def test_a_parked_run_is_due_only_for_what_it_takes_while_it_is_parked(self, store: QueuedLogStore) -> None:
        await store.enqueue([new("a")], Placement())
        await claimed(store)
        await write(store, more("a", 1, epoch=2, status="parked", release=True))

        await store.post([message("a", b"1", kind="signal")])
        assert await claimed(store) == []
        await store.post([message("a", b"2", kind="cancel")])

        assert await claimed(store) == ["a"]

    @opened
    async def test_runs_of_a_closed_owner_are_free_at_once(
        self, store: QueuedLogStore, another: QueuedLogStore
    ) -> None:
        await store.enqueue([new("a")], Placement())
        await claimed(store)
        await store.close()

        (record,) = await another.claim(9, queues=["default"], workflows=KNOWN)

        assert (record.id, record.epoch, record.died_in) == ("a", 3, None)

    @opened
    async def test_runs_of_a_dead_owner_are_free_and_its_late_append_is_refused(
        self, store: QueuedLogStore, another: QueuedLogStore
    ) -> None:
        await store.enqueue([new("a")], Placement())
        await claimed(store)
        await self.crash(store)

        (record,) = await another.claim(9, queues=["default"], workflows=KNOWN)
        (refused,) = await another.append([more("a", 1, epoch=2)])

        assert (record.epoch, record.died_in) == (3, 2)
        assert isinstance(refused, OwnershipLost)

    @opened
    async def test_a_run_that_was_deferred_is_free_and_due_later(
        self, store: QueuedLogStore, another: QueuedLogStore
    ) -> None:
        await store.enqueue([new("a"), new("b"), new("c")], Placement())
        assert await claimed(store, 2) == ["a", "b"]

        await store.defer(["a", "c"], 1000.0)
        await store.defer(["b"], -1.0)

        assert sorted(await claimed(another)) == ["b", "c"]
        assert (await store.find("a")).owner is None

    @opened
    async def test_many_claimers_never_have_the_same_run(self, store: QueuedLogStore, another: QueuedLogStore) -> None:
        names = [f"r{number}" for number in range(300)]
        await store.enqueue([new(name) for name in names], Placement())
        taken: list[str] = []

        async def claim_all(owner: QueuedLogStore) -> None:
            while await store.queue_depth() and len(taken) < len(names):
                batch = await claimed(owner, 7)
                assert len(batch) <= 7
                taken.extend(batch)

        await asyncio.gather(*(claim_all(owner) for owner in (store, another) for _ in range(4)))

        assert sorted(taken) == sorted(names)

    @opened
    async def test_a_worker_hears_of_a_run_that_became_due_and_free(
        self, store: QueuedLogStore, another: QueuedLogStore
    ) -> None:
        rung = asyncio.Event()
        end = await another.watch_queue(rung.set)

        await store.enqueue([new("a")], Placement())
        await asyncio.wait_for(rung.wait(), 30)
        await claimed(store)
        rung.clear()
        await store.release(["a"])
        await asyncio.wait_for(rung.wait(), 30)

        end()

    @opened
    async def test_an_owner_of_nothing_is_sure(self, store: QueuedLogStore) -> None:
        assert store.is_sure
        await store.enqueue([new("a")], Placement())
        await claimed(store)
        assert store.is_sure

    @opened
    async def test_a_finished_run_that_gets_a_message_is_in_its_queue_again(self, store: QueuedLogStore) -> None:
        await store.enqueue([new("a")], Placement("reports", 5))
        (record,) = await store.claim(1, queues=["reports"], workflows=KNOWN)
        await write(store, more("a", 1, epoch=record.epoch, status="failed", release=True))

        await store.post([message("a", b"retry")])

        assert await claimed(store, 10, "default") == []
        assert await claimed(store, 10, "reports") == ["a"]

    @opened
    async def test_a_flood_of_one_key_does_not_hold_up_the_others(self, store: QueuedLogStore) -> None:
        await store.enqueue([new(f"a{number:03}") for number in range(100)], Placement(key="a"))
        assert await claimed(store, 10) == [f"a{number:03}" for number in range(10)]

        await store.enqueue([new(f"b{number}") for number in range(5)], Placement(key="b"))
        await store.enqueue([new("c0")], Placement(key="c"))

        got = await claimed(store, 11)
        assert sorted(run[0] for run in got[:3]) == ["a", "b", "c"]
        assert [run for run in got if run[0] == "b"] == ["b0", "b1", "b2", "b3", "b4"]
        assert [run for run in got if run[0] == "a"] == ["a010", "a011", "a012", "a013", "a014"]
        assert await claimed(store, 100) == [f"a{number:03}" for number in range(15, 100)]

    @opened
    async def test_runs_with_a_key_and_those_without_alternate(self, store: QueuedLogStore) -> None:
        await store.enqueue([new(f"x{number}") for number in range(6)], Placement())
        await store.enqueue([new(f"a{number}") for number in range(6)], Placement(key="a"))
        await store.enqueue([new("urgent")], Placement(priority=1, key="a"))

        assert await claimed(store, 5) == ["urgent", "x0", "a0", "x1", "a1"]

    @opened
    async def test_a_run_that_comes_back_has_no_turn(self, store: QueuedLogStore) -> None:
        await store.enqueue([new(f"a{number}") for number in range(3)], Placement(key="a"))
        (first_run,) = await claimed(store, 1)
        await store.release([first_run])

        assert sorted(await claimed(store, 2)) == ["a0", "a1"]
        assert await claimed(store, 2) == ["a2"]

    @opened
    async def test_queues_say_how_many_wait_and_for_how_long(self, store: QueuedLogStore) -> None:
        await store.enqueue([new("a"), new("b")], Placement(key="k"))
        await store.enqueue([new("c")], Placement("mail", scheduled_at=time.time() + 900))
        await store.enqueue([new("d")], Placement("mail", scheduled_at=time.time() - 900))
        await claimed(store, 1)

        plain, mail = await store.queues()
        assert (plain.queue, plain.waiting, plain.later, plain.held, plain.keys) == ("default", 1, 0, 1, 1)
        assert (mail.queue, mail.waiting, mail.later, mail.held, mail.keys) == ("mail", 1, 1, 0, 0)
        assert mail.oldest > 800

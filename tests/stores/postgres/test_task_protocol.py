"""
The protocol of steps that any worker may run, on a real server beside a model of it.

Owners send and adopt, workers claim, finish, put back, die and speak late.  Whatever is drawn, an outcome counts if it
is that of the last claim, and it counts once: the append that has it removes the row.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from postgres_stores import die

from weft.ports.tasks import ClaimedTask, Task
from weft.stores import PostgresStore
from weft.testing.contracts.cases import first, more, write

KNOWN = [("orders", "v1")]
STEPS, WORKERS, DEATHS = 3, 2, 3
EXAMPLES = 60 if "WEFT_THOROUGH" in os.environ else 8

actions = st.one_of(
    st.tuples(st.just("send"), st.integers(0, STEPS - 1), st.booleans()),
    st.tuples(st.just("claim"), st.integers(0, WORKERS - 1), st.integers(1, STEPS)),
    st.tuples(st.sampled_from(["finish", "put back"]), st.integers(0, 20), st.none()),
    st.tuples(st.just("die"), st.integers(0, WORKERS - 1), st.none()),
    st.tuples(st.just("move"), st.none(), st.none()),
    st.tuples(st.just("append"), st.integers(0, STEPS - 1), st.none()),
    st.tuples(st.just("drop"), st.integers(0, STEPS - 1), st.none()),
)


@dataclass
class Row:
    """A step that is there, as it should be."""

    attempt: int
    state: str = "waiting"
    fence: int = 0
    worker: int | None = None
    deaths: int = 0
    outcome: bytes | None = None


@dataclass
class Model:
    """The rows, and what was said by whom."""

    rows: dict[int, Row] = field(default_factory=dict)
    keys: dict[int, int] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(STEPS), 1))
    claims: list[tuple[int, ClaimedTask]] = field(default_factory=list)
    """Every claim that there was: the step, and the claim."""
    counted: list[tuple[int, int, bytes]] = field(default_factory=list)
    """The step, its attempt, and the outcome, that an append had."""


class Fleet:
    """Owners and workers on one schema, of which the owners follow each other."""

    def __init__(self, dsn: str) -> None:
        self._dsn, self._schema = dsn, f"t {uuid.uuid4().hex}"
        self.model, self.epoch, self.head = Model(), 1, 1
        self.owner: PostgresStore
        self.past: PostgresStore | None = None
        self.workers: list[PostgresStore] = []

    async def opened(self) -> PostgresStore:
        """Return another store on the schema."""
        store = PostgresStore(self._dsn, schema=self._schema, lease=60.0)
        await store.open()
        return store

    async def open(self) -> None:
        self.owner = await self.opened()
        await write(self.owner, first("r"))
        self.workers = [await self.opened() for _ in range(WORKERS)]

    async def close(self) -> None:
        for each in [self.owner, *self.workers, *([self.past] if self.past else [])]:
            await each.close()

    def task(self, step: int, epoch: int) -> Task:
        body = b"%d %d" % (step, self.model.attempts[step])
        return Task("r", f"step {step}", self.model.attempts[step], epoch, "wide", 0, "orders", "v1", body)

    async def do(self, name: str, one: Any, two: Any) -> None:
        """Do what was drawn, in the database and in the model."""
        model = self.model
        match name:
            case "send":
                row = model.rows.get(one)
                if two and row is not None:
                    model.attempts[one] += 1
                    model.rows[one] = Row(model.attempts[one], fence=row.fence + 1)
                elif row is None:
                    model.rows[one] = Row(model.attempts[one])
                (sent,) = await self.owner.send_tasks([self.task(one, self.epoch)], {})
                model.keys[one] = sent.key
                if self.past is not None:  # which does not know that it has lost the run
                    assert list(await self.past.send_tasks([self.task(one, self.epoch - 1)], {})) == []
            case "claim":
                worker = self.workers[one]
                found = await worker.claim_tasks(two, queues=["wide"], workflows=KNOWN, deaths=DEATHS)
                self.claimed(one, two, list(found))
            case "finish" | "put back" if model.claims:
                step, claim = model.claims[one % len(model.claims)]
                said = b"outcome of claim %d" % claim.fence
                if name == "finish":
                    await self.workers[0].finish_tasks([(claim.key, claim.fence, said)])
                else:
                    await self.workers[0].put_back_tasks([(claim.key, claim.fence)])
                row = model.rows.get(step)
                is_last = row is not None and model.keys[step] == claim.key and row.fence == claim.fence
                if row is not None and is_last and row.state == "claimed":
                    row.worker = None
                    row.state, row.outcome = ("done", said) if name == "finish" else ("waiting", None)
            case "die":
                await die(self.workers[one])
                self.workers[one] = await self.opened()
                for row in model.rows.values():
                    if row.worker == one:
                        row.worker = -1
            case "move":
                if self.past is not None:
                    await self.past.close()
                await self.owner.release(["r"])
                self.past, self.owner = self.owner, await self.opened()
                self.epoch = (await self.owner.acquire("r")).epoch
                adopted = [self.task(step, self.epoch) for step in model.rows]
                assert len(await self.owner.send_tasks(adopted, {})) == len(adopted)
            case "append" if one in model.rows and model.rows[one].state == "done":
                await self.append(one)
            case "drop" if one in model.rows:
                await self.owner.drop_tasks([model.keys[one]])
                del model.rows[one]
                model.attempts[one] += 1
            case _:
                pass

    def claimed(self, worker: int, limit: int, found: list[ClaimedTask]) -> None:
        """Compare a claim with the model."""
        model = self.model
        free = {step: row for step, row in model.rows.items() if row.state == "waiting" or row.worker == -1}
        lost = [step for step, row in free.items() if row.worker == -1 and row.deaths + 1 >= DEATHS]
        by_key = {key: step for step, key in model.keys.items() if step in model.rows}
        assert len(found) == min(limit, len(free) - len(lost))
        for claim in found:
            step = by_key[claim.key]
            row = free.pop(step)
            assert claim.fence == row.fence + 1
            assert claim.body == b"%d %d" % (step, row.attempt)
            row.deaths += row.worker == -1
            row.state, row.fence, row.worker = "claimed", claim.fence, worker
            model.claims.append((step, claim))
        for step in lost:
            row = model.rows[step]
            row.state, row.worker, row.outcome = "done", None, None
            row.fence, row.deaths = row.fence + 1, row.deaths + 1

    async def append(self, step: int) -> None:
        """Let the log have an outcome, which removes the row; a past owner is refused and removes nothing."""
        row = self.model.rows[step]
        receipt = ((self.model.keys[step], row.fence),)
        if self.past is not None:
            (refused,) = await self.past.append([more("r", self.head, epoch=self.epoch - 1, tasks=receipt)])
            assert refused is not None
        await write(self.owner, more("r", self.head, epoch=self.epoch, tasks=receipt))
        self.head += 1
        self.model.counted.append((step, row.attempt, row.outcome or b"dead"))
        del self.model.rows[step]
        self.model.attempts[step] += 1

    async def check(self) -> None:
        """Compare all rows with the model."""
        model = self.model
        keys = {model.keys[step]: step for step in model.rows}
        news = {each.key: each for each in await self.owner.take_outcomes(list(keys))}
        for key, step in keys.items():
            row = model.rows[step]
            if row.state == "waiting":
                assert key not in news
            else:
                assert (news[key].state, news[key].fence, news[key].outcome) == (row.state, row.fence, row.outcome)
        assert len({(step, attempt) for step, attempt, _ in model.counted}) == len(model.counted)


@settings(max_examples=EXAMPLES)
@given(st.lists(actions, max_size=30))
def test_an_outcome_counts_once_and_only_by_its_last_claim(server_dsn: str, drawn: list[tuple[str, Any, Any]]) -> None:
    async def main() -> None:
        fleet = Fleet(server_dsn)
        async with asyncio.timeout(120):
            await fleet.open()
            try:
                for step in range(STEPS):
                    await fleet.do("send", step, False)
                for action in drawn:
                    await fleet.do(*action)
                    await fleet.check()
            finally:
                await fleet.close()

    asyncio.run(main())

"""Retries and discards of what failed in a run that another runner drives, or none: through its inbox, once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from weft import AsyncRunner, Policy, Runner, Workflow, join, step, wait_for
from weft.core import events as ev
from weft.errors import NoSuchLetter, RunClosed, RunNotHeld, StoreError, WrongArity
from weft.log.messages import encode_message
from weft.ports.store import Append, Message
from weft.stores import MemoryStore, SQLiteStore
from weft.testing.wrapping import FullStore


class Broken:
    """A function that fails until it is fixed, and counts its calls."""

    def __init__(self) -> None:
        self.is_broken, self.calls = True, 0

    def __call__(self, x: int) -> int:
        self.calls += 1
        if self.is_broken:
            raise ValueError(f"no {x}")
        return x * 2


def flow(work: Broken) -> Workflow:
    return Workflow("w", step(work, name="work") >> step(lambda x: x + 1, name="after"))


def asynchronously(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 120))


def two_stores(path: Path) -> tuple[SQLiteStore, SQLiteStore]:
    return SQLiteStore(path / "runs.db"), SQLiteStore(path / "runs.db")


def revisions(log: Sequence[ev.AnyEvent]) -> list[tuple[str, str | None]]:
    kinds = ev.RunRetried | ev.RunnableRetried | ev.RunnableSkipped
    return [(type(event).__name__, event.by) for event in log if isinstance(event, kinds)]


@pytest.mark.parametrize("which", ["all", "name", "failure"])
def test_a_halted_failure_of_a_run_of_another_runner_is_retried(tmp_path: Path, which: str) -> None:
    async def main() -> None:
        work = Broken()
        mine, theirs = two_stores(tmp_path)
        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            await owner.start(flow(work), 1, id="a", open=True)
            await owner.wait("a")
            failure = next(each for each in await other.log("a") if isinstance(each, ev.RunnableFailed))
            work.is_broken = False

            await other.retry("a", {"all": None, "name": "work", "failure": failure}[which], by="web")
            run = await owner.wait_until("a", lambda run: run.values("after") == [3])

            assert revisions(run.log()) == [("RunRetried", "web"), ("RunnableRetried", "web")]
            assert work.calls == 2
            assert list(await theirs.messages(["a"])) == []

    asynchronously(main)


def test_a_halted_failure_is_retried_with_another_input_and_policy(tmp_path: Path) -> None:
    async def main() -> None:
        mine, theirs = two_stores(tmp_path)
        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:

            def picky(x: int) -> int:
                if x < 5:
                    raise ValueError(f"no {x}")
                return x

            await owner.start(Workflow("w", step(picky)), 1, id="a", open=True)
            await owner.wait("a")

            await other.retry("a", input=7, policy=Policy(max_retries=1, base_delay=0.0))

            assert (await owner.wait_until("a", lambda run: bool(run.values("picky")))).value("picky") == 7

    asynchronously(main)


def test_dead_letters_of_a_run_of_another_runner_are_retried_and_discarded(tmp_path: Path) -> None:
    async def main() -> None:
        work = Broken()
        mine, theirs = two_stores(tmp_path)
        kept = flow(work).with_policies([("work", Policy(on_failure="dead_letter"))])
        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            await owner.start(kept, 1, id="a", open=True)
            await owner.wait("a")

            await other.discard("a", by="web")
            run = await owner.wait_until("a", lambda run: not run.dead_letters)
            assert revisions(run.log()) == [("RunnableSkipped", "web")]

            await owner.send("a", 2)
            await owner.wait("a")
            work.is_broken = False
            await other.retry("a", "work")
            assert (await owner.wait_until("a", lambda run: run.values("after") == [5])).dead_letters == []

    asynchronously(main)


def test_what_is_wrong_is_said_where_the_retry_is_sent(tmp_path: Path) -> None:
    async def main() -> None:
        mine, theirs = two_stores(tmp_path)
        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            pair = step(lambda a, b: a / b, name="pair")
            one, zero = step(lambda x: x, name="one"), step(lambda x: 0, name="zero")
            await owner.start(Workflow("w", [one, zero] >> pair), 1, id="a", open=True)
            await owner.wait("a")

            with pytest.raises(NoSuchLetter):
                await other.retry("a", "one")
            with pytest.raises(NoSuchLetter):
                await other.discard("a", "pair")
            with pytest.raises(WrongArity):
                await other.retry("a", input=5)
            with pytest.raises(RunNotHeld):
                await other.retry("a", context={"key": "never stored"})
            assert list(await theirs.messages(["a"])) == []

    asynchronously(main)


def test_a_run_that_no_runner_has_is_retried_when_it_is_resumed(tmp_path: Path) -> None:
    work = Broken()
    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner:
        runner.start(flow(work), 1, id="a", open=True).wait()
    work.is_broken = False

    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner:
        runner.retry("a")
        assert (runner.status("a"), work.calls) == ("idle", 1)
        runner.resume("a", workflow=flow(work))
        assert runner.wait("a").value("after") == 3
    assert work.calls == 2


def test_a_retry_that_is_stored_twice_happens_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        work = Broken()
        mine, theirs = two_stores(tmp_path)
        async with AsyncRunner(mine) as owner, theirs:
            await owner.start(flow(work), 1, id="a", open=True)
            await owner.wait("a")
            head = len(await owner.log("a"))
            for inputs in ((), (2,)):
                event = ev.RunnableRetried(head, "work" if inputs else "", inputs)
                await theirs.post([Message(run="a", kind="retry", body=encode_message(event), at=0.0)])
                await owner.wait_until("a", lambda run: len(revisions(run.log())) == 2)
                await owner.wait("a")

            while await theirs.messages(["a"]):  # noqa: ASYNC110 - a refusal is not an event
                await asyncio.sleep(0)
            assert work.calls == 2, "it has failed again, and that is another failure"
            assert len(revisions(await owner.log("a"))) == 2

    with caplog.at_level(logging.WARNING, "weft.runner"):
        asynchronously(main)
    assert "has refused a message (retry)" in caplog.text


def test_a_retry_that_crosses_the_end_of_the_run_is_not_lost(tmp_path: Path) -> None:
    """The run fails for good between the look of the sender at it and the message."""

    class Late(SQLiteStore):
        before: Callable[[], Coroutine[Any, Any, object]] | None = None

        async def post(self, messages: Sequence[Message]) -> Sequence[int | StoreError]:
            if self.before is not None:
                await self.before()
            return await super().post(messages)

    async def main() -> None:
        work = Broken()
        mine, theirs = SQLiteStore(tmp_path / "runs.db"), Late(tmp_path / "runs.db")
        other_runner = AsyncRunner(theirs)
        async with AsyncRunner(mine) as owner, other_runner as other:
            other.register(flow(work))
            await owner.start(flow(work), 1, id="a", open=True)
            await owner.wait("a")

            async def end() -> None:
                work.is_broken = False
                await owner.finish("a")
                await owner.wait("a")

            theirs.before = end
            handle = await other.retry("a")

            assert await handle.result() == 3
            assert work.calls == 2
            assert list(await theirs.messages(["a"])) == []

    asynchronously(main)


def test_the_result_after_a_retry_is_not_the_failure_that_is_retried(tmp_path: Path) -> None:
    """The run was reopened by its last owner, which has not written that yet when the sender asks for the result."""

    class Slow(SQLiteStore):
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            self.may_append, self.reopens = asyncio.Event(), asyncio.Event()
            self.may_append.set()

        async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
            if not self.may_append.is_set():
                self.reopens.set()
                await self.may_append.wait()
            return await super().append(batch)

    class Watching(SQLiteStore):
        after: Callable[[], Coroutine[Any, Any, object]] | None = None

        async def post(self, messages: Sequence[Message]) -> Sequence[int | StoreError]:
            answer = await super().post(messages)
            if self.after is not None:
                await self.after()
            return answer

    async def main() -> None:
        work = Broken()
        mine, theirs = Slow(tmp_path / "runs.db"), Watching(tmp_path / "runs.db")
        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            await owner.start(flow(work), 1, id="a", open=True)
            await owner.wait("a")

            retries = list[asyncio.Future[object]]()

            async def reopened() -> None:
                work.is_broken = False
                await owner.finish("a")
                await owner.wait("a")
                mine.may_append.clear()
                retries.append(asyncio.ensure_future(owner.retry("a")))
                await mine.reopens.wait()

            theirs.after = reopened
            handle = await other.retry("a")
            result = asyncio.ensure_future(handle.result())
            await other.status("a")  # the result is being asked for before this is answered
            await other.status("a")
            mine.may_append.set()

            assert await result == 3
            await asyncio.gather(*retries)

    asynchronously(main)


def test_a_retry_that_comes_while_the_end_of_the_run_is_written_is_not_lost() -> None:
    class Slow(MemoryStore):
        posted = False

        async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
            if any(each.release for each in batch) and not self.posted:
                self.posted = True
                event = ev.RunnableRetried(batch[0].expected, "", ())
                await self.post([Message(run="a", kind="retry", body=encode_message(event), at=0.0)])
            return await super().append(batch)

    async def main() -> None:
        work = Broken()
        store: FullStore = Slow()
        async with AsyncRunner(store) as runner:
            handle = await runner.start(flow(work), 1, id="a", open=True)
            await handle.wait()
            work.is_broken = False
            await runner.finish("a")

            while await runner.status("a") != "completed":  # noqa: ASYNC110 - it is failed for a moment
                await asyncio.sleep(0)
            assert (await runner.get("a")).value("after") == 3
            assert (work.calls, list(await store.messages(["a"]))) == (2, [])

    asynchronously(main)


def test_a_run_that_has_completed_is_not_retried(tmp_path: Path) -> None:
    async def main() -> None:
        mine, theirs = two_stores(tmp_path)
        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            await (await owner.start(Workflow("w", step(lambda x: x, name="same")), 1, id="a")).result()

            with pytest.raises(RunClosed):
                await other.retry("a")

    asynchronously(main)


def test_a_retry_from_elsewhere_wakes_a_run_that_waits_for_another_branch(tmp_path: Path) -> None:
    async def main() -> None:
        work = Broken()
        mine, theirs = two_stores(tmp_path)
        waits = Workflow("w", join(step(work, name="work"), wait_for("go")) >> step(lambda a, b: (a, b), name="both"))
        async with AsyncRunner(mine, resident=0) as owner, AsyncRunner(theirs) as other:
            handle = await owner.start(waits, 1, id="a")
            await owner.wait_until("a", lambda run: bool(run.failed))
            await other.wait_until("a", lambda run: run.status == "waiting")
            work.is_broken = False

            await other.retry("a")
            await other.wait_until("a", lambda run: bool(run.values("work")))
            await other.signal("a", "go", "now")

            assert await handle.result() == (2, "now")

    asynchronously(main)

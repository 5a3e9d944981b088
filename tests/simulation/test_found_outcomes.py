"""Defects of outcomes that the simulation has found in the runner, each as small as it gets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from weft import AsyncRunner, Policy, Run, Workflow, current, step
from weft.errors import RunClosed
from weft.policy import DEFAULT
from weft.stores import MemoryStore
from weft.testing import run_virtually
from weft.testing.wrapping import WrappedStore

T = TypeVar("T")

KEPT = Policy(on_failure="dead_letter")


def using(main: Callable[[AsyncRunner], Coroutine[Any, Any, T]], **options: Any) -> T:
    """Return what *main* makes of a runner in virtual time."""

    async def go() -> T:
        async with AsyncRunner(executor="inline", **options) as runner:
            return await main(runner)

    return run_virtually(go())


def fragile() -> tuple[Workflow, list[str]]:
    """Return a workflow whose step fails as long as the list is empty."""
    remedies: list[str] = []

    def work(x: int) -> int:
        if not remedies:
            raise ConnectionError("not yet")
        return x

    return Workflow("fragile", step(work)).add_policy("work", KEPT), remedies


async def late(x: int) -> int:
    """Return it, after a while."""
    await asyncio.sleep(5.0)
    return x


@pytest.mark.parametrize(("value", "status"), [(1, "completed"), (0, "failed")])
def test_a_run_that_finishes_while_its_runner_is_closed_is_stored_as_finished(value: int, status: str) -> None:
    """Its worker was being stopped, and did not look at its state any more: it was stored as idle."""

    async def main() -> tuple[str, str]:
        async with MemoryStore() as store:
            async with AsyncRunner(store, executor="inline", grace=60.0) as runner:
                await runner.start(Workflow("w", step(slow)), value, id="r")
            record = await store.find("r")
            return record.status, record.reason

    async def slow(x: int) -> float:
        return 1 / await late(x)

    stored, reason = run_virtually(main())

    assert (stored, "ZeroDivisionError" in reason) == (status, status == "failed")


def test_a_caller_that_waits_while_a_worker_is_replaced_gets_the_run_of_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker that it had waited for had crashed, and the one that replaced it had left."""
    apply, crashes = Run.apply_outcome, iter([True])

    def apply_or_crash(*given: Any) -> Any:
        if next(crashes, False):
            raise ZeroDivisionError("a bug in a worker")
        return apply(*given)

    monkeypatch.setattr(Run, "apply_outcome", apply_or_crash)

    async def main(runner: AsyncRunner) -> Run:
        return await (await runner.start(Workflow("w", step(late)), 1)).wait()

    run = using(main)

    assert (run.status, run.value("late")) == ("completed", 1)


def test_a_failed_run_that_was_retried_is_read_as_it_is_now_through_an_old_handle() -> None:
    workflow, remedies = fragile()

    async def main(runner: AsyncRunner) -> tuple[str, str, Any]:
        handle = await runner.start(workflow, 7, id="r")
        before = (await handle.wait()).status
        remedies.append("a rest")
        await (await runner.retry("r")).wait()
        return before, await handle.status(), await handle.result()

    assert using(main) == ("failed", "completed", 7)


class Slow(WrappedStore):
    """A store that takes a second for each append."""

    async def around(self, call: str, act: Callable[[], Awaitable[T]]) -> T:
        """Do it, later."""
        if call == "append":
            await asyncio.sleep(1.0)
        return await act()


def test_two_callers_that_retry_a_failed_run_at_once_reopen_it_once() -> None:
    """The second one took the run over from the first, whose retry was not stored yet."""
    remedies: list[str] = []

    def work(x: int) -> int:
        if not remedies:
            raise ConnectionError("not yet")
        return x

    steps = [step(work, name=name) for name in ("left", "right")]
    workflow = Workflow("w", *steps).with_policies([(DEFAULT, KEPT)])

    async def main(runner: AsyncRunner) -> tuple[str, Any]:
        await (await runner.start(workflow, 7, id="r")).wait()
        remedies.append("a rest")
        await asyncio.gather(runner.retry("r", "left"), runner.retry("r", "right"))
        return (await runner.wait("r")).status, await runner.result("r")

    assert using(main, store=Slow(MemoryStore())) == ("completed", {"left": 7, "right": 7})


def test_on_complete_can_retry_its_run() -> None:
    """The retry waited until the run had left, and the run until on_complete had returned."""
    workflow, remedies = fragile()

    async def main(runner: AsyncRunner) -> Run:
        async def told(id: str, run: Run) -> None:
            if run.failed:
                remedies.append("a rest")
                await runner.retry(id)

        return await (await runner.start(workflow, 7, id="r", on_complete=told)).wait()

    assert using(main).output == 7


def test_a_failed_run_that_is_not_written_yet_can_be_retried() -> None:
    workflow, remedies = fragile()

    async def main(runner: AsyncRunner) -> Any:
        await (await runner.start(workflow, 7, id="r")).wait()
        remedies.append("a rest")
        return await (await runner.retry("r")).result()

    assert using(main, checkpoint="manual") == 7


def test_finishing_twice_is_harmless_while_on_complete_is_called() -> None:
    async def main(runner: AsyncRunner) -> str:
        async def told(_: str, __: Run) -> None:
            await asyncio.sleep(5.0)

        await runner.start(Workflow("w", step(abs)), -1, id="r", open=True, on_complete=told)
        await runner.finish("r")
        await asyncio.sleep(1.0)
        await runner.finish("r")
        return (await runner.wait("r")).status

    assert using(main) == "completed"


def test_cancelling_a_parent_goes_on_when_a_child_has_finished_and_is_not_written() -> None:
    child = Workflow("child", step(abs))

    async def begin(x: int) -> None:
        await (await current().astart_child(child, x, id="the-child")).result()
        await asyncio.sleep(100.0)

    async def main(runner: AsyncRunner) -> tuple[str, str]:
        await runner.start(Workflow("w", step(begin)), -1, id="r")
        await asyncio.sleep(1.0)
        await runner.cancel("r")
        return await runner.status("r"), await runner.status("the-child")

    assert using(main, checkpoint="manual") == ("cancelled", "completed")


def test_a_record_counts_failures_although_its_status_has_not_changed() -> None:
    """A run that was idle and is idle again, in one write, had no failures in its record."""
    workflow, _ = fragile()

    async def main(runner: AsyncRunner) -> tuple[int, int, list[str]]:
        await runner.start(workflow, id="r")
        await runner.send("r", 7)
        await runner.wait("r")
        record = await runner.find("r")
        return record.failures, record.dead_letters, [each.id for each in await runner.runs(failed=True)]

    assert using(main, checkpoint="on_complete") == (1, 1, ["r"])


def test_a_run_that_has_finished_refuses_to_be_cancelled_and_says_how_it_has() -> None:
    async def main(runner: AsyncRunner) -> None:
        await (await runner.start(Workflow("w", step(abs)), -1, id="r")).wait()
        await runner.cancel("r")

    with pytest.raises(RunClosed, match="has completed"):
        using(main)

"""Random small graphs that fail here and there, in a runner: all that tells of the outcome of a run says the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from test_failures import Part, bodies, build, graphs

from weft import AsyncRunner, Run
from weft.errors import NothingProduced, RunFailed
from weft.log.outcome import RunOutcome, decode_outcome, outcome_of
from weft.ports.store import RunRecord
from weft.stores import MemoryStore
from weft.testing import run_virtually


async def told(result: Callable[[], Awaitable[Any]]) -> Any:
    """Return what a caller is told of a run: its output, its failures, or what has produced nothing."""
    try:
        return await result()
    except RunFailed as failed:
        return {name: str(why) for name, why in failed.failures.items()}, failed.results
    except NothingProduced as nothing:
        return nothing.name


def said(outcome: RunOutcome, run: Run) -> Any:
    """Return the expected answer for a caller about *outcome*."""
    if outcome.failures:
        return {event.component: str(run.failure_of(event)) for event in outcome.failures}, outcome.results
    if outcome.nothing is not None:
        return outcome.nothing[0]
    return outcome.output


def brief(outcome: RunOutcome) -> Any:
    """Return *outcome* without what a record leaves out of a failure."""
    failures = [(each.seq, each.component, each.attempts, each.error) for each in outcome.failures]
    return outcome.ordinal, outcome.results, outcome.leaf, outcome.output, outcome.nothing, failures


async def check(runner: AsyncRunner, record: RunRecord) -> None:
    """Compare what the *record*, the log and the runner say of a run that has finished."""
    twin = Run.from_log((await runner.get(record.id)).log())
    expected = outcome_of(twin, twin.memory.received)
    stored = decode_outcome(record.outcome)

    assert record.status == twin.status == await runner.status(record.id) == (await runner.wait(record.id)).status
    assert record.status == ("failed" if twin.failed else "completed")
    assert (record.failures, record.dead_letters) == (len(twin.memory.failures or ()), len(twin.dead_letters))
    assert stored is not None
    assert brief(stored) == brief(expected)
    assert await told(lambda: runner.result(record.id)) == said(expected, twin)


@given(graphs, bodies, st.lists(st.integers(0, 7), min_size=1, max_size=3), st.booleans())
def test_the_status_the_record_and_the_log_of_a_run_agree_on_its_outcome(
    parts: tuple[Part, ...], body: tuple[Part, list[int]] | None, values: list[int], is_open: bool
) -> None:
    workflow, rules = build(parts, body)

    async def main() -> None:
        async with MemoryStore() as store:
            async with AsyncRunner(store, executor="inline") as runner:
                handles = [await runner.start(workflow, values[0], id="a", open=is_open, policies=rules)]
                handles += [await runner.send("a", value) for value in values[1:] if is_open]
                await runner.finish("a")
                log = (await handles[0].wait()).log()
                assert "a" not in runner
                await check(runner, await runner.find("a"))
                twin = Run.from_log(log)
                for number, handle in enumerate(handles, start=1):
                    assert await told(handle.result) == said(outcome_of(twin, number), twin)
            async with AsyncRunner(store, executor="inline") as other:
                other.register(workflow)
                await check(other, await other.find("a"))
                if twin.dead_letters:
                    await other.wait(await other.discard("a"))
                    await check(other, await other.find("a"))
                assert other.held == []

    run_virtually(main())

"""CONFORMANCE 98 and 99: which facts are hot, and that every way to resume continues the same run."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import pytest

from weft import Run, Runner, Workflow, accumulator, join, state_of, step
from weft.log import Decoder, classify
from weft.log.snapshot import Snapshot, SnapshotWriter, definitions_of
from weft.stores import MemoryStore, SQLiteStore

one = step(lambda x: x + 1, name="one")
two = step(lambda x: x + 2, name="two")
three = step(lambda x: x + 3, name="three")
CHAIN = Workflow("chain", one >> two >> three)
BRANCHES = Workflow("branches", one, two)
JOINED = Workflow("joined", join(one, two) >> step(lambda a, b: a + b, name="met"))
total = accumulator(operator.add, init=0, name="total")
READ = Workflow("read", total, step(lambda x, t=state_of("total"): (x, t), name="reads"))


def after(workflow: Workflow, steps: int) -> Run:
    """Return a run of *workflow* on 1 that has made so many steps, one by one."""
    run = workflow.plan(1)
    for _ in range(steps):
        run.apply(run.prepare()[0].execute())
    return run


def made_by(run: Run, seqs: tuple[int, ...]) -> list[str]:
    """Return the components whose facts stand at *seqs*; INPUT for inputs."""
    return [getattr(run.log()[seq - 1], "component", "INPUT") for seq in seqs]


@pytest.mark.parametrize(
    ("run", "hot", "cold"),
    [
        (CHAIN.plan(), [], []),
        (after(CHAIN, 0), ["INPUT"], []),
        (after(CHAIN, 1), ["one"], ["INPUT"]),
        (after(CHAIN, 3), ["three"], ["INPUT", "one", "two"]),
        (after(BRANCHES, 2), ["one", "two"], ["INPUT"]),
        (after(JOINED, 1), ["INPUT", "one"], []),
        (after(READ, 2), ["total", "reads"], ["INPUT"]),
    ],
    ids=["nothing", "input", "one of three", "finished", "branches", "awaiting a join", "read"],
)
def test_facts_that_the_future_needs_are_hot(run: Run, hot: list[str], cold: list[str]) -> None:
    """CONFORMANCE 98."""
    found = classify(run)

    assert (made_by(run, found.hot), made_by(run, found.cold)) == (hot, cold)
    facts = {fact.address for fact in run.facts()}
    assert set(found.hot).isdisjoint(found.cold)
    assert facts <= {*found.hot, *found.cold}


@pytest.mark.parametrize("workflow", [CHAIN, BRANCHES, JOINED, READ], ids=lambda each: each.name)
@pytest.mark.parametrize("steps", range(3))
def test_a_run_without_its_cold_facts_finishes_as_the_run(workflow: Workflow, steps: int) -> None:
    """CONFORMANCE 98: demoting cold facts keeps ids, ancestry and results."""
    run = after(workflow, min(steps, 2))
    snapshot = Snapshot.opened(SnapshotWriter().write(run.memory, b"").body)
    memory = snapshot.restore(
        Decoder(workflow=workflow),
        dict(definitions_of(run.memory)),
        {},
        lambda first, last: run.log()[first - 1 : last],
    )
    demoted = Run.from_memory(memory)

    demoted.react_until_satisfied()
    whole = Run.from_log(run.log()).react_until_satisfied()

    assert demoted.results() == whole.results()
    assert [fact.hash for fact in demoted.facts()] == [fact.hash for fact in whole.facts()]
    assert [[each.hash for each in fact.ancestry()] for fact in demoted.facts()] == [
        [each.hash for each in fact.ancestry()] for fact in whole.facts()
    ]


def triple(x: int) -> int:
    return 3 * x


@pytest.mark.parametrize("rehydration", ["full", "hybrid", "lazy"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_every_way_to_resume_continues_the_same_run(rehydration: Any, kind: str, tmp_path: Path) -> None:
    """CONFORMANCE 99."""
    flow = Workflow("w", step(triple) >> step(lambda x: x, name="same"), total)
    store = MemoryStore() if kind == "memory" else SQLiteStore(tmp_path / "runs.db", synchronous="normal")
    with Runner(store, executor="inline", snapshot_every=1) as runner:
        runner.register(flow)
        runner.start(flow, id="r")
        runner.send("r", 5).wait()
        runner.stop("r")

        runner.resume("r", rehydration=rehydration)

        assert runner.results("r") == {"same": 15, "total": 5}
        assert runner.send("r", 10).result() == {"same": 30, "total": 15}
        run = runner.get("r")
        assert (run.values("same"), run.state_of("total")) == ([15, 30], 15)

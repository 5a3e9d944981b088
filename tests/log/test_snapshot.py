"""Snapshots as bytes: what they hold, what is refused, and bytes that were written once."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from pinned import OPEN, open_log, pinned

from weft import (
    Policy,
    Run,
    Workflow,
    accumulator,
    all_values,
    condition,
    current,
    each,
    fact_count,
    latest,
    repeat,
    rule,
    step,
)
from weft.core.fold.fold import fold
from weft.core.fold.memory import Memory
from weft.core.lineage.history import FACTS, PagedLog
from weft.errors import CorruptLog
from weft.log import Decoder, classify, decode, definition_of
from weft.log.ext_types import content_hash
from weft.log.snapshot import Snapshot, SnapshotWriter, definitions_of
from weft.log.snapshot_fields import Derived, Field
from weft.log.snapshot_tables import TABLES


def slots_of(kind: type) -> set[str]:
    """Return the slots of *kind*, a record or a class with slots."""
    if issubclass(kind, msgspec.Struct):
        return set(kind.__struct_fields__)
    return {slot for base in kind.__mro__ for slot in getattr(base, "__slots__", ())}


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.__name__)
def test_every_slot_has_a_line(kind: type) -> None:
    """A slot that is neither written nor said to be derived would be lost at a resume."""
    assert slots_of(kind) == set(TABLES[kind])
    assert all(isinstance(line, Field | Derived) for line in TABLES[kind].values())


def written(memory: Memory) -> bytes:
    """Return the snapshot of *memory*."""
    return SnapshotWriter().write(memory, b"link").body


def restored(body: bytes, log: Sequence[Any], *, lazy: bool = False) -> Memory:
    """Return the memory of a snapshot of *log*."""
    whole = Run.from_log(log)

    def load(first: int, last: int) -> Sequence[Any]:
        return log[first - 1 : last]

    definitions = dict(definitions_of(whole.memory))
    return Snapshot.opened(body).restore(Decoder(workflow=whole.workflow), definitions, {}, load, lazy=lazy)


def cut_anywhere(run: Run) -> None:
    """Check that *run* goes on from a snapshot after each of its events as it does from its log."""
    log = run.log()
    for position in range(1, len(log) + 1):
        memory = restored(written(Run.from_log(log[:position]).memory), log)
        fold(memory, log[position:])
        assert written(memory) == written(run.memory)
        twin = Run.from_memory(memory)
        assert [(each.key, each.args, each.kwargs) for each in twin.prepare()] == [
            (each.key, each.args, each.kwargs) for each in run.prepare()
        ]


def partly(run: Run, turns: int, seed: int) -> Run:
    """Return *run* after some runnables, in a random order."""
    order = random.Random(seed)  # noqa: S311
    for _ in range(turns):
        if ready := run.prepare():
            run.apply(order.choice(ready).execute())
    return run


halving = repeat(lambda x: x // 2, until=lambda x: x < 2, at_most=4, otherwise="last", name="halve")
plus = step(lambda x: x + 1, name="plus")
seen = step(lambda x, before=latest("both", default=-1): before, name="seen")
both = step(lambda _, x: x, name="both")
is_even = condition(lambda x: x % 2 == 0, name="is_even")

WORKFLOWS = {
    "a loop that uses all its turns": Workflow("w", halving >> step(lambda x: -x, name="after")),
    "a loop over a graph that reads the turn before": Workflow(
        "w", repeat([seen, plus] >> both, until=lambda x: x > 106, at_most=9, name="loop")
    ),
    "a condition that gates and flows": Workflow(
        "w",
        step(abs) >> is_even >> plus,
        rule(when=is_even, then=lambda x: -x, name="minus") >> step(hash, name="last"),
    ),
    "everything that a component has made": Workflow(
        "w",
        step(lambda x: list(range(x % 5)), name="some") >> each(step(lambda x: x * x, name="square")),
        step(lambda x, squares=all_values("square"), n=fact_count("square"): (squares, n), name="told"),
        accumulator(lambda acc, x: acc + x, init=0, name="total"),
    ),
}


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 20])
@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_run_goes_on_from_a_snapshot_after_any_event(name: str, turns: int) -> None:
    run = WORKFLOWS[name].plan(99).plan(100)

    cut_anywhere(partly(run, turns, seed=turns))


def test_a_snapshot_does_not_grow_with_the_history() -> None:
    run = Workflow("w", accumulator(lambda acc, x: acc + x, init=0, name="total")).plan(1)
    sizes = [len(written(partly(run.plan(1), 2, seed=1).memory)) for _ in range(200)]

    assert max(sizes) - sizes[0] < 20, "a few bytes, for larger numbers"


def test_a_snapshot_takes_as_many_calls_late_in_a_history_as_early() -> None:
    same = step(lambda x: x, name="same")
    run = Workflow("w", same >> accumulator(lambda acc, x: acc + x, init=0, name="total")).plan(1)
    writer, calls = SnapshotWriter(), list[int]()

    def counted(*_: object) -> None:
        calls[-1] += 1

    for _ in range(600):
        run = partly(run.plan(1), 3, seed=1)
        calls.append(0)
        sys.setprofile(counted)
        try:
            writer.write(run.memory, b"")
        finally:
            sys.setprofile(None)

    # The least of twenty: what the garbage collector finalizes meanwhile is called too.
    assert min(calls[-20:]) <= min(calls[20:40])


def test_what_is_restored_holds_the_facts_that_the_future_needs_and_no_others() -> None:
    run = Workflow("w", accumulator(lambda acc, x: acc + x, init=0, name="total")).run(1).run(2).run(3)

    hybrid, lazy = (restored(written(run.memory), run.log(), lazy=lazy) for lazy in (False, True))

    assert isinstance(hybrid.log, PagedLog)
    assert isinstance(lazy.log, PagedLog)
    assert (hybrid.log.resident, lazy.log.resident) == (1, 0)
    assert Run.from_memory(lazy).state_of("total") == 6
    assert Run.from_memory(hybrid).values("total") == [1, 3, 6]


# -- what is refused -----------------------------------------------------------------------------

BODY = written(Run.from_log(open_log()).memory)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not a snapshot"),
        (b"WEFTLOG" + BODY[7:], "not a snapshot"),
        (BODY[:8] + b"\x02" + BODY[9:], "format 2"),
        (BODY[:-1], "checksum"),
        (BODY[:60] + bytes([BODY[60] ^ 1]) + BODY[61:], "checksum"),
    ],
)
def test_bytes_that_are_not_what_was_written_are_refused(body: bytes, why: str) -> None:
    with pytest.raises(CorruptLog, match=why):
        Snapshot.opened(body)


def altered(value: Any, order: random.Random) -> Any:
    """Return *value*, a structure of plain data, with one part of it replaced by something else."""
    if isinstance(value, dict) and value and order.random() < 0.9:
        name = order.choice(list(value))
        if order.random() < 0.1:
            return {key: held for key, held in value.items() if key != name}
        return {**value, name: altered(value[name], order)}
    if isinstance(value, list) and value and order.random() < 0.9:
        at = order.randrange(len(value))
        return [*value[:at], altered(value[at], order), *value[at + 1 :]]
    return order.choice([None, -5, 10**6, "x", b"x", [], {}, [["x"]], True, 0.5])


def test_a_structure_that_was_altered_is_refused_or_read_and_constructs_nothing_else() -> None:
    """A caller that can write to the store can also write a checksum."""
    whole = Run.from_log(open_log())
    opened = Snapshot.opened(BODY)
    structure = msgspec.msgpack.decode(opened._structure)
    definitions = dict(definitions_of(whole.memory))
    refused = 0
    for seed in range(500):
        data = msgspec.msgpack.encode(altered(structure, random.Random(seed)))  # noqa: S311
        bodies = (opened._records, opened._facts, opened._absent, opened._edited)
        changed = Snapshot(opened.position, opened.link, data, bodies)
        try:
            memory = changed.restore(Decoder(workflow=OPEN), definitions, {}, lambda *_: [])
        except CorruptLog:
            refused += 1
        else:
            assert type(memory) is Memory
    assert refused > 250


# -- bytes that were written once ----------------------------------------------------------------


@pytest.mark.parametrize("name", pinned("snapshots"))
def test_a_snapshot_that_was_written_once_is_read_for_ever(name: str) -> None:
    stored = {part: bytes.fromhex(data) for part, data in pinned("snapshots")[name].items()}
    log = decode(stored["log"])
    definition = stored["definition"]

    memory = Snapshot.opened(stored["body"]).restore(
        Decoder(), {content_hash(definition): definition}, {}, lambda first, last: log[first - 1 : last]
    )

    run = Run.from_memory(memory)
    assert run == Run.from_log(log)
    assert partly(run, 20, seed=1).results() == partly(Run.from_log(log), 20, seed=1).results()
    if sys.version_info[:2] == (3, 11):  # a definition says which Python wrote it, since instructions differ
        assert definition_of(log[0].workflow).body == definition  # type: ignore[union-attr]
        assert written(Run.from_log(log).memory) == stored["body"], "the format has changed; write another version"


# -- hot and cold --------------------------------------------------------------------------------


def chain(*names: str) -> Workflow:
    """Return a workflow of steps that add one, one after the other."""
    flow: Any = step(lambda x: x + 1, name=names[0])
    for name in names[1:]:
        flow = flow >> step(lambda x: x + 1, name=name)
    return Workflow("chain", flow)


def test_the_facts_that_the_future_needs_are_hot_and_all_others_are_cold() -> None:
    three = chain("a", "b", "c")
    branches = Workflow("w", step(abs) >> [step(lambda x: x, name="left"), step(lambda x: -x, name="right")])
    joined = Workflow("w", [step(abs), step(hash, name="late")] >> step(lambda x, y: (x, y), name="both"))
    reads = Workflow(
        "w", step(abs) >> step(hash, name="end"), step(lambda x, seen=latest("abs", default=0): seen, name="reads")
    )
    waits = partly(joined.plan(3), 1, seed=1)
    known = waits.log()[-1].seq

    assert classify(three.plan()) == ((), ())
    assert classify(three.plan(1)) == ((2,), ()), "an input that is planned"
    assert classify(partly(three.plan(1), 1, seed=1)) == ((3,), (2,)), "what the next step takes"
    assert classify(three.run(1)) == ((5,), (2, 3, 4)), "the latest fact of the leaf"
    assert classify(branches.run(-1)) == ((4, 5), (2, 3)), "of both leaves"
    assert known in classify(waits).hot, "what a join keeps"
    assert {fact.seq for fact in reads.run(-4).log() if getattr(fact, "component", "") == "abs"} <= set(
        classify(reads.run(-4)).hot
    ), "what another component reads"


@pytest.mark.parametrize("name", WORKFLOWS)
def test_hot_and_cold_facts_are_all_facts_and_none_is_both(name: str) -> None:
    run = partly(WORKFLOWS[name].plan(99).plan(100), 5, seed=3)
    hot, cold = classify(run)
    facts = {event.seq for event in run.log() if isinstance(event, FACTS)}

    assert set(hot) | set(cold) == facts
    assert not set(hot) & set(cold)

    memory = restored(written(run.memory), run.log())
    assert classify(Run.from_memory(memory)).hot == hot
    assert classify(Run.from_memory(memory)).cold == ()


def test_the_latest_fact_of_a_leaf_is_in_memory_after_a_restore() -> None:
    run = chain("a", "b", "c").run(1).run(2)

    def load(first: int, last: int) -> Any:
        raise AssertionError(f"the events {first} to {last} are not needed")

    body, definitions = written(run.memory), dict(definitions_of(run.memory))
    memory = Snapshot.opened(body).restore(Decoder(workflow=run.workflow), definitions, {}, load)

    assert memory.log[-1].value == 5  # type: ignore[union-attr]


def test_a_snapshot_has_the_tokens_of_open_steps_and_how_others_failed_outside() -> None:
    tokens: list[str] = []

    def ask(x: int) -> None:
        tokens.append(current().token)

    flow = each(step(ask) >> step(lambda value: [value], name="wrap"))
    policy = Policy(execution_mode="external", max_retries=1, base_delay=60.0)
    run = Workflow("desk", flow, policies=[("ask", policy)]).run([1, 2, 3])
    run.complete(tokens[0], 5)
    run.fail(tokens[1], ValueError("no"))

    cut_anywhere(run)

    twin = Run.from_memory(restored(written(run.memory), run.log()))
    assert twin.tokens == run.tokens
    assert len(twin.tokens) == 1

"""The causes of facts without an event that a snapshot keeps."""

from __future__ import annotations

from typing import Any

import pytest

from weft import Absent, Run, Workflow, join, step, wait_for
from weft.core.events import AnyEvent
from weft.core.run.input_results import event_of, results_of
from weft.errors import HistoryTruncated
from weft.log import Decoder, kept_causes
from weft.log.eviction import SnapshotWriter, evict, mark
from weft.log.kept_causes import KeptCauses
from weft.log.snapshot import Snapshot, definitions_of

one, two = step(lambda x: 1 / x, name="one"), step(lambda x: 2 / x, name="two")
FLOW = Workflow("flow", wait_for("go") >> join(one, two, wait="all_done") >> step(lambda x, y: [x, y], name="last"))
NOTHING = [Absent("one", "failed"), Absent("two", "failed")]


def overlapping(inputs: int = 2) -> Run:
    """Return a run with this many inputs, of which all are there before the first one goes on; nothing succeeds."""
    run = Run(FLOW)
    for number in range(inputs):
        run.plan(number).react_until_satisfied()
    for _ in range(inputs):
        run.signal("go", 0).react_until_satisfied()
    return run


def loader(run: Run, begin: int) -> Any:
    """Return what loads the events of *run* from number *begin* on; those before were removed."""
    stored = [*run.memory.log]

    def load(first: int, last: int) -> list[AnyEvent]:
        return stored[first - 1 : last]

    load.removed = begin - 1  # type: ignore[attr-defined]
    return load


def test_the_results_of_an_input_need_no_removed_event_where_another_one_has_come_to_nothing() -> None:
    run = overlapping()
    begin = event_of(run.memory, 2).seq

    evict(run.memory, mark(run.memory), SnapshotWriter(), loader(run, begin))

    assert results_of(run, 2) == {"last": NOTHING}
    with pytest.raises(HistoryTruncated):
        results_of(run, 1)


def test_a_snapshot_has_them_and_so_has_the_next_one() -> None:
    run = overlapping()
    load = loader(run, event_of(run.memory, 2).seq)

    for _ in range(2):
        body = SnapshotWriter().write(run.memory, link=b"").body
        memory = Snapshot.opened(body).restore(Decoder(workflow=FLOW), dict(definitions_of(run.memory)), {}, load)
        run = Run.from_memory(memory)

    assert results_of(run, 2) == {"last": NOTHING}


def test_those_of_inputs_that_nobody_asks_for_any_more_are_dropped() -> None:
    run, kept = overlapping(), KeptCauses()
    kept.add(run.memory, run.log())
    assert len(kept.needed(run.memory)) == 2

    known = len(run.memory.log)
    run.plan(3).react_until_satisfied().signal("go", 1).react_until_satisfied()
    kept.add(run.memory, run.log()[known:])

    assert kept.needed(run.memory) == {}


def test_no_more_than_the_latest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_causes, "LARGEST", 1)
    run, kept = overlapping(3), KeptCauses()

    kept.add(run.memory, run.log())

    assert [*kept.needed(run.memory)] == [run.log()[-1].inputs[0]]

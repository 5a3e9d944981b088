"""The two states of a worker: they change as the tables say, and the decision shows the same tables."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

import weft
from weft import AsyncRunner, Workflow, step
from weft.runner.execution.worker import Worker
from weft.runner.execution.worker_life import LIFE, PRESENCE, Life, Presence
from weft.stores import MemoryStore

ROOT = Path(weft.__file__).parent
RECORD = Path(__file__).parents[3] / "docs" / "adr" / "0060-the-life-of-a-worker.md"
FIELDS = {"life", "presence", "lost"}


def tables(text: str) -> list[dict[str, dict[str, str]]]:
    """Return the tables of transitions in *text*."""
    found = list[dict[str, dict[str, str]]]()
    for part in text.split("| from ↓ on → |")[1:]:
        header, _, *rows = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in part.partition("\n\n")[0].splitlines()
        ]
        found.append({row[0]: {on: to for on, to in zip(header, row[1:], strict=True) if to} for row in rows})
    return found


def test_the_decision_shows_the_same_tables() -> None:
    assert tables(RECORD.read_text(encoding="utf-8")) == [LIFE, PRESENCE]


def test_the_tables_have_all_states() -> None:
    assert set(LIFE) == set(get_args(Life))
    assert set(PRESENCE) == set(get_args(Presence))


def test_a_worker_never_drives_again() -> None:
    order = list(get_args(Life))

    assert all(order.index(after) >= order.index(before) for before, on in LIFE.items() for after in on.values())


def written(source: str) -> list[str]:
    """Return the fields of a worker's life that *source* sets on something other than itself."""
    targets = [
        target
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    flat = [each for target in targets for each in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [
        ast.unparse(each)
        for each in flat
        if isinstance(each, ast.Attribute) and each.attr in FIELDS and ast.unparse(each.value) != "self"
    ]


@pytest.mark.parametrize("package", ["runner", "fleet"])
def test_nothing_but_the_worker_writes_its_life(package: str) -> None:
    outside = {
        path.relative_to(ROOT).as_posix(): found
        for path in (ROOT / package).rglob("*.py")
        if (found := written(path.read_text(encoding="utf-8")))
    }

    assert outside == {}
    assert written("worker.life, x = 'stopped', 1\nworker.lost = error\nself.lost = error") == [
        "worker.life",
        "worker.lost",
    ]


HAPPEN: dict[str, Callable[[Worker], object]] = {
    "stop": lambda worker: worker.stop(),
    "park": lambda worker: worker.park("why"),
    "sleep": lambda worker: worker.sleep(),
    "crash": lambda worker: worker.die(),
    "leave": lambda worker: worker.begin_leaving(),
    "stay": lambda worker: worker.stay(),
    "end": lambda worker: worker.end(0),
}


def after(*names: str) -> tuple[Any, ...]:
    """Return what an idle worker says of itself after what is named has happened."""

    async def find() -> tuple[Any, ...]:
        flow = Workflow("f", step(lambda x: x, name="f"))
        async with AsyncRunner(MemoryStore(), executor="inline") as runner:
            handle = await runner.start(flow, 1, id="a", open=True)
            await handle.wait()
            worker = runner._runtime.registry.get("a")
            assert worker is not None
            for name in names:
                HAPPEN[name](worker)
            said = worker.starts, worker.accepts, worker.takes_messages, worker.has_left
            return worker.life, worker.presence, *said

    return asyncio.run(find())


@pytest.mark.parametrize(
    ("names", "life", "presence"),
    [
        ("", "driving", "here"),
        ("stop", "stopped", "here"),
        ("park", "stopped", "here"),
        ("sleep", "stopped", "leaving"),
        ("crash", "crashed", "here"),
        ("crash stop", "crashed", "here"),
        ("leave crash", "crashed", "leaving"),
        ("leave stay", "driving", "here"),
        ("leave stop stay", "stopped", "leaving"),
        ("leave end", "driving", "left"),
        ("leave end leave stop", "stopped", "left"),
    ],
)
def test_what_happens_to_a_worker_changes_its_states(names: str, life: Life, presence: Presence) -> None:
    found = after(*names.split())

    is_sound = presence == "here" and life != "crashed"
    assert found == (life, presence, life == "driving", presence == "here", is_sound, presence == "left")


def test_a_change_that_is_not_in_the_table_is_a_bug() -> None:
    with pytest.raises(KeyError, match="stay"):
        after("stay")

"""
kill -9 of real processes on a real file, to confirm what the simulation says.

A victim prints a line for every step that it executes; it is killed when the test has read so many of them, and goes
on for as long as the signal takes.  Then another process resumes; some are killed as well.  ``pytest -s`` prints what
happened, a line each.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import victim

from weft import Run
from weft.log import verify
from weft.log.hash_chain import references
from weft.runner.durability.recovery import recover
from weft.stores import SQLiteStore

Line = tuple[str, Any]


class Kill(NamedTuple):
    """A workflow, its strategy, and after how many lines each of its processes is killed."""

    workflow: str
    strategy: str
    after: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.workflow}-{self.strategy}-{'-'.join(map(str, self.after))}"


KILLS = [
    *(Kill("chain", "every_cycle", (after,)) for after in range(1, 9)),
    *(Kill("durable", "every_cycle", (after,)) for after in (1, 3, 5, 8)),
    *(Kill("wide", "every_cycle", (after,)) for after in (1, 4, 8, 12)),
    *(Kill("chain", "pipelined", (after,)) for after in (2, 5, 8)),
    *(Kill("wide", "pipelined", (after,)) for after in (3, 9)),
    *(Kill("chain", "every_n", (after,)) for after in (3, 4, 7)),
    *(Kill("chain", "on_complete", (after,)) for after in (4, 8)),
    *(Kill(name, "every_cycle", (2, 2, 1)) for name in ("chain", "durable", "wide")),
    *(Kill("chain", "on_complete+batches", (after,)) for after in (2, 5, 8)),
    *(Kill("chain", "pipelined+batches", (after,)) for after in (2, 5, 8)),
    *(Kill("chain", "every_n+batches", (after,)) for after in (3, 4, 7)),
]
SHARE = {0, 9, 13, 17, 22, 27, 30, 33}
"""One of each sort; make thorough takes all."""


def cases() -> list[Any]:
    """Return the kills that are tried."""
    kills = KILLS if "WEFT_THOROUGH" in os.environ else [KILLS[place] for place in sorted(SHARE)]
    return [pytest.param(kill, id=str(kill)) for kill in kills]


def execute(path: Path, kill: Kill, after: int | None) -> tuple[list[Line], int]:
    """Run a victim, and kill it after some lines; return all that it has said, and how it ended."""
    command = [sys.executable, victim.__file__, str(path), kill.workflow, kill.strategy]
    said: list[Line] = []
    lifeline = subprocess.DEVNULL if after is None else subprocess.PIPE
    with subprocess.Popen(command, stdin=lifeline, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):  # the last one may be cut off
                said.append(tuple(json.loads(line)))
            is_over = bool(said) and said[-1][0] == "result"  # its last life has come further than it could say
            if after is not None and (len(said) == after or is_over):
                process.send_signal(signal.SIGKILL)
    return said, process.returncode


def stored(path: Path, workflow: str) -> tuple[Run, int]:
    """Return the run as the file has it, after checking its hash chain; nothing is executed."""

    async def load() -> tuple[Run, int]:
        async with SQLiteStore(path) as store:
            loaded = await store.load_since("job", 0)
            bodies = [segment.body for segment in loaded.segments]
            wanted = references(bodies)
            definitions = await store.load_definitions(wanted.definitions)
            facts = await store.load_facts("job", wanted.facts)
            verify(bodies, facts=facts, definitions=definitions, head=loaded.record.chain, position=loaded.record.head)
            found = await recover(store, loaded, workflow=victim.WORKFLOWS[workflow][0])
            return found.run, loaded.record.head

    return asyncio.run(load())


def durable(run: Run) -> Counter[str]:
    """Return what the log says was made."""
    return Counter(json.dumps([name, made]) for name in run.workflow.components for made in run.values(name))


@pytest.mark.parametrize("kill", cases())
def test_what_was_durable_when_a_process_was_killed_is_never_executed_again(kill: Kill, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    name = kill.workflow
    workflow, value = victim.WORKFLOWS[name]
    story: list[str] = []
    made: Counter[str] = Counter()

    for after in kill.after:
        said, code = execute(path, kill, after)
        assert code == -signal.SIGKILL
        again = [json.dumps(line) for line in said if json.dumps(line) in made]
        assert again == [], "what was durable was executed again"
        run, head = stored(path, name)
        made = durable(run)
        story.append(f"killed after {after} steps, of which it said {len(said)}, with {head} events durable")
    said, code = execute(path, kill, None)
    repeated = [line for line in said if json.dumps(line) in made]
    run, head = stored(path, name)

    with redirect_stdout(StringIO()):
        expected = workflow.run(value).results()
    sys.stdout.write(f"\n{kill}: {'; '.join(story)}; resumed with {len(said) - 1} steps to {head} events")
    assert code == 0
    assert repeated == []
    assert said[-1] == ("result", expected)
    assert run.results() == said[-1][1]
    assert not run.is_runnable

"""kill -9 of a process that writes or removes a large value, at every part: all of it is there, or nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import loader
import pytest

from weft.stores.sqlite.checkup import Checkup

STEPS = {"new": loader.PARTS + 2, "known": loader.PARTS + 2, "removed": loader.PARTS + 4}
"""The parts and the append; then a slice of four parts that is removed, and the rest."""


def killed(path: Path, kind: str, after: int) -> list[str]:
    """Run a loader, and kill it at that step, of which it has not done anything yet; return what it has said."""
    command = [sys.executable, loader.__file__, str(path), kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        said: list[str] = []
        while len(said) < after:
            said.append(process.stdout.readline().strip())
            if len(said) < after:
                os.write(process.stdin.fileno(), b"\n")
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    return said


def rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("select (select count(*) from parts) + (select count(*) from large)").fetchone()[0])


async def recovered(path: Path) -> int | None:
    """Open the store after the crash; return how many events the run has, once everything is removed that is left."""
    async with loader.store_at(str(path)) as store:
        assert store._opened is not None
        while store._opened.writer._needs_cleaning:
            await store._opened.writer.call(lambda _: None)
        return (await store.find("r")).head if await store.exists("r") else None


async def value_after_another_try(path: Path, head: int | None) -> bytes:
    """Append the value again, as the new owner; return it as it is stored."""
    async with loader.store_at(str(path)) as store:
        facts = {b"f": loader.VALUE}
        if head is None:
            append = loader.first("r", facts=facts)
        else:
            append = loader.more("r", head, facts=facts, epoch=(await store.acquire("r")).epoch)
        assert await store.append([append]) == [None]
        return (await store.load_facts("r", [b"f"]))[b"f"]


@pytest.mark.parametrize(("kind", "after"), [(kind, step) for kind, steps in STEPS.items() for step in range(1, steps)])
def test_a_process_that_is_killed_between_parts_leaves_all_of_it_or_nothing(
    kind: str, after: int, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"

    said = killed(path, kind, after)
    found = list(Checkup(path, is_quick=False, tell=lambda *_: None).findings())
    head = asyncio.run(recovered(path))

    assert said == (["parts"] * loader.PARTS + ["segments"] + ["parts"] * 2)[:after]
    assert [each for each in found if each.is_damage and each.run is None] == []  # the log is made up
    is_removed = after > loader.PARTS + 1
    assert head == (None if kind == "new" or is_removed else 1)
    assert rows(path) == 0
    assert asyncio.run(value_after_another_try(path, head)) == loader.VALUE

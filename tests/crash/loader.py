"""
A program to be killed while it writes a large value: prints a line before every part, and waits for one.

    python loader.py runs.db new

It creates a run with the value, or appends the value to a run of one event that it has created.
"""

from __future__ import annotations

import asyncio
import os
import sys

from weft.ports.store import Append
from weft.stores import SQLiteStore
from weft.testing.contracts.cases import first, more

PARTS = 5
VALUE = bytes(range(256)) * 4 * PARTS


def store_at(path: str) -> SQLiteStore:
    """Return a store that writes more than a kilobyte ahead, in parts of a kilobyte."""
    store = SQLiteStore(path)
    store._large = 1024
    return store


def appends(is_new: bool) -> list[Append]:
    """Return what is appended, one after the other; the last one has the large value."""
    facts = {b"f": VALUE}
    return [first("r", facts=facts)] if is_new else [first("r"), more("r", 1, facts=facts)]


def step(statement: str) -> None:
    """Say that a part is going to be written, or the append itself, and wait."""
    begun = statement.lower()
    if begun.startswith(("insert into parts", "insert into segments", "delete from parts")):
        sys.stdout.write(f"{begun.split()[2]}\n")
        sys.stdout.flush()
        os.read(0, 1)


async def main(path: str, kind: str) -> None:
    """Append, step by step."""
    async with store_at(path) as store:
        *before, last = appends(kind == "new")
        for each in before:
            assert await store.append([each]) == [None]
        assert store._opened is not None
        await store._opened.writer.call(lambda db: db.set_trace_callback(step))
        assert await store.append([last]) == [None]
        if kind == "removed":
            await store.delete("r")
            while store._opened.writer._needs_cleaning:
                await store._opened.writer.call(lambda _: None)
    sys.stdout.write("done\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

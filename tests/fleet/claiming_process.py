"""
Claims runs again and again, until none is left: ``python claiming_process.py DSN LIMIT NOTES LOCKS``.

While it has a run it locks a file of that name, which the operating system lets one process do; so a run that two
processes have at once ends the second of them with an error.  Each claim of a run writes one event, and the last one
ends the run.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
from pathlib import Path
from typing import IO

from weft.ports.store import RunRecord
from weft.stores import PostgresStore
from weft.testing.contracts.cases import more
from weft.testing.contracts.queue_store import KNOWN

ROUNDS = 3
STATUS = {False: "running", True: "completed"}
LEASE = 10.0


def locked(path: Path) -> IO[bytes]:
    """Lock a file until it is closed; another process that has it is an error."""
    file = path.open("wb")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


async def work(store: PostgresStore, taken: list[RunRecord], notes: IO[str], locks: Path) -> None:
    """Write an event of each run, and let it go."""
    held = [locked(locks / each.id) for each in taken]
    for each in taken:
        notes.write(f"{os.getpid()} {each.id} claim-{each.head}\n")
    notes.flush()
    await asyncio.sleep(0)
    appends = [
        more(each.id, each.head, epoch=each.epoch, release=True, status=STATUS[each.head == ROUNDS]) for each in taken
    ]
    for file in held:  # from here on another process may have them, and this one does nothing more with them
        file.close()
    assert list(await store.append(appends)) == [None] * len(taken)


async def main(dsn: str, limit: int, notes: Path, locks: Path) -> None:
    """Claim until the queue is empty."""
    with notes.open("a", encoding="utf-8") as file:
        async with PostgresStore(dsn, lease=LEASE) as store:
            while await store.queue_depth():
                taken = list(await store.claim(limit, queues=["default"], workflows=KNOWN))
                assert len(taken) <= limit
                await work(store, taken, file, locks)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])))

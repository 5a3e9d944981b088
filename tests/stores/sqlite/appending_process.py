"""A process that appends until it is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHILD = """
import asyncio, os, sys, time
from msgspec.structs import replace
from weft.errors import StoreUnavailable
from weft.stores import SQLiteStore
from weft.testing.contracts.cases import first, more

async def main(path, name):
    store = SQLiteStore(path)
    await store.open()
    await store.append([first(name)])
    print(1, flush=True)
    for position in range(1, 100_000):
        append = more(name, position, b"%d" % position)
        while True:
            try:
                (refused,) = await store.append([append])
                break
            except StoreUnavailable:  # the others write without a pause, and SQLite does not queue
                append = replace(append, again=True)
        assert refused is None, refused
        print(position + 1, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def child(path: Path, name: str) -> subprocess.Popen[str]:
    """Start a process that appends for ever, and prints the acknowledged positions."""
    return subprocess.Popen([sys.executable, "-c", CHILD, str(path), name], stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str], lines: int) -> int:
    assert process.stdout is not None
    last = 0
    for _ in range(lines):
        last = int(process.stdout.readline())
    return last


def killed(process: subprocess.Popen[str]) -> int:
    """Kill it; return the last position that was acknowledged as durable."""
    process.kill()
    assert process.stdout is not None
    rest = [line for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    process.wait()
    process.stdout.close()
    return int(rest[-1]) if rest else 0

"""A program whose transactional steps are killed, and the rows and completions that it leaves on PostgreSQL."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from collections import Counter
from pathlib import Path

from servers import asked

from weft.core.events import ReactionOccurred
from weft.runner.durability.recovery import recover
from weft.stores import PostgresStore

PROGRAM = Path(__file__).parents[2] / "crash" / "transacting.py"
spec = importlib.util.spec_from_file_location("transacting", PROGRAM)
assert spec is not None
assert spec.loader is not None
transacting = importlib.util.module_from_spec(spec)
sys.modules["transacting"] = transacting
spec.loader.exec_module(transacting)


def completions(where: str, schema: str) -> Counter[str]:
    async def main() -> Counter[str]:
        async with PostgresStore(where, schema=schema) as store:
            found = await recover(store, await store.load("r"), workflow=transacting.shop, goes_on=False)
            done = (event.component for event in found.run.log() if isinstance(event, ReactionOccurred))
            return Counter(name for name in done if name in transacting.TRANSACTIONAL)

    return asyncio.run(main())


def rows(where: str) -> Counter[tuple[str, str]]:
    return Counter(tuple(row) for row in asked(where, lambda db: db.fetch("select component, key from shop_rows")))


def run(where: str, schema: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(PROGRAM), where, schema, *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)

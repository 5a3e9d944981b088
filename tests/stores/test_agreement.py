"""The SQLite store does what the reference does, for any calls in any order."""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

import pytest
from agreement import agree, scripts
from hypothesis import given, settings

from weft.stores import SQLiteStore
from weft.stores.sqlite import appending


@pytest.mark.parametrize(
    ("has_parts", "many"), [(False, 8), (True, 8), (False, 0)], ids=["at once", "in parts", "as in large batches"]
)
@settings(max_examples=60)
@given(script=scripts)
def test_the_sqlite_store_agrees_with_the_reference(has_parts: bool, many: int, script: list[tuple[str, Any]]) -> None:
    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            patch.setattr(appending, "_MANY", many)
            store = SQLiteStore(f"{folder}/runs.db", synchronous="normal")
            if has_parts:
                store._large = 0
            async with store:
                await agree(store, script)

    asyncio.run(main())

"""A simulated process on a real file: what it wrote stays when it dies, and what it owned is free at once."""

from __future__ import annotations

import pytest

from weft.errors import RunOwned
from weft.ports.store import Append
from weft.testing import run_virtually
from weft.testing.simulation.storage import OnFile

FIRST = Append(run="r", workflow="w", create=True, expected=0, count=1, body=b"1", chain=b"1", at=0.0)


def test_a_process_that_lives_keeps_what_it_owns() -> None:
    async def main() -> None:
        first = storage.connect()
        await first.open()
        await first.append([FIRST])
        second = storage.connect()
        await second.open()

        with pytest.raises(RunOwned):
            await second.acquire("r")

    storage = OnFile()
    try:
        run_virtually(main())
    finally:
        storage.clean()


def test_the_next_process_goes_on_where_the_last_one_died() -> None:
    async def main() -> tuple[int, int]:
        first = storage.connect()
        await first.open()
        await first.append([FIRST])

        storage.lose(counts=True)

        second = storage.connect()
        await second.open()
        return (await second.acquire("r")).head, len((await second.load("r")).segments)

    storage = OnFile()
    try:
        found = run_virtually(main())
    finally:
        storage.clean()

    assert found == (1, 1)

"""How the places of a concurrency limit are divided, if all owners want more of them than there are."""

from __future__ import annotations

import asyncio

import pytest

from weft.stores import PostgresStore

ROUNDS = 12


async def divided(store: PostgresStore, limit: int, owners: int) -> list[list[int]]:
    """Return how many places each owner had, in the order of time; each leaves what is more than its share."""
    had: list[list[int]] = [[0] for _ in range(owners)]
    shares = [limit] * owners
    for _ in range(ROUNDS):
        for owner in range(owners):
            now = had[owner][-1]
            used = now - 1 if now > shares[owner] else now
            asked = used if used < now else limit
            granted, shares[owner] = await store.take_places(
                *(f"owner {owner}", f"{limit} for {owners}", "some"),
                limit=limit,
                used=used,
                wanted=used + limit,
                asked=asked,
                lease=60.0,
            )
            had[owner].append(granted)
            assert sum(each[-1] for each in had) <= limit
    return had


@pytest.mark.parametrize(
    ("limit", "owners", "expected"),
    [(4, 1, [4]), (5, 3, [1, 2, 2]), (4, 3, [1, 1, 2]), (7, 2, [3, 4]), (6, 3, [2] * 3)],
)
def test_all_places_are_in_use_and_no_owner_has_two_more_than_another(
    dsn: str, schema: str, limit: int, owners: int, expected: list[int]
) -> None:
    async def main() -> None:
        async with PostgresStore(dsn, schema=schema) as store:
            had = await divided(store, limit, owners)
            assert sorted(each[-1] for each in had) == expected
            assert {tuple(each[-4:]) for each in had} == {(each[-1],) * 4 for each in had}  # it stays so

    asyncio.run(main())


def test_owners_take_turns_if_there_are_fewer_places(dsn: str, schema: str) -> None:
    async def main() -> None:
        async with PostgresStore(dsn, schema=schema) as store:
            later = [each[4:] for each in await divided(store, 2, 3)]
            assert all(set(each) == {0, 1} for each in later)

    asyncio.run(main())

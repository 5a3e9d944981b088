"""The contract of stores for large values."""

from __future__ import annotations

from typing import Any

import pytest

from weft.errors import MissingContent, RunNotFound
from weft.testing.contracts.cases import LogAndFactStore, first, more, opened, write


class FactStoreContract:
    """The contract of large values, stored separately from the log.  The store must be a LogStore too."""

    large_fact = 600_000
    """Bytes of a value that counts as large; lower it for a store that takes long for each of them."""

    @pytest.fixture
    def store(self) -> Any:
        """Return an empty store that is not open."""
        raise NotImplementedError("override the fixture `store`: return an empty store, not opened")

    @opened
    async def test_facts_come_back_as_they_were(self, store: LogAndFactStore) -> None:
        large = b"\x00\xff" * (self.large_fact // 2)
        await write(store, first("r", facts={b"h1": large}))
        await store.save_facts("r", {b"h2": b"two"})

        assert dict(await store.load_facts("r", [b"h1", b"h2"])) == {b"h1": large, b"h2": b"two"}

    @opened
    async def test_saving_a_fact_again_changes_nothing(self, store: LogAndFactStore) -> None:
        await write(store, first("r", facts={b"h": b"first"}))
        await store.save_facts("r", {b"h": b"second"})
        await write(store, more("r", 1, facts={b"h": b"third"}))

        assert dict(await store.load_facts("r", [b"h"])) == {b"h": b"first"}

    @opened
    async def test_facts_are_of_one_run(self, store: LogAndFactStore) -> None:
        await write(store, first("a", facts={b"h": b"of a"}), first("b", facts={b"h": b"of b"}), first("c"))

        assert dict(await store.load_facts("b", [b"h"])) == {b"h": b"of b"}
        with pytest.raises(MissingContent, match="fact 68"):
            await store.load_facts("c", [b"h"])

    @opened
    async def test_facts_of_an_unknown_run_are_an_error(self, store: LogAndFactStore) -> None:
        with pytest.raises(RunNotFound):
            await store.save_facts("nope", {b"h": b"x"})
        with pytest.raises(RunNotFound):
            await store.load_facts("nope", [b"h"])

    @opened
    async def test_the_facts_of_what_is_refused_are_not_kept(self, store: LogAndFactStore) -> None:
        await write(store, first("r"))

        (refused,) = await store.append([more("r", 9, facts={b"h": b"x"})])

        assert refused is not None
        with pytest.raises(MissingContent):
            await store.load_facts("r", [b"h"])

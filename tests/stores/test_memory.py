"""The reference store against the contract that it is the reference of."""

from __future__ import annotations

import pytest

from weft.stores import MemoryStore
from weft.testing import (
    FactStoreContract,
    ListableStoreContract,
    LogStoreContract,
    OwnedStoreContract,
    SnapshotStoreContract,
)


class TestMemoryStore(
    LogStoreContract, FactStoreContract, SnapshotStoreContract, OwnedStoreContract, ListableStoreContract
):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()

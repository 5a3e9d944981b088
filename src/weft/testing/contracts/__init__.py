"""
What every adapter must do, as tests to inherit: one class per protocol of the ports.

    class TestRedisStore(LogStoreContract, OwnedStoreContract):
        @pytest.fixture
        def store(self, redis_server):
            return RedisStore(redis_server.url)  # empty, and not opened

They need pytest; nothing else of Weft does.
They are public: a stricter contract is a breaking change, and is announced as one.
"""

from weft.testing.contracts.fact_store import FactStoreContract
from weft.testing.contracts.listable_store import ListableStoreContract
from weft.testing.contracts.log_store import LogStoreContract
from weft.testing.contracts.owned_store import OwnedStoreContract
from weft.testing.contracts.shared_store import SharedStoreContract
from weft.testing.contracts.store import StoreContract

__all__ = [
    "FactStoreContract",
    "ListableStoreContract",
    "LogStoreContract",
    "OwnedStoreContract",
    "SharedStoreContract",
    "StoreContract",
]

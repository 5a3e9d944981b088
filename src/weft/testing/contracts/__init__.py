"""
The contracts of adapters, as tests to inherit: one class per protocol of the ports.

    class TestRedisStore(LogStoreContract, OwnedStoreContract):
        @pytest.fixture
        def store(self, redis_server):
            return RedisStore(redis_server.url)  # empty, and not opened

They need pytest; nothing else in Weft does.  They are imported lazily: a worker process that runs a step of a
contract does not need them.
They are public API: a stricter contract is a breaking change, and is announced as one.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.testing.contracts.deadline_store import DeadlineStoreContract
    from weft.testing.contracts.executor import ConcurrentExecutorContract, ExecutorContract
    from weft.testing.contracts.fact_store import FactStoreContract
    from weft.testing.contracts.fragment import FragmentContract
    from weft.testing.contracts.immediate import ImmediateExecutorContract
    from weft.testing.contracts.inbox_store import InboxStoreContract, SharedInboxContract
    from weft.testing.contracts.job_store import JobStoreContract
    from weft.testing.contracts.lending import LendingExecutorContract
    from weft.testing.contracts.listable_store import ListableStoreContract
    from weft.testing.contracts.log_store import LogStoreContract
    from weft.testing.contracts.owned_store import OwnedStoreContract
    from weft.testing.contracts.queue_store import QueueStoreContract
    from weft.testing.contracts.schedule_store import ScheduleStoreContract
    from weft.testing.contracts.scheduler import SchedulerContract
    from weft.testing.contracts.shared_store import SharedStoreContract
    from weft.testing.contracts.snapshot_store import SnapshotStoreContract
    from weft.testing.contracts.statistics_store import StatisticsStoreContract
    from weft.testing.contracts.store import StoreContract
    from weft.testing.contracts.stream_store import StreamStoreContract
    from weft.testing.contracts.transactional_store import TransactionalStoreContract
    from weft.testing.contracts.truncating_store import TruncatingStoreContract
    from weft.testing.contracts.unique_store import UniqueStoreContract
    from weft.testing.contracts.waiting_store import WaitingStoreContract

__all__ = [
    "ConcurrentExecutorContract",
    "DeadlineStoreContract",
    "ExecutorContract",
    "FactStoreContract",
    "FragmentContract",
    "ImmediateExecutorContract",
    "InboxStoreContract",
    "JobStoreContract",
    "LendingExecutorContract",
    "ListableStoreContract",
    "LogStoreContract",
    "OwnedStoreContract",
    "QueueStoreContract",
    "ScheduleStoreContract",
    "SchedulerContract",
    "SharedInboxContract",
    "SharedStoreContract",
    "SnapshotStoreContract",
    "StatisticsStoreContract",
    "StoreContract",
    "StreamStoreContract",
    "TransactionalStoreContract",
    "TruncatingStoreContract",
    "UniqueStoreContract",
    "WaitingStoreContract",
]

_HOMES = {
    "ConcurrentExecutorContract": "executor",
    "DeadlineStoreContract": "deadline_store",
    "ExecutorContract": "executor",
    "FactStoreContract": "fact_store",
    "FragmentContract": "fragment",
    "ImmediateExecutorContract": "immediate",
    "InboxStoreContract": "inbox_store",
    "JobStoreContract": "job_store",
    "LendingExecutorContract": "lending",
    "ListableStoreContract": "listable_store",
    "LogStoreContract": "log_store",
    "OwnedStoreContract": "owned_store",
    "QueueStoreContract": "queue_store",
    "ScheduleStoreContract": "schedule_store",
    "SchedulerContract": "scheduler",
    "SharedInboxContract": "inbox_store",
    "SharedStoreContract": "shared_store",
    "SnapshotStoreContract": "snapshot_store",
    "TruncatingStoreContract": "truncating_store",
    "StatisticsStoreContract": "statistics_store",
    "StoreContract": "store",
    "StreamStoreContract": "stream_store",
    "TransactionalStoreContract": "transactional_store",
    "UniqueStoreContract": "unique_store",
    "WaitingStoreContract": "waiting_store",
}

if "pytest" in sys.modules:
    sys.modules["pytest"].register_assert_rewrite(*(f"{__name__}.{home}" for home in dict.fromkeys(_HOMES.values())))


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

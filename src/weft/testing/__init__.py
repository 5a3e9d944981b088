"""
Tools for testing workflows, stores and executors.

Each of them is imported when it is used: the contracts need pytest, and the pytest plugin should cost nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.testing.checking import run_checked
    from weft.testing.clock import VirtualClock
    from weft.testing.contracts import (
        ConcurrentExecutorContract,
        DeadlineStoreContract,
        ExecutorContract,
        FactStoreContract,
        FragmentContract,
        ImmediateExecutorContract,
        InboxStoreContract,
        JobStoreContract,
        LendingExecutorContract,
        ListableStoreContract,
        LogStoreContract,
        OwnedStoreContract,
        QueueStoreContract,
        SchedulerContract,
        ScheduleStoreContract,
        SharedInboxContract,
        SharedStoreContract,
        SnapshotStoreContract,
        StatisticsStoreContract,
        StoreContract,
        StreamStoreContract,
        TransactionalStoreContract,
        TruncatingStoreContract,
        UniqueStoreContract,
        WaitingStoreContract,
    )
    from weft.testing.durability import DurabilityReport, check_durability
    from weft.testing.faults import Fault, FaultyStore
    from weft.testing.loop import VirtualLoop, run_virtually
    from weft.testing.recording import RecordingStore
    from weft.testing.runner import TestRunner
    from weft.testing.simulation.process import Weather
    from weft.testing.simulation.scenario import Jump, Scenario, Signal, Trial
    from weft.testing.simulation.simulation import Report, simulate

__all__ = [
    "ConcurrentExecutorContract",
    "DeadlineStoreContract",
    "DurabilityReport",
    "ExecutorContract",
    "FactStoreContract",
    "Fault",
    "FaultyStore",
    "FragmentContract",
    "ImmediateExecutorContract",
    "InboxStoreContract",
    "JobStoreContract",
    "Jump",
    "LendingExecutorContract",
    "ListableStoreContract",
    "LogStoreContract",
    "OwnedStoreContract",
    "QueueStoreContract",
    "RecordingStore",
    "Report",
    "Scenario",
    "ScheduleStoreContract",
    "SchedulerContract",
    "SharedInboxContract",
    "SharedStoreContract",
    "Signal",
    "SnapshotStoreContract",
    "StatisticsStoreContract",
    "StoreContract",
    "StreamStoreContract",
    "TestRunner",
    "TransactionalStoreContract",
    "Trial",
    "TruncatingStoreContract",
    "UniqueStoreContract",
    "VirtualClock",
    "VirtualLoop",
    "WaitingStoreContract",
    "Weather",
    "check_durability",
    "run_checked",
    "run_virtually",
    "simulate",
]

_MODULES = {
    "check_durability": "weft.testing.durability",
    "DurabilityReport": "weft.testing.durability",
    "Fault": "weft.testing.faults",
    "FaultyStore": "weft.testing.faults",
    "Jump": "weft.testing.simulation.scenario",
    "RecordingStore": "weft.testing.recording",
    "Report": "weft.testing.simulation.simulation",
    "run_checked": "weft.testing.checking",
    "run_virtually": "weft.testing.loop",
    "Scenario": "weft.testing.simulation.scenario",
    "Signal": "weft.testing.simulation.scenario",
    "simulate": "weft.testing.simulation.simulation",
    "TestRunner": "weft.testing.runner",
    "Trial": "weft.testing.simulation.scenario",
    "VirtualClock": "weft.testing.clock",
    "VirtualLoop": "weft.testing.loop",
    "Weather": "weft.testing.simulation.process",
}
"""Where each name is; those that are not here are contracts."""


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(importlib.import_module(_MODULES.get(name, "weft.testing.contracts")), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""
Tools for testing workflows, stores and executors.

The contracts need pytest; they are imported lazily, so that nothing else here does.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from weft.testing.checking import run_checked
from weft.testing.clock import VirtualClock
from weft.testing.faults import Fault, FaultyStore
from weft.testing.loop import VirtualLoop, run_virtually
from weft.testing.recording import RecordingStore
from weft.testing.runner import TestRunner
from weft.testing.simulation.process import Weather
from weft.testing.simulation.scenario import Jump, Scenario, Signal, Trial
from weft.testing.simulation.simulation import Report, simulate

if TYPE_CHECKING:
    from weft.testing.contracts import (
        ConcurrentExecutorContract,
        ExecutorContract,
        FactStoreContract,
        FragmentContract,
        ImmediateExecutorContract,
        InboxStoreContract,
        LendingExecutorContract,
        ListableStoreContract,
        LogStoreContract,
        OwnedStoreContract,
        SchedulerContract,
        SharedInboxContract,
        SharedStoreContract,
        StoreContract,
    )

__all__ = [
    "ConcurrentExecutorContract",
    "ExecutorContract",
    "FactStoreContract",
    "Fault",
    "FaultyStore",
    "FragmentContract",
    "ImmediateExecutorContract",
    "InboxStoreContract",
    "Jump",
    "LendingExecutorContract",
    "ListableStoreContract",
    "LogStoreContract",
    "OwnedStoreContract",
    "RecordingStore",
    "Report",
    "Scenario",
    "SchedulerContract",
    "SharedInboxContract",
    "SharedStoreContract",
    "Signal",
    "StoreContract",
    "TestRunner",
    "Trial",
    "VirtualClock",
    "VirtualLoop",
    "Weather",
    "run_checked",
    "run_virtually",
    "simulate",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(importlib.import_module("weft.testing.contracts"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""
The defaults of a runner: its store, clock, executors and counters.  Adapters are imported when they are needed.
"""

from __future__ import annotations

from typing import Any

from weft.ports.clock import Clock
from weft.ports.counters import Counters
from weft.ports.executor import Executor
from weft.ports.store import LogStore, Store


def store(given: Store | None) -> LogStore:
    """Return *given*, as a store whose logs grow; one that lives as long as the process if there is none."""
    if given is None:
        from weft.stores import MemoryStore

        return MemoryStore()
    if isinstance(given, LogStore):
        return given
    from weft.stores.whole_log import WholeLogAdapter

    return WholeLogAdapter(given)


def clock() -> Clock:
    """Return the time of this machine."""
    from weft.local.clock import SystemClock

    return SystemClock()


def counters() -> Counters:
    """Return the states of limits that all runs of this process share."""
    from weft.local.counters import COUNTERS

    return COUNTERS


def executors(*, threads: int | None = None, processes: int | None = None) -> dict[str, Executor]:
    """Return an executor of each kind, by the name that policies use."""
    from weft.executors import InlineExecutor, ProcessExecutor, TaskExecutor, ThreadExecutor

    sized: dict[str, Any] = {} if threads is None else {"max_workers": threads}
    found: dict[str, Executor] = {
        "inline": InlineExecutor(),
        "async": TaskExecutor(),
        "thread": ThreadExecutor(**sized),
    }
    found["process"] = ProcessExecutor(**({} if processes is None else {"max_workers": processes}))
    return found

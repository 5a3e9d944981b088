"""
The defaults of a runner: its store, clock, executors and counters.  Adapters are imported when they are needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from weft.errors import InvalidOption
from weft.ports.clock import Clock
from weft.ports.counters import Counters
from weft.ports.executor import Executor
from weft.ports.scheduler import Scheduler
from weft.ports.store import LogStore, Store

_USE: Final = (
    "use the path of a file ('runs.db' or 'sqlite:runs.db'), 'postgresql://user@host/database', 'memory:', "
    "or a store such as SQLiteStore(path)"
)


def store(given: Store | str | Path | None) -> LogStore:
    """
    Return *given*, a store or where to find one, as a store whose logs grow; a store in memory if it is None.

    Raises:
        InvalidOption: it is neither.
    """
    if given is None or isinstance(given, str | Path):
        return _store_at("memory:" if given is None else given)
    if isinstance(given, type) or not isinstance(given, Store):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidOption(f"Runner({given!r:.60}): {_lacks(given) or _USE}")
    if isinstance(given, LogStore):
        return given
    from weft.stores.whole_log import as_log_store

    return as_log_store(given)


def _lacks(given: Any) -> str | None:
    """Return, in words, what *given* lacks to be a store; None if it is not meant to be one."""
    needs = ("open", "close", "is_open", "save", "load")
    missing = [name for name in needs if not hasattr(given, name)]
    if isinstance(given, type) or len(missing) > 2:
        return None
    return f"it has no {' and no '.join(missing)}, and a store needs {', '.join(needs)}; see weft.ports.store.Store"


def _store_at(where: str | Path) -> LogStore:
    """Return the store at *where*: a path of a file, ``sqlite:`` and one, ``postgresql://...``, or ``memory:``."""
    import weft.stores as stores  # each of them is imported when it is first used

    scheme, colon, rest = str(where).partition(":")
    if isinstance(where, Path) or not colon or len(scheme) == 1:  # the letter of a drive
        if not str(where).strip():
            raise InvalidOption(f"Runner({where!r}): {_USE}")
        return stores.SQLiteStore(where)
    if scheme == "memory" and not rest:
        return stores.MemoryStore()
    if scheme == "sqlite" and rest:
        return stores.SQLiteStore(rest.removeprefix("//"))
    if scheme in {"postgresql", "postgres"} and rest.startswith("//"):
        return stores.PostgresStore(str(where))
    raise InvalidOption(f"Runner({where!r}): {_USE}")


def scheduler(given: Scheduler | None) -> Scheduler | None:
    """
    Return *given*, or None if every runnable goes out by itself: then the scheduler is not asked.

    Raises:
        InvalidOption: it is not a scheduler.
    """
    from weft.schedulers import Default

    if given is None or isinstance(given, Default):
        return None
    if isinstance(given, type) or not isinstance(given, Scheduler):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidOption(f"scheduler={given!r:.60}: use a scheduler such as weft.schedulers.ChainBatching()")
    return given


def clock() -> Clock:
    """Return the clock of this machine."""
    from weft.local.clock import SystemClock

    return SystemClock()


def counters() -> Counters:
    """Return the states of limits that all runs of this process share."""
    from weft.local.counters import COUNTERS

    return COUNTERS


def executors(
    *, threads: int | None = None, processes: int | None = None, blocking_threshold: float | None = None
) -> dict[str, Executor]:
    """Return an executor of each kind, by the name that policies use."""
    from weft.executors import InlineExecutor, ProcessExecutor, TaskExecutor, ThreadExecutor

    sized: dict[str, Any] = {} if threads is None else {"max_workers": threads}
    found: dict[str, Executor] = {
        "inline": InlineExecutor(),
        "async": TaskExecutor(blocking_threshold=blocking_threshold),
        "thread": ThreadExecutor(**sized),
    }
    found["process"] = ProcessExecutor(**({} if processes is None else {"max_workers": processes}))
    return found

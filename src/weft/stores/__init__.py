"""Where runs are kept: adapters of :mod:`weft.ports.store`."""

from weft.stores.memory import MemoryStore
from weft.stores.sqlite import SQLiteStore

__all__ = ["MemoryStore", "SQLiteStore"]

"""Where runs are kept: adapters of :mod:`weft.ports.store`."""

from weft.stores.memory import MemoryStore
from weft.stores.postgres import PostgresStore
from weft.stores.sqlite import SQLiteStore, SQLiteView

__all__ = ["MemoryStore", "PostgresStore", "SQLiteStore", "SQLiteView"]

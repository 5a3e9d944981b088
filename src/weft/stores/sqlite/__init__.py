"""Runs in one SQLite file: durable on one machine, shared by its processes."""

from weft.stores.sqlite.store import SQLiteStore
from weft.stores.sqlite.view import SQLiteView

__all__ = ["SQLiteStore", "SQLiteView"]

"""Runs in one SQLite file: durable on one machine, shared by its processes."""

from weft.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]

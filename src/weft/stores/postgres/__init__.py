"""Runs in a PostgreSQL database, which many processes on many machines share."""

from weft.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]

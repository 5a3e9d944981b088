"""
Translates the errors of PostgreSQL and of the network into those of :mod:`weft.errors`.

An error that a second try could overcome is a ``StoreUnavailable``: a lost connection, a server that starts or stops,
a timeout, too many connections, a full disk.  The others are final until a person does something about them.
PostgreSQL names errors by codes of five characters, of which the first two are the class.
"""

from __future__ import annotations

from typing import Final

from weft.errors import CorruptStore, InvalidStoreOption, ReadOnlyStore, StoreError, StoreFull, StoreUnavailable

AGAIN: Final = frozenset({"40001", "40P01"})
"""Serialization failures and deadlocks: the same statement succeeds if it is executed again."""

_BAD_DATA_CLASSES: Final = frozenset({"22", "23", "54"})  # data, constraints, limits of the program
_UNIQUE: Final = "23505"
_NOT_PREPARED: Final = frozenset({"26000", "42P05"})
_HINT: Final = "HINT:"
"""The rest of a message is advice for users of the driver."""
_FULL: Final = frozenset({"53100"})
_NOT_ALLOWED: Final = frozenset({"42501"})
_STANDBY: Final = frozenset({"25006"})
"""The server takes no writes: during a failover the address answers as a standby for a moment."""
_NO_TABLES: Final = frozenset({"42P01", "42703", "3F000"})
_WRONG_DSN_CLASSES: Final = frozenset({"28", "3D"})  # authorization, no such database
_UNAVAILABLE_CLASSES: Final = frozenset({"08", "53", "55", "57", "58", "40"})


def code_of(error: BaseException) -> str:
    """Return the code that PostgreSQL gave *error*; empty if it comes from elsewhere."""
    code = getattr(error, "sqlstate", None)
    return code if isinstance(code, str) else ""


def is_bad_data(error: Exception) -> bool:
    """Whether *error* is about the values of a statement, not about the store."""
    if code_of(error)[:2] in _BAD_DATA_CLASSES:
        return True
    # The driver refuses what it cannot encode; a ValueError of it is not an OSError or about the connection.
    return isinstance(error, OverflowError | TypeError | ValueError) and not is_connection_lost(error)


def is_taken_key(error: Exception) -> bool:
    """Whether a run was to go on whose unique key another one has."""
    return code_of(error) == _UNIQUE and getattr(error, "constraint_name", None) == "weft_runs_by_unique_key"


def is_connection_lost(error: BaseException) -> bool:
    """Whether the connection cannot be used any more, or the server was not reached."""
    if isinstance(error, OSError | EOFError | TimeoutError):
        return True
    return code_of(error)[:2] in {"08", "57"} or type(error).__name__ in {"InterfaceError", "InternalClientError"}


def problem(store: str, error: Exception) -> StoreError:
    """Return *error* of *store* as one of Weft's errors."""
    if isinstance(error, StoreError):
        return error
    said, code = str(error) or type(error).__name__, code_of(error)
    if code in _FULL:
        return StoreFull(store, said)
    if code in _NOT_ALLOWED:
        return ReadOnlyStore(store, said)
    if code in _STANDBY:
        return StoreUnavailable(store, f"{said}; it is a standby, or set to read only")
    if code in _NO_TABLES:
        return CorruptStore(store, said)
    if code in _NOT_PREPARED:
        return InvalidStoreOption(
            f"{store} is behind a pooler that loses prepared statements ({said.partition(_HINT)[0].strip()}); "
            "write ?prepared=false after its address, or open it with PostgresStore(..., prepared=False)"
        )
    if code[:2] in _WRONG_DSN_CLASSES:
        return InvalidStoreOption(f"{store} cannot be opened: {said}; check the user, the password and the database")
    if code[:2] in _UNAVAILABLE_CLASSES or is_connection_lost(error):
        return StoreUnavailable(store, said)
    if is_bad_data(error):
        return InvalidStoreOption(f"{store} cannot store one of the values: {said}")
    return StoreError(f"{store} has failed: {said}")

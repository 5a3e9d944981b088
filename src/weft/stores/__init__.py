"""Where runs are kept: adapters of :mod:`weft.ports.store`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.stores.memory import MemoryStore
    from weft.stores.postgres import PostgresStore
    from weft.stores.sqlite import SQLiteStore, SQLiteView
else:
    from weft.lazy_names import lazy_names

    __getattr__ = lazy_names(
        __name__,
        {
            "weft.stores.memory": ("MemoryStore",),
            "weft.stores.postgres": ("PostgresStore",),
            "weft.stores.sqlite": ("SQLiteStore", "SQLiteView"),
        },
    )

__all__ = ["MemoryStore", "PostgresStore", "SQLiteStore", "SQLiteView"]


def __dir__() -> list[str]:
    return __all__

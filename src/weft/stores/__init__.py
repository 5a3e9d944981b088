"""Where runs are kept: adapters of :mod:`weft.ports.store`."""

from weft.stores.memory import MemoryStore

__all__ = ["MemoryStore"]

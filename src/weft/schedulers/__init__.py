"""The schedulers, which group runnables: adapters of :class:`weft.ports.scheduler.Scheduler`."""

from weft.schedulers.chain_batching import ChainBatching
from weft.schedulers.default import Default

__all__ = ["ChainBatching", "Default"]

"""Many runs in one process: durable, supervised, addressable by id."""

from weft.runner.blocking import Runner
from weft.runner.checkpoints import Checkpoints, every_cycle, every_n, manual, on_complete, pipelined
from weft.runner.durability.residency import Evicted
from weft.runner.execution.streams import StreamItem
from weft.runner.handle import AsyncHandle, AsyncHandles, Handle, Handles
from weft.runner.options import WorkerHooks
from weft.runner.runner import AsyncRunner

__all__ = [
    "AsyncHandle",
    "AsyncHandles",
    "AsyncRunner",
    "Checkpoints",
    "Evicted",
    "Handle",
    "Handles",
    "Runner",
    "StreamItem",
    "WorkerHooks",
    "every_cycle",
    "every_n",
    "manual",
    "on_complete",
    "pipelined",
]

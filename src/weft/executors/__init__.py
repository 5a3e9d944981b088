"""The executors, which run runnables: adapters of :class:`weft.ports.executor.Executor`."""

from typing import TYPE_CHECKING, Any

from weft.executors.inline import InlineExecutor
from weft.executors.processes import ProcessExecutor
from weft.executors.tasks import TaskExecutor
from weft.executors.threads import ThreadExecutor

if TYPE_CHECKING:
    from weft.executors.cluster.dask import DaskExecutor
    from weft.executors.cluster.ray import RayExecutor

__all__ = ["DaskExecutor", "InlineExecutor", "ProcessExecutor", "RayExecutor", "TaskExecutor", "ThreadExecutor"]


def __getattr__(name: str) -> Any:
    """Import the executors of clusters when they are asked for, since they are seldom used."""
    if name == "RayExecutor":
        from weft.executors.cluster.ray import RayExecutor

        return RayExecutor
    if name == "DaskExecutor":
        from weft.executors.cluster.dask import DaskExecutor

        return DaskExecutor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

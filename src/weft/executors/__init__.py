"""The executors, which run runnables: adapters of :class:`weft.ports.executor.Executor`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.executors.cluster.dask import DaskExecutor
    from weft.executors.cluster.ray import RayExecutor
    from weft.executors.inline import InlineExecutor
    from weft.executors.processes import ProcessExecutor
    from weft.executors.tasks import TaskExecutor
    from weft.executors.threads import ThreadExecutor
else:
    from weft.lazy_names import lazy_names

    __getattr__ = lazy_names(
        __name__,
        {
            "weft.executors.cluster.dask": ("DaskExecutor",),
            "weft.executors.cluster.ray": ("RayExecutor",),
            "weft.executors.inline": ("InlineExecutor",),
            "weft.executors.processes": ("ProcessExecutor",),
            "weft.executors.tasks": ("TaskExecutor",),
            "weft.executors.threads": ("ThreadExecutor",),
        },
    )

__all__ = ["DaskExecutor", "InlineExecutor", "ProcessExecutor", "RayExecutor", "TaskExecutor", "ThreadExecutor"]


def __dir__() -> list[str]:
    return __all__

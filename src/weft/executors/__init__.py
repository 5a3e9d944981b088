"""The executors, which run runnables: adapters of :class:`weft.ports.executor.Executor`."""

from weft.executors.inline import InlineExecutor
from weft.executors.processes import ProcessExecutor
from weft.executors.tasks import TaskExecutor
from weft.executors.threads import ThreadExecutor

__all__ = ["InlineExecutor", "ProcessExecutor", "TaskExecutor", "ThreadExecutor"]

"""
Execution on a Ray cluster, by actors that each run one step at a time.

A cancelled step is stopped by killing its actor; another one takes its place.  An actor that dies, alone or with its
node, fails the attempt that it was running.  An actor sends outcomes and reports while it runs, by a streaming
generator, so that of a parcel only the attempt in progress can be lost.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from weft.errors import ClusterUnreachable
from weft.executors.cluster.executor import CAPACITY, ClusterExecutor, Slot
from weft.executors.cluster.remote import extend_path, stream

__all__ = ["RayExecutor"]


class RayExecutor(ClusterExecutor):
    """
    Runs functions on a Ray cluster.

    Args:
        address: of the cluster, as ``ray.init`` takes it; by default the one that this process is connected to, or the
            one of ``RAY_ADDRESS``, or else a new one on this machine, which ends with the executor.
        max_workers: how many actors it uses; by default as many as the cluster has processors now.
        actor_options: what ``ray.remote`` takes for actors, such as ``{"num_cpus": 2, "resources": {"gpu_box": 1}}``.
        capacity: how many tickets may be inside, waiting ones and uncollected ones included.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        max_workers: int | None = None,
        actor_options: Mapping[str, Any] | None = None,
        capacity: int = CAPACITY,
    ) -> None:
        super().__init__(capacity=capacity)
        if max_workers is not None and max_workers < 1:
            raise ValueError(f"max_workers={max_workers!r}: use a number of at least 1")
        self._address, self._max_workers = address, max_workers
        self._options: dict[str, Any] = {"num_cpus": 1, **(actor_options or {})}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_own = False
        """Whether this executor has connected the process to Ray, and so disconnects it."""

    def connect(self) -> None:
        """Connect to Ray, unless this process is connected already."""
        try:
            ray: Any = importlib.import_module("ray")
        except ImportError as error:
            raise ClusterUnreachable("RayExecutor", "Ray is not installed", "pip install 'weft[ray]'") from error
        self._ray = ray
        if not ray.is_initialized():
            try:
                ray.init(self._address, log_to_driver=False, include_dashboard=False, configure_logging=False)
            except Exception as error:
                hint = "check the address, and that `ray status` works there"
                raise ClusterUnreachable("RayExecutor", str(error), hint) from error
            self._is_own = True
        self._actor = ray.remote(**{**self._options, "max_restarts": 0, "max_task_retries": 0})(_Actor)
        workers = self._max_workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._slots.extend(Slot() for _ in range(workers))

    def send(self, slot: Slot, frames: list[bytes]) -> None:
        """Have the actor of *slot* run *frames*."""
        if slot.worker is None:
            slot.worker = self._actor.remote(sys.path)
        task = self._loop.create_task(self._follow(slot, slot.worker, frames))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(self, slot: Slot, actor: Any, frames: list[bytes]) -> None:
        """Take what *actor* says about *frames*."""
        has_begun = False
        try:
            await actor.ready.remote()  # an actor waits for a processor of the cluster, and that is not its step's time
            if slot.worker is not actor:
                return
            has_begun = True
            self.began(slot)
            async for reference in actor.run.options(num_returns="streaming").remote(frames):
                sent = await reference
                if slot.worker is not actor:  # stopped since
                    return
                for frame in sent:
                    self.arrived(slot, frame)
        except self._ray.exceptions.RayError as error:
            if slot.worker is actor:
                slot.worker = None
                self.lost(slot, _first_line(error), has_begun=has_begun)
            return
        if slot.worker is actor:
            self.done(slot)

    def stop(self, slot: Slot) -> None:
        """Kill the actor of *slot*."""
        actor, slot.worker = slot.worker, None
        if actor is not None:
            self._ray.kill(actor)

    async def disconnect(self) -> None:
        """Kill the actors, and disconnect from a cluster that this executor has connected to."""
        for slot in self._slots:
            self.stop(slot)
        for task in tuple(self._tasks):
            task.cancel()
        if self._is_own:
            await self._loop.run_in_executor(None, partial(self._ray.shutdown))


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class _Actor:
    """A worker process of Ray."""

    def __init__(self, path: Sequence[str]) -> None:
        extend_path(path)

    def ready(self) -> None:
        """Return when the actor has been started."""

    def run(self, frames: list[bytes]) -> Any:
        """Yield what the steps of *frames* send."""
        yield from stream(frames)

"""
Execution on a Dask cluster: each thread of a Dask worker runs one parcel at a time.

A parcel is one task, bound to one worker: otherwise Dask would run the tasks of a lost worker again on another one, and
repeat an attempt that may have had its effects, although its policy decides that.  A plugin of the scheduler reports
which workers have come and gone.

Reports of a running step and small outcomes are sent at once, as events of Dask; a large outcome is part of the result
of the task, since the scheduler keeps the latest events.

Dask cannot stop a thread: a step that was cancelled keeps its thread until it ends, as on threads of this process.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
import uuid
from collections.abc import Sequence
from time import monotonic
from typing import Any, Final

from weft.errors import ClusterUnreachable
from weft.executors.cluster.executor import CAPACITY, ClusterExecutor, Slot
from weft.executors.cluster.remote import extend_path, serve

__all__ = ["DaskExecutor"]

SMALL: Final = 1 << 14
"""How many bytes of frames are sent as an event; the scheduler keeps the latest thousand."""
LONGEST: Final = 10.0
"""Seconds to try a connection."""
_ASKING: Final = 0.02


class DaskExecutor(ClusterExecutor):
    """
    Runs functions on a Dask cluster.

    Args:
        cluster: the address of its scheduler, or a ``distributed.Client`` or cluster object of yours, which stays open.
        max_workers: how many threads of the cluster it uses at most; by default all.
        capacity: how many tickets may be inside, waiting ones and uncollected ones included.
    """

    can_stop = False

    def __init__(self, cluster: Any, *, max_workers: int | None = None, capacity: int = CAPACITY) -> None:
        super().__init__(capacity=capacity)
        if max_workers is not None and max_workers < 1:
            raise ValueError(f"max_workers={max_workers!r}: use a number of at least 1")
        self._cluster, self._max_workers = cluster, max_workers
        self._topic = f"weft-{uuid.uuid4().hex}"
        self._parcels: dict[str, tuple[Slot, Any]] = {}
        """By the key of its task: the slot of a parcel, and its future."""
        self._client: Any = None
        self._members: dict[str, int] = {}
        """The workers of the cluster, and how many threads each has."""
        self._is_own = False
        self._is_heard = threading.Event()
        """Set when the first event has come: from then on none is missed."""

    def connect(self) -> None:
        """Connect to the scheduler, and learn which workers there are."""
        try:
            distributed: Any = importlib.import_module("distributed")
        except ImportError as error:
            raise ClusterUnreachable("DaskExecutor", "Dask is not installed", "pip install 'weft[dask]'") from error
        if isinstance(self._cluster, distributed.Client):
            self._client = self._cluster
        else:
            try:
                self._client = distributed.Client(self._cluster, timeout=LONGEST, set_as_default=False)
            except Exception as error:
                hint = "pass the address of a scheduler that runs, such as tcp://127.0.0.1:8786"
                raise ClusterUnreachable("DaskExecutor", str(error) or type(error).__name__, hint) from error
            self._is_own = True
        self._client.subscribe_topic(self._topic, self._heard)
        end = monotonic() + LONGEST
        while not self._is_heard.wait(_ASKING):  # messages before the scheduler knows of us would be missed
            if monotonic() > end:
                hint = "check that its scheduler is not overloaded"
                raise ClusterUnreachable("DaskExecutor", f"no event has come back within {LONGEST:g} s", hint)
            self._client.log_event(self._topic, {"listening": True})
        self._client.register_plugin(_plugin(distributed.SchedulerPlugin, self._topic), name=self._topic)

    def _heard(self, event: tuple[float, Any]) -> None:
        """Take an event of the cluster; called in the thread of its client."""
        self._is_heard.set()
        try:
            self._loop.call_soon_threadsafe(self._take, event[1])
        except RuntimeError:
            if not self._loop.is_closed():  # otherwise nothing waits any more
                raise

    def _take(self, message: dict[str, Any]) -> None:
        match message:
            case {"key": key, "frames": frames}:
                for frame in frames if key in self._parcels else ():
                    self.arrived(self._parcels[key][0], frame)
            case {"key": key}:
                if key in self._parcels:
                    self.began(self._parcels[key][0])
            case {"joined": address, "threads": threads}:
                self._joined(address, threads)
            case {"left": address}:
                self._left(address)
            case _:
                pass

    def _joined(self, address: str, threads: int) -> None:
        self._members[address] = threads
        self._use_members()

    def _left(self, address: str) -> None:
        self._members.pop(address, None)
        gone = [slot for slot in self._slots if slot.worker == address]
        self._slots = [slot for slot in self._slots if slot.worker != address]
        for slot in gone:
            slot.is_gone = True
            for key in [key for key, (busy, _) in self._parcels.items() if busy is slot]:
                self._parcels.pop(key)[1].cancel()
            self.lost(slot, f"the worker {address} has left the cluster")
        self._use_members()

    def _use_members(self) -> None:
        """Use the threads of every worker of the cluster, as far as they may be used."""
        used = {slot.worker for slot in self._slots}
        for address, threads in self._members.items():
            left = threads if self._max_workers is None else min(threads, self._max_workers - len(self._slots))
            if address not in used:
                self._slots.extend(Slot(address) for _ in range(left))
        self._send_soon()

    def send(self, slot: Slot, frames: list[bytes]) -> None:
        """Have a thread of the worker of *slot* run *frames*."""
        key = f"{self._topic}-{uuid.uuid4().hex}"
        future = self._client.submit(
            run_parcel, self._topic, key, frames, sys.path, workers=[slot.worker], allow_other_workers=False, key=key
        )
        self._parcels[key] = slot, future
        self._client.loop.add_callback(self._follow, key, future)

    async def _follow(self, key: str, future: Any) -> None:
        """Wait for a task, in the thread of the client, and hand over how it ended."""
        try:
            rest: Any = await self._client.gather(future, asynchronous=True)
            told: tuple[Any, ...] = (self._ended, key, rest, "")
        except asyncio.CancelledError:
            return  # its worker has left, or the executor is closed
        except Exception as error:  # noqa: BLE001 - whatever Dask says of it, the attempt has failed
            told = (self._ended, key, [], f"{type(error).__name__}: {error}")
        try:
            self._loop.call_soon_threadsafe(*told)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def _ended(self, key: str, rest: Sequence[bytes], why: str) -> None:
        found = self._parcels.pop(key, None)
        if found is None:
            return
        slot, _ = found
        if why:
            self.lost(slot, why)
            return
        for frame in rest:
            self.arrived(slot, frame)
        self.done(slot)

    def stop(self, slot: Slot) -> None:
        """Do nothing: a thread of Dask cannot be stopped."""

    async def disconnect(self) -> None:
        """Cancel what has not begun, and disconnect."""
        parcels, self._parcels = self._parcels, {}

        def end() -> None:
            self._client.cancel([future for _, future in parcels.values()])
            self._client.unsubscribe_topic(self._topic)
            self._client.unregister_scheduler_plugin(self._topic)
            if self._is_own:
                self._client.close()

        await self._loop.run_in_executor(None, end)


def run_parcel(topic: str, key: str, frames: list[bytes], path: Sequence[str]) -> list[bytes]:
    """Run *frames* on a worker of Dask; return the outcomes that are too large for events."""
    extend_path(path)
    worker: Any = importlib.import_module("distributed").get_worker()
    large: list[bytes] = []

    def send(frames: list[bytes]) -> None:
        if large or sum(map(len, frames)) > SMALL:  # in order: what follows a large one comes with it
            large.extend(frames)
        else:
            worker.log_event(topic, {"key": key, "frames": frames})

    worker.log_event(topic, {"key": key})
    serve(frames, send)
    return large


def _plugin(base: Any, topic: str) -> Any:
    """Return the plugin of the scheduler that tells which workers there are."""

    class Membership(base):  # type: ignore[misc]  # Dask has no types
        """Tells the executor of every worker that comes and goes."""

        async def start(self, scheduler: Any) -> None:
            """Tell of the workers that are there."""
            self.scheduler = scheduler
            for address, state in scheduler.workers.items():
                scheduler.log_event(topic, {"joined": address, "threads": state.nthreads})

        def add_worker(self, scheduler: Any, worker: str) -> None:
            """Tell of a worker that has come."""
            scheduler.log_event(topic, {"joined": worker, "threads": scheduler.workers[worker].nthreads})

        def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
            """Tell of a worker that has gone."""
            scheduler.log_event(topic, {"left": worker})

    return Membership()

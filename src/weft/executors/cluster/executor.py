"""
The tickets of an executor on a cluster, whichever that is.

Work waits here until a worker of the cluster is free, and is then sent in parcels.  The states of a ticket:

    waiting ──► sent ──► running ──► ended ──► collected
       ▲         │          │
       └─────────┤          └──► lost: this attempt has failed
       its worker was lost

Invariants:

1. A worker has one parcel at a time, and its runnables run one after the other: of a parcel at most one is running.
2. A worker that is lost fails the attempt that was running there.  What had not begun waits again, before the others.
3. A ticket that was cancelled is never collected.  A running one is stopped with its worker where the cluster can do
   that; where it cannot, the worker is busy until the step ends.
4. Everything here happens in the thread of the owner; a cluster passes outcomes and reports to it by the event loop.

A cluster is a subclass that knows how to connect, to send a parcel and to stop a worker.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic, perf_counter_ns
from typing import Any, Final

from weft.calling import failed
from weft.core.run.runnable import Outcome, Runnable
from weft.errors import ExecutorClosed, ExecutorFull, WorkerDied
from weft.executors.cluster.frames import pack, report_in, unpack_outcome
from weft.executors.cluster.parcels import Times
from weft.executors.outbox import Outbox
from weft.executors.reports import pass_on
from weft.executors.transfer import is_sign_of_life, ticket_of

CAPACITY: Final = 4_000
LARGEST: Final = 1 << 22
"""How many bytes of frames are sent together, about."""
_LOST = "it may have crashed, or its node was lost or is out of memory; a retry runs it on another one"


class Work:
    """One ticket inside the executor."""

    __slots__ = ("is_cancelled", "runnable", "started", "ticket")

    def __init__(self, ticket: int, runnable: Runnable) -> None:
        self.ticket, self.runnable = ticket, runnable
        self.started: float | None = None
        """When it began, by ``time.monotonic``."""
        self.is_cancelled = False


class Slot:
    """A worker of the cluster, or one of its threads, which runs one parcel at a time."""

    __slots__ = ("is_busy", "is_gone", "parcel", "worker")

    def __init__(self, worker: Any = None) -> None:
        self.worker = worker
        self.parcel: deque[Work] = deque()
        """The work that it was sent and has not answered; the first one is running."""
        self.is_busy = False
        """Whether it was sent a parcel and has not said that it is done; it may have answered everything before."""
        self.is_gone = False


class _Components:
    """The components of waiting work, in order."""

    def __init__(self, waiting: dict[int, Work]) -> None:
        self._waiting = waiting

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[str]:
        return (work.runnable.component for work in self._waiting.values())


class ClusterExecutor:
    """An executor whose work is done by the workers of a cluster."""

    can_stop = True
    """Whether a worker can be stopped in the middle of a step."""

    def __init__(self, *, capacity: int = CAPACITY) -> None:
        if capacity < 1:
            raise ValueError(f"capacity={capacity!r}: use a number of at least 1")
        self.capacity = capacity
        self._name = type(self).__name__
        self._outbox: Outbox[tuple[int, Outcome | None]] | None = None
        self._waiting: dict[int, Work] = {}
        self._works: dict[int, Work] = {}
        """Every ticket that has not ended, cancelled or not."""
        self._live: dict[int, None] = {}
        """The tickets that are to be collected."""
        self._places = 0
        """How many tickets are inside: not ended, or not collected."""
        self._slots: list[Slot] = []
        self._times = Times()
        self._is_open = self._is_sending = False
        self._changed: asyncio.Event | None = None
        """Set when something ends, while the executor is being closed."""

    # -- what a cluster does -----------------------------------------------------------------------

    def connect(self) -> None:
        """Connect to the cluster, and add its slots."""
        raise NotImplementedError("override `connect`")

    def send(self, slot: Slot, frames: list[bytes]) -> None:
        """Have the worker of *slot* run *frames*; :meth:`arrived`, :meth:`done` and :meth:`lost` follow."""
        raise NotImplementedError("override `send`")

    def stop(self, slot: Slot) -> None:
        """Stop the worker of *slot*, in the middle of its step; the slot is used again."""
        raise NotImplementedError("override `stop`")

    async def disconnect(self) -> None:
        """Release the workers."""
        raise NotImplementedError("override `disconnect`")

    # -- the protocol ------------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """How many more tickets it accepts now."""
        return self.capacity - self._places if self._is_open else 0

    def open(self, wake: Callable[[], None]) -> None:
        """
        Connect to the cluster, which takes seconds where one has to be started.

        Raises:
            ClusterUnreachable: there is no such cluster, or the extra is not installed.
        """
        if self._outbox is not None:
            raise ExecutorClosed(self._name, "was open before")
        self._loop = asyncio.get_running_loop()
        self.connect()
        self._outbox, self._is_open = Outbox(wake), True

    def submit(self, ticket: int, runnable: Runnable) -> None:
        """Send *runnable* to a worker, with what is submitted in the same turn of the event loop."""
        if not self._is_open:
            raise ExecutorClosed(self._name, "is not open")
        if self._places >= self.capacity:
            raise ExecutorFull(self._name, self.capacity)
        work = Work(ticket, runnable)
        self._works[ticket], self._live[ticket] = work, None
        self._places += 1
        self._waiting[ticket] = work
        self._send_soon()

    def started(self, ticket: int) -> float | None:
        """Return when *ticket* began to run."""
        work = self._works.get(ticket)
        return None if work is None else work.started

    def collect(self) -> list[tuple[int, Outcome]]:
        """Return the outcomes that were not collected yet."""
        if self._outbox is None:
            return []
        taken = self._outbox.take()
        self._places -= len(taken)
        live = self._live
        return [(t, outcome) for t, outcome in taken if live.pop(t, 0) is None and outcome is not None]

    def cancel(self, ticket: int) -> None:
        """Drop *ticket*, and stop its worker if it is running there."""
        if self._live.pop(ticket, 0) is not None:
            return
        work = self._works.get(ticket)
        if work is None:  # it has ended, and was not collected
            return
        work.is_cancelled = True
        if self._waiting.pop(ticket, None) is not None:
            self._end(work, None)
        elif self.can_stop:
            slot = next((slot for slot in self._slots if slot.parcel and slot.parcel[0] is work), None)
            if slot is not None:
                self._end(slot.parcel.popleft(), None)
                self._put_back(slot)
                self.stop(slot)
                slot.is_busy = False
        self._tell()

    async def close(self, grace: float) -> list[int]:
        """Drop waiting work, let running work end within *grace* seconds, and release the workers."""
        if not self._is_open:
            return []
        self._is_open = False
        given_up = list(self._waiting)
        self._waiting = {}
        self._changed = asyncio.Event()
        try:
            async with asyncio.timeout(max(grace, 0)):
                while self._running():
                    await self._changed.wait()
                    self._changed.clear()
        except TimeoutError:
            pass
        given_up += self._running()
        for ticket in given_up:
            self._live.pop(ticket, None)
        await self.disconnect()
        if self._outbox is not None:
            self._outbox.mute()
        return given_up

    def _running(self) -> list[int]:
        """Return what was sent, or has come back from a worker that was lost since."""
        back = list(self._waiting)
        return back + [work.ticket for slot in self._slots for work in slot.parcel if not work.is_cancelled]

    # -- sending -----------------------------------------------------------------------------------

    def _send_soon(self) -> None:
        if not self._is_sending:
            self._is_sending = True
            self._loop.call_soon(self._send_waiting)

    def _send_waiting(self) -> None:
        """Give every free worker its share of what waits."""
        self._is_sending = False
        idle = [slot for slot in self._slots if not slot.is_busy and not slot.is_gone]
        while idle and self._waiting and self._is_open:
            size = self._times.parcel(_Components(self._waiting), workers=len(idle))
            frames = self._packed(idle[-1], size)
            if frames:
                slot = idle.pop()
                slot.is_busy = True
                self.send(slot, frames)

    def _packed(self, slot: Slot, size: int) -> list[bytes]:
        """Move *size* runnables that wait into the parcel of *slot*, fewer if they are large; return their frames."""
        frames: list[bytes] = []
        room = LARGEST
        while self._waiting and len(frames) < size and room > 0:
            work, began = self._waiting.pop(next(iter(self._waiting))), perf_counter_ns()
            try:
                frame = pack(work.ticket, work.runnable)
            except BaseException as error:  # noqa: BLE001 - what cannot be sent is a failed attempt
                self._end(work, failed(work.runnable, error, began))
                continue
            frames.append(frame)
            room -= len(frame)
            slot.parcel.append(work)
        return frames

    # -- what a cluster tells, in the event loop ---------------------------------------------------

    def began(self, slot: Slot) -> None:
        """The first runnable of the parcel of *slot* runs."""
        if slot.parcel:
            slot.parcel[0].started = monotonic()

    def arrived(self, slot: Slot, frame: bytes) -> None:
        """Take what the worker of *slot* has sent."""
        work = slot.parcel[0] if slot.parcel else None
        if work is None or work.ticket != ticket_of(frame):  # of work that was stopped
            return
        if is_sign_of_life(frame):
            if work.runnable.on_heartbeat is not None and not work.is_cancelled:
                work.runnable.on_heartbeat()
            return
        report = report_in(frame)
        if report is not None:
            if not work.is_cancelled:
                pass_on(work.runnable, report)
            return
        outcome = unpack_outcome(work.runnable, frame)
        self._times.note(work.runnable.component, outcome.duration_ns / 1e9)
        slot.parcel.popleft()
        self.began(slot)
        self._end(work, outcome)

    def done(self, slot: Slot) -> None:
        """The worker of *slot* has nothing left to do."""
        slot.is_busy = False
        while slot.parcel:  # a worker that has said less than it was sent
            self._fail(slot.parcel.popleft(), "has not answered")
        self._send_soon()

    def lost(self, slot: Slot, why: str, *, has_begun: bool = True) -> None:
        """
        The worker of *slot* is gone: the attempt that was running there has failed, and the rest waits again.

        Args:
            has_begun: whether the first of its parcel may have begun; the news of that may be lost with the worker.
        """
        slot.is_busy = False
        if slot.parcel:
            if has_begun:
                self._fail(slot.parcel.popleft(), f"was lost: {why}")
            self._put_back(slot)
        self._send_soon()

    def _put_back(self, slot: Slot) -> None:
        """Let the parcel of *slot* wait again, first in line."""
        parcel, slot.parcel = slot.parcel, deque()
        for work in parcel:
            work.started = None
            if work.is_cancelled:
                self._end(work, None)
        self._waiting = {work.ticket: work for work in parcel if not work.is_cancelled} | self._waiting
        self._send_soon()

    def _fail(self, work: Work, how: str) -> None:
        began = perf_counter_ns()
        self._end(work, failed(work.runnable, WorkerDied(work.runnable.component, None, how, _LOST), began))

    def _end(self, work: Work, outcome: Outcome | None) -> None:
        del self._works[work.ticket]
        if self._outbox is not None:
            self._outbox.put((work.ticket, None if work.is_cancelled else outcome))
        self._tell()

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed.set()

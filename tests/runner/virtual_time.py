"""Runners on virtual time, and stores that are slow, held or unavailable: what several tests of the runner need."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, TypeVar

from weft import AsyncRunner, Policy, Runnable, Workflow, step
from weft.core.events import AnyEvent, InputReceived
from weft.errors import StoreUnavailable
from weft.local.counters import LocalCounters
from weft.log import references, verify
from weft.runner.durability.recovery import recover
from weft.testing import run_virtually
from weft.testing.simulation.executor import SimulatedExecutor
from weft.testing.wrapping import FullStore, WrappedStore

T = TypeVar("T")


double = Workflow("double", step(lambda x: x * 2, name="double"))
chain = Workflow("chain", step(lambda x: x + 1, name="slow") >> step(lambda x: x * 2, name="next"))


def under(policy: Policy, call: Callable[..., Any] = lambda x: x) -> Workflow:
    """Return a workflow of one step, ``work``, under *policy*."""
    return Workflow("w", step(call, name="work")).with_policies([("work", policy)])


def virtually(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in a loop on virtual time."""

    @wraps(test)
    def call(*args: Any, **kwargs: Any) -> None:
        run_virtually(test(*args, **kwargs))

    return call


def now() -> float:
    """Return the virtual time."""
    return asyncio.get_running_loop().time()


class LoopClock:
    """The time of day, as the loop counts it."""

    def time(self) -> float:
        """Return the virtual time, in seconds since an epoch."""
        return 1_000_000.0 + now()


class SlowStore(WrappedStore):
    """Takes a second for everything, half of it before it is done and half of it after."""

    async def around(self, call: str, act: Callable[[], Awaitable[T]]) -> T:
        """Do it in the middle of a second."""
        await asyncio.sleep(0.5)
        result = await act()
        await asyncio.sleep(0.5)
        return result


class Gate:
    """Holds the first *times* calls of one kind; the others pass."""

    def __init__(self, times: int | None = None) -> None:
        self._left, self._places = times, asyncio.Semaphore(0)
        self._is_open = False
        self.reached = asyncio.Event()
        """Set when the first call is held."""

    async def passed(self) -> None:
        """Wait here until the call is let through."""
        if self._is_open or self._left == 0:
            return
        if self._left is not None:
            self._left -= 1
        self.reached.set()
        await self._places.acquire()
        if self._is_open:
            self._places.release()

    def let_one_through(self) -> None:
        """Let one held call go on, or the next one that comes."""
        self._places.release()

    def open(self) -> None:
        """Hold nothing more."""
        self._is_open = True
        self._places.release()


class GatedStore(WrappedStore):
    """A store whose calls a test holds and lets go, or makes fail; nothing happens by time."""

    def __init__(self, inner: FullStore) -> None:
        super().__init__(inner)
        self._gates: dict[str, Gate] = {}
        self.fails_with: dict[str, Callable[[], Exception]] = {}
        """By call: the error that it raises instead of doing anything, for as long as it is here."""

    def hold(self, *calls: str, times: int | None = None) -> Gate:
        """Hold all *calls* of these kinds, or the first *times* of them, until the gate lets them through."""
        gate = Gate(times)
        self._gates.update(dict.fromkeys(calls, gate))
        return gate

    def is_unavailable(self, *calls: str) -> None:
        """Let these *calls* say that the store is unavailable, and no others."""
        self.fails_with = dict.fromkeys(calls, lambda: StoreUnavailable("the gated store", "a test says so"))

    async def around(self, call: str, act: Callable[[], Awaitable[T]]) -> T:
        """Do it once the gate for it is passed."""
        if call in self._gates:
            await self._gates[call].passed()
        if call in self.fails_with:
            error = self.fails_with[call]()
            raise error
        return await act()


async def stored_log(store: FullStore, run: str, workflow: Workflow = double) -> list[AnyEvent]:
    """Return the log of *run* as the open *store* has it, after checking its hash chain."""
    loaded = await store.load_since(run, 0)
    bodies = [segment.body for segment in loaded.segments]
    wanted = references(bodies)
    definitions = await store.load_definitions(wanted.definitions)
    facts = await store.load_facts(run, wanted.facts)
    record = loaded.record
    verify(bodies, facts=facts, definitions=definitions, head=record.chain, position=record.head)
    return (await recover(store, loaded, workflow=workflow, goes_on=False)).run.log()


def keys_of(log: list[AnyEvent]) -> list[str | None]:
    """Return the keys of the inputs in *log*."""
    return [event.key for event in log if isinstance(event, InputReceived)]


async def until_nothing_moves() -> None:
    """Wait until everything that could happen without time passing has happened."""
    await asyncio.sleep(1e-3)


async def rounds_until(condition: Callable[[], object], most: int = 100_000) -> None:
    """Let the loop come round until *condition* holds; fail if it never does."""
    for _ in range(most):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError(f"not after {most} rounds of the loop")


def runner_on(
    store: Any = None,
    *,
    lasts: float | Callable[[Runnable], float] = 0.0,
    workers: int = 8,
    names: tuple[str, ...] = ("inline", "async", "thread"),
    refuses: Callable[[Runnable], bool] | None = None,
    **options: Any,
) -> AsyncRunner:
    """Return a runner without threads, on which every step takes *lasts* seconds."""
    lengths: Callable[[Runnable], float] = lasts if callable(lasts) else lambda _: lasts
    executors = {name: SimulatedExecutor(lengths, max_workers=workers, refuses=refuses) for name in names}
    known: dict[str, Any] = {"clock": LoopClock(), "counters": LocalCounters(), **options}
    return AsyncRunner(store, executors=executors, **known)


class Refuses:
    """Lets executors refuse the first *times* attempts, which crashes their workers; calls *then* just before."""

    def __init__(self, times: int, then: Callable[[], object] = lambda: None) -> None:
        self.left, self._then = times, then

    def __call__(self, _: Runnable) -> bool:
        self.left -= 1
        if self.left >= 0:
            self._then()
        return self.left >= 0

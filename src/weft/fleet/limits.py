"""
The limits of a fleet: counters that answer at once, from what this worker was granted, and a task that asks for more.

    an attempt asks ──► there is a place or a turn here ──► it starts
                    └─► there is none: it waits, and the task asks the database ──granted──► it is woken, and asks again

Invariant: a place is used only while the grant is certain, by a clock that goes on while the machine sleeps (ADR 47).
The decisions themselves are those of :mod:`weft.policy.limits`; they are given a state that says what was granted.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from weft.errors import StoreClosed, StoreUnavailable
from weft.fleet import decisions
from weft.policy.limits import BreakerState, CircuitBreaker, ConcurrencyLimit, RateLimit, RateState, UseState
from weft.ports.counters import CounterKey
from weft.ports.limits import LimitRow, LimitStore
from weft.stores.postgres.lease import monotonic

_log = logging.getLogger("weft.fleet")
R = TypeVar("R")

_SURE: Final = 0.9
"""The part of a grant's time for which its holder counts on it."""
AGAIN: Final = 0.25
"""Seconds between requests for limit places held by other workers."""
_SOON: Final = 0.02
"""Seconds in which the needs of several attempts are collected, and a place that became free may be used again."""
REFRESH: Final = 1.0
"""Seconds between two looks at the states of breakers."""
_FORGET: Final = 300.0
"""Seconds after which this process forgets an unused limit."""


class _Places:
    """A concurrency limit, here."""

    def __init__(self) -> None:
        self.limit: ConcurrencyLimit | None = None
        self.used = self.granted = self.taken = 0
        """How many are in use, how many may be, and how many the database counts as taken."""
        self.sure_until = 0.0
        self.waiting = 0
        """How many attempts have asked for a place and got none since the last request."""
        self.share: int | None = None
        """How many places it should have, since other workers want more than they have; None if they do not."""
        self.not_before = 0.0
        """When it may ask for more again, since it has left a place to others."""
        self.asked_at = 0.0

    def usable(self, now: float) -> int:
        """Return how many places may be in use at *now*."""
        return self.granted if now < self.sure_until else 0


class _Turns:
    """A rate limit, here."""

    def __init__(self) -> None:
        self.limit: RateLimit | None = None
        self.times: list[float] = []
        """The turns that were granted, in the time of this worker."""
        self.declined = 0
        self.is_wanted = False
        self.count = 1
        """How many turns are asked for next."""
        self.granted_at = 0.0


class _Breaker:
    """A circuit breaker, here."""

    def __init__(self) -> None:
        self.limit: CircuitBreaker | None = None
        self.state: BreakerState | None = None
        self.changes: list[Callable[[Any], tuple[Any, Any]]] = []
        """Changes that are made here, and not yet in the database."""


class SharedCounters:
    """
    The counters of one worker, whose limits hold for all workers on *store*.

    Args:
        lease: for how many seconds places are taken.
        now: the time that attempts receive, which is never set.
        is_sure: whether the worker may start anything.
    """

    def __init__(
        self,
        store: LimitStore,
        *,
        lease: float = 10.0,
        now: Callable[[], float] = time.monotonic,
        is_sure: Callable[[], bool] = lambda: True,
        monotonic: Callable[[], float] = monotonic,
    ) -> None:
        self._store, self._lease, self._now, self._is_sure, self._monotonic = store, lease, now, is_sure, monotonic
        self._owner = uuid.uuid4().hex
        self._lock = threading.RLock()
        self._places: dict[str, _Places] = {}
        self._turns: dict[str, _Turns] = {}
        self._breakers: dict[str, _Breaker] = {}
        self._others: dict[CounterKey, Any] = {}
        """The states of other kinds, which only wake waiters."""
        self._wakers: dict[CounterKey, dict[object, Callable[[], None]]] = {}
        self._used_at: dict[CounterKey, float] = {}
        self._bell: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refreshed = 0.0

    # -- Counters --------------------------------------------------------------------------------

    def update(self, key: CounterKey, change: Callable[[Any], tuple[Any, R]], limit: Any = None) -> R:
        """Apply *change* to the state at *key* as far as it is known here, and see that the database learns of it."""
        kind, name = key
        with self._lock:
            self._used_at[key] = self._monotonic()
            if kind == "concurrency_limit":
                result, is_changed = self._use(name, change, limit)
            elif kind == "rate_limit":
                result, is_changed = self._turn(name, change, limit)
            elif kind == "circuit_breaker":
                result, is_changed = self._break(name, change, limit)
            else:
                before = self._others.get(key)
                self._others[key], result = change(before)
                is_changed = self._others[key] != before
            wakers = list(self._wakers.get(key, {}).values()) if is_changed else []
        for wake in wakers:
            wake()
        return result

    def on_change(self, key: CounterKey, wake: Callable[[], None]) -> Callable[[], None]:
        """Call *wake* whenever the state at *key* may have changed, until the returned function is called."""
        me = object()
        with self._lock:
            self._wakers.setdefault(key, {})[me] = wake

        def stop() -> None:
            with self._lock:
                self._wakers.get(key, {}).pop(me, None)

        return stop

    def states(self) -> Mapping[CounterKey, Any]:
        """Return the states as they are known here."""
        with self._lock:
            return {
                **{("concurrency_limit", name): UseState(each.used) for name, each in self._places.items()},
                **{("rate_limit", name): RateState(min(each.times, default=0.0)) for name, each in self._turns.items()},
                **{("circuit_breaker", name): each.state or BreakerState() for name, each in self._breakers.items()},
            }

    def _use(self, name: str, change: Callable[[Any], tuple[Any, R]], limit: Any) -> tuple[R, bool]:
        here = self._places.setdefault(name, _Places())
        here.limit = limit or here.limit
        assert here.limit is not None  # noqa: S101 - a place is asked for before it is left
        free = max(0, here.usable(self._monotonic()) - here.used) if self._is_sure() else 0
        shown = max(here.used, here.limit.limit - free)
        state, result = change(UseState(shown))
        step = state.used - shown
        here.used = max(0, here.used + step)
        if step == 0:  # refused
            here.waiting += 1
        elif step < 0 and here.share is not None and here.granted > here.share:
            here.granted -= 1  # another worker waits for it
            here.not_before = self._monotonic() + 2 * AGAIN
        if step <= 0:
            self._ring()
        return result, step < 0

    def _turn(self, name: str, change: Callable[[Any], tuple[Any, R]], limit: Any) -> tuple[R, bool]:
        here = self._turns.setdefault(name, _Turns())
        here.limit = rate = limit or here.limit
        assert rate is not None  # noqa: S101 - a turn is asked for before it is declined
        now = self._now()
        here.times = decisions.turns_left(here.times, now, decisions.burst_time(rate.limit, rate.per, rate.burst))
        if here.times and self._is_sure():
            shown = here.times[0]
        else:
            shown = now + decisions.burst_time(rate.limit, rate.per, rate.burst) + AGAIN
        state, result = change(RateState(shown, here.declined))
        is_taken, is_declined = state.due != shown, state.declined != here.declined
        here.declined = state.declined
        if is_taken:
            del here.times[0]
        elif not here.times and not is_declined:
            here.is_wanted = True
            self._ring()
        return result, is_taken or is_declined

    def _break(self, name: str, change: Callable[[Any], tuple[Any, R]], limit: Any) -> tuple[R, bool]:
        here = self._breakers.get(name)
        if here is None:
            here = self._breakers[name] = _Breaker()
            self._refreshed = 0.0  # others may have opened it
            self._ring()
        here.limit = limit or here.limit
        before = here.state
        here.state, result = change(before)
        is_changed = here.state != (before or BreakerState())
        if is_changed:
            here.changes.append(change)
            self._ring()
        return result, is_changed

    def _ring(self) -> None:
        loop, bell = self._loop, self._bell
        if loop is not None and bell is not None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(bell.set)

    def _tell(self, key: CounterKey) -> None:
        with self._lock:
            wakers = list(self._wakers.get(key, {}).values())
        for wake in wakers:
            wake()

    # -- the task --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Ask for what attempts need, give back what they do not, until this is cancelled."""
        self._loop, self._bell = asyncio.get_running_loop(), asyncio.Event()
        self._bell.set()
        failures = 0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._wait()):
                    await self._bell.wait()
            self._bell.clear()
            await asyncio.sleep(_SOON)
            try:
                await self._ask_all()
                failures = 0
            except StoreClosed:
                return
            except Exception as error:  # noqa: BLE001 - limits go on, whatever happens
                failures += 1
                known = isinstance(error, StoreUnavailable)
                if not known or failures == 1:
                    _log.warning("limits cannot be shared now, trying again: %s", error, exc_info=not known)
                await asyncio.sleep(AGAIN * min(failures, 8))

    @property
    def has_places(self) -> bool:
        """Whether some were taken and may not have been given back."""
        return any(each.granted for each in self._places.values())

    async def leave(self, store: LimitStore) -> None:
        """Give all places back, through *store*, since nothing is in flight any more."""
        await store.leave_places(self._owner)

    def _wait(self) -> float | None:
        """Return after how many seconds to ask without a notification; None for never."""
        with self._lock:
            waits = any(each.waiting or each.share is not None for each in self._places.values())
            if waits or any(each.is_wanted for each in self._turns.values()):
                return AGAIN
            if self._breakers:
                return REFRESH
            if any(each.granted or each.used for each in self._places.values()):
                return self._lease / 3
            return None

    async def _ask_all(self) -> None:
        self._forget()
        for name in list(self._places):
            await self._ask_for_places(name)
        for name in list(self._turns):
            await self._ask_for_turns(name)
        for name in list(self._breakers):
            await self._send_changes(name)
        now = self._monotonic()
        if self._breakers and now - self._refreshed >= REFRESH:
            self._refreshed = now
            await self._refresh()

    async def _ask_for_places(self, name: str) -> None:
        with self._lock:
            here, now = self._places[name], self._monotonic()
            limit = here.limit
            assert limit is not None  # noqa: S101
            wanted = here.used + here.waiting
            is_renewal = (here.granted or here.used) and now - here.asked_at >= self._lease / 3
            may_ask = here.waiting > 0 and now >= here.not_before
            gives_back = here.granted > wanted or here.taken > max(here.used, here.granted)
            if not (may_ask or is_renewal or gives_back):
                return
            used, waiting = here.used, here.waiting if may_ask else 0
            here.waiting, here.asked_at = 0 if may_ask else here.waiting, now
            here.granted = min(here.granted, used)  # what is given back must not be used meanwhile
        asked = decisions.places_to_take(used, waiting, limit.limit)
        try:
            granted, share = await self._store.take_places(
                *(self._owner, name, _rule(limit)),
                limit=limit.limit,
                used=used,
                wanted=wanted,
                asked=asked,
                lease=self._lease,
            )
        except BaseException:
            with self._lock:
                here.waiting, here.asked_at = max(here.waiting, waiting), 0.0
            raise
        with self._lock:
            here.granted = here.taken = granted
            here.share = share if share < limit.limit else None
            here.sure_until = now + self._lease * _SURE
            if granted < wanted:
                here.waiting = max(here.waiting, 1)  # asked for again
        if granted > used:
            self._tell(("concurrency_limit", name))

    async def _ask_for_turns(self, name: str) -> None:
        with self._lock:
            here, now = self._turns[name], self._monotonic()
            rate = here.limit
            if rate is None or not here.is_wanted or here.times:
                return
            here.count = decisions.turns_to_take(here.count, now - here.granted_at, rate.limit / rate.per, AGAIN)
            count = here.count
        apart = rate.per / rate.limit
        first, stored_now = await self._store.take_turns(name, _rule(rate), apart=apart, count=count)
        with self._lock:
            offset = self._now() - stored_now
            here.times = [first + offset + number * apart for number in range(count)]
            here.is_wanted, here.granted_at = False, self._monotonic()
        self._tell(("rate_limit", name))

    async def _send_changes(self, name: str) -> None:
        here = self._breakers[name]
        while here.changes:
            found = (await self._store.load_breakers([name])).get(name)
            with self._lock:
                changes, rule = list(here.changes), "" if here.limit is None else _rule(here.limit)
                offset = 0.0 if found is None else self._now() - found.now
                state = None if found is None else _shifted(_decoded(found.state), offset)
                for change in changes:
                    state, _ = change(state)
            body = _encode(_shifted(state or BreakerState(), -offset))
            if await self._store.put_breaker(name, rule, body, 0 if found is None else found.revision):
                with self._lock:
                    del here.changes[: len(changes)]
                    if not here.changes:
                        here.state = state
                self._tell(("circuit_breaker", name))

    async def _refresh(self) -> None:
        found = await self._store.load_breakers(list(self._breakers))
        for name, stored in found.items():
            here, changed = self._breakers[name], False
            with self._lock:
                if not here.changes:
                    state = _shifted(_decoded(stored.state), self._now() - stored.now)
                    changed = _is_other(here.state, state)
                    here.state = state if changed else here.state
            if changed:
                self._tell(("circuit_breaker", name))

    def _forget(self) -> None:
        with self._lock:
            old = self._monotonic() - _FORGET
            for key, at in list(self._used_at.items()):
                kind, name = key
                places = self._places.get(name) if kind == "concurrency_limit" else None
                if at >= old or (places is not None and (places.used or places.granted)) or self._wakers.get(key):
                    continue
                del self._used_at[key]
                if kind == "concurrency_limit":
                    self._places.pop(name, None)
                elif kind == "rate_limit":
                    self._turns.pop(name, None)
                elif kind == "circuit_breaker" and not self._breakers[name].changes:
                    del self._breakers[name]


class LimitStatus(msgspec.Struct, frozen=True):
    """A limit, as ``limits()`` shows it."""

    kind: str
    """``"concurrency_limit"``, ``"rate_limit"`` or ``"circuit_breaker"``."""
    name: str
    rule: str
    """In words."""
    used: int
    """How many attempts are in flight, of a concurrency limit."""
    waiting: int
    """How many attempts are known to wait for a place; there may be more."""
    workers: int
    """How many workers have places, or want some."""
    state: str
    """In words: ``free``, ``full``, ``closed``, ``open``, ``tried again``, or when the next turn is free."""
    since: float | None = None
    """Seconds since a circuit breaker opened."""


def limit_status(row: LimitRow) -> LimitStatus:
    """Return a limit as users see it."""
    waiting, since = max(0, row.wanted - row.places), None
    if row.kind == "rate_limit":
        ahead = row.due - row.now
        state = f"turns are taken {ahead:.1f} s ahead" if ahead > 0 else "free"
    elif row.kind == "circuit_breaker":
        breaker = _decoded(row.state)
        state = "closed" if not breaker.is_open else "tried again" if breaker.probing else "open"
        since = None if breaker.opened_at is None else max(0.0, row.now - breaker.opened_at)
    else:
        state = "full" if waiting else "free"
    return LimitStatus(row.kind, row.name, row.rule, row.used, waiting, row.owners, state, since)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(BreakerState).decode


def _decoded(body: bytes) -> BreakerState:
    return _decode(body) if body else BreakerState()


def _shifted(state: BreakerState, seconds: float) -> BreakerState:
    """Return *state* in the time of another clock."""
    opened = None if state.opened_at is None else state.opened_at + seconds
    return replace(state, opened_at=opened, probed_at=state.probed_at + seconds if state.probed_at else 0.0)


def _is_other(one: BreakerState | None, other: BreakerState) -> bool:
    """Whether two states differ by more than the noise of clocks."""
    known = one or BreakerState()
    return (known.failures, known.is_open, known.probing) != (other.failures, other.is_open, other.probing)


def _rule(limit: ConcurrencyLimit | RateLimit | CircuitBreaker) -> str:
    """
    Return a limit in words, for display.

    >>> _rule(ConcurrencyLimit("api", 3)), _rule(RateLimit("api", 10, per=1)), _rule(CircuitBreaker("api"))
    ('3 at once', '10 in 1 s', 'opens after 5 failures, for 60 s')
    """
    match limit:
        case ConcurrencyLimit():
            return f"{limit.limit} at once"
        case RateLimit():
            return f"{limit.limit} in {limit.per:g} s"
        case CircuitBreaker():
            return f"opens after {limit.failure_threshold} failures, for {limit.reset_timeout:g} s"

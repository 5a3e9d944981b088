"""
A store that fails on demand, for tests of what a runner does then.

Faults are scripted by call and number, so a test fails the same way every time:

    >>> import asyncio
    >>> from weft.errors import StoreUnavailable
    >>> from weft.ports.store import Append
    >>> from weft.stores import MemoryStore
    >>> first = Append(run="r", workflow="w", create=True, expected=0, count=1, body=b"1", chain=b"1", at=0.0)
    >>> async def main():
    ...     store = FaultyStore(MemoryStore(), {("append", 1): Fault.fail_after()})  # committed, but reported as failed
    ...     async with store:
    ...         try:
    ...             await store.append([first])
    ...         except StoreUnavailable:
    ...             return await store.exists("r")
    >>> asyncio.run(main())
    True
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

from weft.errors import StoreUnavailable
from weft.testing.wrapping import FullStore, WrappedStore

T = TypeVar("T")

Act: TypeAlias = Callable[[], Awaitable[Any]]
"""The call, not made yet."""


class Crash(BaseException):
    """Stands for the death of the process: a ``BaseException``, which no error handling should catch."""


class Fault(NamedTuple):
    """Something that happens instead of, before or after a call."""

    happen: Callable[[Act], Awaitable[Any]]

    @staticmethod
    def fail(error: BaseException | None = None) -> Fault:
        """Do nothing, and raise *error*, by default StoreUnavailable."""

        async def happen(_: Act) -> NoReturn:
            raise _or_unavailable(error)

        return Fault(happen)

    @staticmethod
    def fail_after(error: BaseException | None = None) -> Fault:
        """Make the call, and then raise: the caller is in doubt."""

        async def happen(act: Act) -> NoReturn:
            await act()
            raise _or_unavailable(error)

        return Fault(happen)

    @staticmethod
    def crash() -> Fault:
        """Die before the call."""
        return Fault.fail(Crash("the process died before the store was called"))

    @staticmethod
    def crash_after() -> Fault:
        """Die after the call, before its result is returned."""
        return Fault.fail_after(Crash("the process died before the store had answered"))

    @staticmethod
    def delay(until: asyncio.Event) -> Fault:
        """Make the call when *until* is set."""

        async def happen(act: Act) -> Any:
            await until.wait()
            return await act()

        return Fault(happen)


Script: TypeAlias = Mapping[tuple[str, int], Fault] | Callable[[str, int], Fault | None]
"""The fault for a call and its number, counted from 1 for each kind of call; or a function that returns it."""


class FaultyStore(WrappedStore):
    """Passes every call to *inner*, except those for which *faults* has a fault."""

    def __init__(self, inner: FullStore, faults: Script | None = None) -> None:
        super().__init__(inner)
        self.calls: Counter[str] = Counter()
        """How often each kind of call was made."""
        self._script: Script = faults or {}

    async def around(self, call: str, act: Callable[[], Awaitable[T]]) -> T:
        """Apply the fault for this call, or make the call."""
        self.calls[call] += 1
        number = self.calls[call]
        fault = self._script(call, number) if callable(self._script) else self._script.get((call, number))
        result: T = await (act() if fault is None else fault.happen(act))
        return result


def _or_unavailable(error: BaseException | None) -> BaseException:
    return StoreUnavailable("the faulty store", "a test says so") if error is None else error

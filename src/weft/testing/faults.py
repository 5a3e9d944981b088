"""
A store that fails on demand: what a runner meets in bad weather, in a good test.

Faults are scripted by call and number, so a test fails the same way every time:

    >>> import asyncio
    >>> from weft.errors import StoreUnavailable
    >>> from weft.ports.store import Append
    >>> from weft.stores import MemoryStore
    >>> first = Append(run="r", workflow="w", create=True, expected=0, count=1, body=b"1", chain=b"1", at=0.0)
    >>> async def main():
    ...     store = FaultyStore(MemoryStore(), {("append", 1): Fault.fail_after()})  # committed, and says it failed
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
"""What was asked for, not done yet."""


class Crash(BaseException):
    """Stands for the death of the process: nothing that handles errors should survive it."""


class Fault(NamedTuple):
    """What happens instead of, before or after a call."""

    happen: Callable[[Act], Awaitable[Any]]

    @staticmethod
    def fail(error: BaseException | None = None) -> Fault:
        """Do nothing, and raise *error*: StoreUnavailable unless told otherwise."""

        async def happen(_: Act) -> NoReturn:
            raise _or_unavailable(error)

        return Fault(happen)

    @staticmethod
    def fail_after(error: BaseException | None = None) -> Fault:
        """Do it, and then say that it failed: whoever asked is in doubt."""

        async def happen(act: Act) -> NoReturn:
            await act()
            raise _or_unavailable(error)

        return Fault(happen)

    @staticmethod
    def crash() -> Fault:
        """Die before it is done."""
        return Fault.fail(Crash("the process died before the store was asked"))

    @staticmethod
    def crash_after() -> Fault:
        """Die when it is done and nobody has heard of it."""
        return Fault.fail_after(Crash("the process died before the store had answered"))

    @staticmethod
    def delay(until: asyncio.Event) -> Fault:
        """Do it when *until* is set."""

        async def happen(act: Act) -> Any:
            await until.wait()
            return await act()

        return Fault(happen)


Script: TypeAlias = Mapping[tuple[str, int], Fault] | Callable[[str, int], Fault | None]
"""Which fault for a call and its number, counted from 1 for each kind of call; a callable says it for any."""


class FaultyStore(WrappedStore):
    """Does what *inner* does, but for the calls that *faults* names."""

    def __init__(self, inner: FullStore, faults: Script | None = None) -> None:
        super().__init__(inner)
        self.calls: Counter[str] = Counter()
        """How often each kind of call was made."""
        self._script: Script = faults or {}

    async def around(self, call: str, act: Callable[[], Awaitable[T]]) -> T:
        """Let the fault for this call happen, or the call."""
        self.calls[call] += 1
        number = self.calls[call]
        fault = self._script(call, number) if callable(self._script) else self._script.get((call, number))
        result: T = await (act() if fault is None else fault.happen(act))
        return result


def _or_unavailable(error: BaseException | None) -> BaseException:
    return StoreUnavailable("the faulty store", "a test says so") if error is None else error

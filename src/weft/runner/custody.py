"""
Which stored runs a runner holds: taking them, loading them, giving them back.

All of this can be done twice, so a store that is away only delays it, for as long as the runner is open.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from weft.core.workflow import Workflow
from weft.errors import InvalidOption, RunNotFound, RunOwned, StoreUnavailable
from weft.ports.store import DUE, ListableStore, LogStore, OwnedStore, RunRecord
from weft.runner.patience import patiently
from weft.runner.recovery import Recovered, recover

T = TypeVar("T")


class Custody:
    """The runs of *store*, for a runner that may wait for it while *is_open*."""

    def __init__(self, store: LogStore, is_open: Callable[[], bool]) -> None:
        self._store, self._is_open = store, is_open

    async def acquire(self, run: str) -> None:
        """
        Own *run*, in a new epoch; where nobody can own anything, do nothing.

        Raises:
            RunNotFound: nothing is stored under this id.
            RunOwned: another owner that is alive holds it.
        """
        store = self._store
        if isinstance(store, OwnedStore):
            await self._patiently(lambda: store.acquire(run))

    async def acquire_all(self, *, but: Container[str]) -> Sequence[RunRecord]:
        """Own every run that has something to do and that nobody alive owns, *but* those that are here."""
        store = self._store
        if not isinstance(store, OwnedStore):
            raise InvalidOption(f"{type(store).__name__} does not know which runs are free; resume() them by id")
        try:
            return [found for found in await store.acquire_all() if found.id not in but]
        except StoreUnavailable:
            if not isinstance(store, ListableStore):
                raise
        # Some may be owned by now, and would not be found free again: take them one by one.
        owned: list[RunRecord] = []
        for found in await self._patiently(lambda: self.records(statuses=DUE)):
            if found.id not in but:
                with suppress(RunOwned, RunNotFound):
                    await self.acquire(found.id)
                    owned.append(found)
        return owned

    async def release(self, runs: Sequence[str]) -> None:
        """Give *runs* back."""
        store = self._store
        if isinstance(store, OwnedStore):
            await self._patiently(lambda: store.release(runs))

    async def load(
        self,
        run: str,
        live: Callable[[RunRecord], Workflow | None],
        *,
        context: Mapping[str, Any],
        strict: bool,
        goes_on: bool = True,
    ) -> Recovered:
        """Bring *run* back as it is stored; *live* finds its definition in this process."""

        async def load() -> Recovered:
            loaded = await self._store.load_since(run, 0)
            workflow = live(loaded.record)
            return await recover(
                self._store, loaded, workflow=workflow, context=context, strict=strict, goes_on=goes_on
            )

        return await self._patiently(load)

    def listed(self) -> ListableStore:
        """
        Return the store, as one that knows which runs it has.

        Raises:
            InvalidOption: it does not.
        """
        if not isinstance(self._store, ListableStore):
            raise InvalidOption(f"{type(self._store).__name__} cannot list its runs")
        return self._store

    async def records(self, **filters: Any) -> list[RunRecord]:
        """Return what the store knows of its runs, oldest first."""
        store = self.listed()
        found: list[RunRecord] = []
        while page := await store.list(after=found[-1] if found else None, limit=1_000, **filters):
            found.extend(page)
        return found

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        return await patiently(call, while_=self._is_open)

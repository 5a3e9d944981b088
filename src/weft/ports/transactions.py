"""
Transactions of a store in which a step writes, and in which its completion is stored (ADR 51).
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from weft.errors import StoreError
from weft.ports.store import Append
from weft.typing import RunId


class OpenTransaction(Protocol):
    """A transaction that has begun; one caller at a time, in the event loop of its store."""

    @property
    def connection(self) -> Any:
        """The connection for a coroutine function."""
        ...

    @property
    def blocking(self) -> Any:
        """The connection for a plain function, which runs on a thread."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether the store or the network has ended it, so that nothing of it will be written."""
        ...

    async def belong_to(self, run: RunId, epoch: int) -> None:
        """
        Say which run it is for, before its function is called.

        Transactions for *run* of an earlier epoch, whose owner may be frozen or cut off, are ended: they cannot be
        committed any more, and what they have locked would keep this one waiting.

        Raises:
            StoreUnavailable: not now.
        """
        ...

    async def check(self, run: RunId) -> None:
        """
        Check that it could be committed with an append of *run*: no constraint is violated, and it has not ended.

        Raises:
            Exception: it could not; whatever it is, the attempt has failed with it.
        """
        ...

    async def commit(self, append: Append) -> StoreError | None:
        """
        Write *append* in it, and commit; return why the append was refused, if it was: then it is rolled back.

        Raises:
            Exception: it may or may not be committed; :meth:`TransactionalStore.has_committed` says which.
        """
        ...

    def abandon(self) -> None:
        """Roll it back, also while its function runs, which can do nothing with it from now on."""
        ...


@runtime_checkable
class TransactionalStore(Protocol):
    """A store on which steps can have transactions."""

    has_exclusive_transactions: bool
    """Whether nothing else is stored while one of them is open."""

    async def begin(self) -> OpenTransaction:
        """
        Begin a transaction, as soon as there is room for one.

        Raises:
            StoreUnavailable: not now.
        """
        ...

    async def has_committed(self, append: Append) -> bool:
        """
        Return whether a transaction was committed with *append*; if not, it never will be.

        Raises:
            OwnershipLost: another owner has the run.
            StoreUnavailable: it cannot be said now.
        """
        ...

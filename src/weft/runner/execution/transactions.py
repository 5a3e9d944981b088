"""
Transactional steps: the writes of a step and the event that it has completed are one commit (ADR 51).

    the executor calls it ──► begin ──► its function ──► check ──► fold ──► append and commit ──► its dependents start
                                │            │             │                   │
                                └────────────┴─────────────┘                   ├── refused ──► the run leaves
                                  rolled back: a failed attempt                └── lost ──► the worker is rebuilt

While it is between *check* and *commit*, its run is set apart: the journal writes nothing of it.  If nothing else can
be stored while a transaction is open (SQLite), the run is set apart before it begins: a batch would wait for the step.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from weft.core.plan.node import FunctionNode
from weft.core.run.runnable import Outcome
from weft.errors import StoreError, StoreUnavailable, TransactionEnded, TransactionLost
from weft.policy.driver import Attempt
from weft.ports.store import Append
from weft.ports.transactions import OpenTransaction, TransactionalStore
from weft.runner.durability.rehydration import is_partial
from weft.runner.durability.store_retry import retry_while_unavailable, waits
from weft.runner.durability.store_spans import StoreSpan
from weft.runner.execution.outcomes import failed
from weft.telemetry import bus

if TYPE_CHECKING:
    from weft.runner.execution.dispatcher import Dispatcher
    from weft.runner.execution.inflight import InFlight
    from weft.runner.execution.worker import Worker

_log = logging.getLogger("weft.runner")

MOST_REPEATS: Final = 3
"""How often an attempt is made again, without being counted, because its transaction was lost."""


class StepTransactions:
    """The transactions of the steps of one runner."""

    def __init__(self, store: TransactionalStore, dispatcher: Dispatcher) -> None:
        self.store, self.dispatcher = store, dispatcher
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do *work* in the event loop."""
        task = self.dispatcher.loop.create_task(work, name="weft-transaction")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class AttemptTransaction:
    """The transaction of one attempt."""

    __slots__ = ("_all", "_is_apart", "_is_over", "_open", "_worker")

    def __init__(self, transactions: StepTransactions, worker: Worker) -> None:
        self._all, self._worker = transactions, worker
        self._open: OpenTransaction | None = None
        self._is_over = self._is_apart = False

    @property
    def is_exclusive(self) -> bool:
        """Whether nothing else can be stored while it is open."""
        return self._all.store.has_exclusive_transactions

    @property
    def is_lost(self) -> bool:
        """Whether the store or the network has ended it."""
        return self._open is not None and self._open.is_lost

    @property
    def is_over(self) -> bool:
        """Whether it was given up or committed."""
        return self._is_over

    # -- where the attempt runs ------------------------------------------------------------------

    def call(self, node: FunctionNode, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Begin, and call the function of *node* with the transaction."""
        if node.is_async:
            return self._await(node, args, kwargs)
        begun = asyncio.run_coroutine_threadsafe(self._begin(), self._all.dispatcher.loop).result()
        return node.call(*args, **{**kwargs, node.transaction: begun.blocking})

    async def _await(self, node: FunctionNode, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        begun = await self._begin()
        return await node.call(*args, **{**kwargs, node.transaction: begun.connection})

    async def _begin(self) -> OpenTransaction:
        if self.is_exclusive:
            await self._set_apart()
        try:
            begun = await retry_while_unavailable(self._begun, while_=lambda: not self._is_over)
        except BaseException:
            self._leave()
            raise
        if self._is_over:
            begun.abandon()
            self._leave()
            raise TransactionEnded("the attempt was given up before it began")
        self._open = begun
        return begun

    async def _begun(self) -> OpenTransaction:
        begun = await self._all.store.begin()
        await begun.belong_to(self._worker.id, self._worker.unsaved.epoch)
        return begun

    # -- in the event loop -----------------------------------------------------------------------

    async def _set_apart(self) -> None:
        await self._all.dispatcher.journal.set_apart(self._worker)
        self._is_apart = True
        if self._is_over:
            self._leave()
            raise TransactionEnded("the attempt was given up before it began")

    def _leave(self) -> None:
        """Let the journal write the run again."""
        if self._is_apart:
            self._is_apart = False
            self._all.dispatcher.journal.rejoin(self._worker)

    def give_up(self) -> None:
        """Roll it back, also if its function still runs."""
        if not self._is_over:
            self._is_over = True
            if self._open is not None:
                self._open.abandon()
                self._leave()

    async def check(self) -> None:
        """
        Set the run apart, and see that the transaction can be committed.

        Raises:
            Exception: it cannot.
        """
        if self._open is None:
            raise TransactionEnded("its function has returned without it")
        if not self._is_apart:
            await self._set_apart()
        await self._open.check(self._worker.id)

    async def commit(self, append: Append) -> StoreError | TransactionLost | None:
        """Write *append* and commit; return why nothing was written, if so.  If it is in doubt, the store says."""
        store, journal = self._all.store, self._all.dispatcher.journal
        doubt: Exception | None = None
        for wait in waits():
            try:
                if doubt is None:
                    return await self._write(append)
                if await store.has_committed(append):
                    return None
            except Exception as error:  # noqa: BLE001 - whatever it is, only the store knows what became of it
                is_final = doubt is not None and not isinstance(error, StoreUnavailable)
                if is_final or journal.is_out_of_time:
                    return error if isinstance(error, StoreError) else StoreError(f"a commit has failed: {error}")
                doubt = doubt or error
                _log.warning("run %r: it is not known yet whether a transaction was committed: %s", append.run, error)
                await asyncio.sleep(wait)
            else:
                return TransactionLost(f"its commit has failed: {doubt}")
        raise AssertionError("waits() has no end")

    async def _write(self, append: Append) -> StoreError | None:
        """Write *append* and commit; before that, whatever must be stored before the append."""
        begun, journal = self._open, self._all.dispatcher.journal
        assert begun is not None  # noqa: S101
        if journal.ahead is not None and not self.is_exclusive:
            ahead = partial(journal.ahead, [append])
            await retry_while_unavailable(ahead, while_=lambda: not journal.is_out_of_time)
        return await begun.commit(append)

    def finished(self) -> None:
        """It is committed, or was refused."""
        self._is_over = True
        self._leave()


# -- the attempts of a worker --------------------------------------------------------------------


def open_for(worker: Worker, inflight: InFlight, attempt: Attempt) -> None:
    """Let the *attempt*, which is about to be handed over, begin a transaction when it runs."""
    transactions = worker.dispatcher.transactions
    inflight.transaction = None
    if transactions is not None and attempt.runnable.override is None:
        inflight.transaction = attempt.runnable.transaction = AttemptTransaction(transactions, worker)


def is_repeated(worker: Worker, inflight: InFlight) -> bool:
    """Roll back what an attempt that has failed wrote; return whether the attempt is made again, and does not count."""
    transaction, inflight.transaction = inflight.transaction, None
    assert transaction is not None  # noqa: S101
    try:
        is_lost = transaction.is_lost and not transaction.is_over
    finally:
        transaction.give_up()  # whatever happens, the journal writes the run again
    if not is_lost or inflight.state != "executing" or inflight.repeats >= MOST_REPEATS:
        return False
    inflight.repeats += 1
    _log.warning("run %r: the transaction of %r was lost; it runs again", worker.id, inflight.activation.node.name)
    worker.attempts.make_again(inflight)
    return True


def commits(worker: Worker, inflight: InFlight, outcome: Outcome) -> bool:
    """Begin to commit the transaction of *inflight*, whose value is encoded; return False if there is none."""
    transaction, transactions = inflight.transaction, worker.dispatcher.transactions
    assert transaction is not None  # noqa: S101
    assert transactions is not None  # noqa: S101
    if inflight.state != "executing" or transaction.is_over:
        return False
    if outcome.status != "completed":  # its value is not data
        inflight.transaction = None
        transaction.give_up()
        return False
    worker.queue.move(inflight, "committing")
    transactions.start(_commit(worker, inflight, transaction, outcome))
    return True


async def _commit(worker: Worker, inflight: InFlight, transaction: AttemptTransaction, outcome: Outcome) -> None:
    guard, journal, transactions = worker.dispatcher.guard, worker.dispatcher.journal, worker.dispatcher.transactions
    assert transactions is not None  # noqa: S101
    try:
        if is_partial(worker.run):  # a run that finishes, or grows, needs all of it
            await retry_while_unavailable(worker.run.load, while_=lambda: inflight.state == "committing")
        await transaction.check()
        if transaction.is_exclusive and journal.has_unstored is not None and journal.has_unstored(worker.id):
            transaction.give_up()  # what is streamed must be stored first, and cannot be while it is open
            await retry_while_unavailable(
                partial(journal.flush, worker.id), while_=lambda: inflight.state == "committing"
            )
            raise _UnstoredItems  # noqa: TRY301 - handled below, as other reasons to run it again
    except Exception as error:  # noqa: BLE001 - whatever it is, the attempt has failed
        if inflight.state == "committing":  # else it was given up meanwhile
            guard(worker, _not_committed, worker, inflight, outcome, error)
            guard(worker, worker.turn)
        return
    if inflight.state != "committing":
        transaction.give_up()
        return
    append: Append | None = None
    try:
        append = _folded(worker, inflight, outcome)
    except BaseException as error:  # noqa: BLE001 - it is handled there
        worker.lose(TransactionLost(f"its result could not be recorded: {error}"))  # nothing of it may be written
        transaction.give_up()
        worker.dispatcher.crashed(worker, error)
        return
    if append is None:  # the run was stopped without being written, or has been lost
        transaction.give_up()
        return
    span = None
    if bus.store_start or bus.store_stop or bus.store_exception:
        span = StoreSpan(transactions.store, "append", [append.run], append.at, append.count)
    answer = await transaction.commit(append)
    if span is not None and answer is None:
        span.stop()
    elif span is not None and answer is not None:
        span.fail(answer)
    _told(worker, transaction, append, answer)


def _folded(worker: Worker, inflight: InFlight, outcome: Outcome) -> Append | None:
    """Fold the *outcome* into the run; return the append of all that is not stored, which nothing may follow yet."""
    worker.queue.move(inflight, "executing")
    transaction, inflight.transaction = inflight.transaction, None
    worker.attempts.go_on_with(inflight, outcome)
    if inflight.state != "done" or transaction is None or transaction.is_over:  # a listener has cancelled the run
        return None
    worker.queue.hold(len(worker.run.memory.log))
    return worker.segment(worker.dispatcher.clock.time(), sys.maxsize)


def _told(
    worker: Worker, transaction: AttemptTransaction, append: Append, answer: StoreError | TransactionLost | None
) -> None:
    """Tell *worker* what became of *append*, and let the journal write it again."""
    try:
        if answer is None:
            worker.committed(append)
        elif isinstance(answer, TransactionLost):
            _lost(worker, answer)
        else:
            transaction.give_up()
            worker.refused(answer)
    except Exception:  # noqa: BLE001 - the commit stands, whatever a listener makes of it
        _log.exception("the worker of run %r failed when its transaction was committed or lost", worker.id)
    finally:
        transaction.finished()


def _lost(worker: Worker, error: TransactionLost) -> None:
    """Let *worker*, whose memory has an event that is not stored and never will be, be rebuilt from the store."""
    worker.lose(error)
    if worker.observer is not None:  # callers whose events would have been written with it or after it
        worker.observer(worker)
    worker.dispatcher.crashed(worker, error)


def _not_committed(worker: Worker, inflight: InFlight, outcome: Outcome, error: Exception) -> None:
    """Fail the attempt, or make it again if its transaction was lost or has to wait for others."""
    worker.queue.move(inflight, "executing")
    transaction = inflight.transaction
    assert transaction is not None  # noqa: S101
    if isinstance(error, _UnstoredItems) and inflight.repeats < MOST_REPEATS:
        inflight.repeats += 1
        worker.attempts.make_again(inflight)
    elif not is_repeated(worker, inflight):
        runnable = inflight.runnable
        assert runnable is not None  # noqa: S101
        worker.attempts.go_on_with(inflight, failed(runnable, error, outcome.duration_ns / 1e9))


class _UnstoredItems(TransactionEnded):
    """Items of streams of the run were not stored, so that the transaction could not be committed."""

    def __init__(self) -> None:
        super().__init__("items of streams of its run had to be stored first")

"""
Folds the outcomes of a chain into its run: when it has ended, takes long, or is given up (ADR 39).

    begin_chain ──► chain_ended: all outcomes are folded; the last one is handled like any other
         │
         └──► advance: the outcomes so far are folded, and the running link has the ticket ──► chain_ended

Invariants:

1. An outcome of a chain is folded once, in the order of the links, and before anything that depends on it starts.
2. The runnable in flight that has the ticket is the link that runs, or the last one that has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from weft.core.fold.memory import Memory
from weft.core.fold.scope import Activation
from weft.core.run.runnable import Outcome
from weft.policy.driver import Attempt
from weft.runner.execution.chains import ChainCall
from weft.runner.execution.inflight import InFlight
from weft.telemetry import bus

if TYPE_CHECKING:
    from weft.runner.execution.worker import Worker

ADVANCE_AFTER: Final = 0.01
"""Seconds until the completed part of a chain is folded, although its last link still runs."""


def begin_chain(worker: Worker, inflight: InFlight, chain: ChainCall) -> None:
    """The *chain* is about to be handed over in place of *inflight*, its first link."""
    dispatcher = worker.dispatcher
    chain.inflight, chain.since = inflight, dispatcher.monotonic()
    if bus.batch_start:
        worker.report.batch_begun(inflight, len(chain.nodes), dispatcher.clock.time())
    _watch(worker, inflight)


def chain_ended(worker: Worker, inflight: InFlight, chain: ChainCall, outcome: Outcome) -> None:
    """The *chain* has ended: fold the outcomes of its links, and go on with the last as with any other."""
    end_chain(worker, inflight, chain)
    if not chain.ended:  # it could not begin
        worker.attempts.ended(inflight, outcome)
        return
    last = _fold_links(worker, inflight, chain, len(chain.ended) - 1)
    if last is not None:
        worker.attempts.ended(last, replace(chain.ended[-1][0], inputs=last.activation.key[1]))


def end_chain(worker: Worker, inflight: InFlight, chain: ChainCall) -> None:
    """The *chain* has ended or was given up."""
    chain.is_halted, inflight.chain = True, None
    if bus.batch_stop and chain.inflight is not None:  # else it was never handed over
        spent = worker.dispatcher.monotonic() - chain.since
        worker.report.batch_ended(inflight, chain.nodes[0].name, len(chain.ended), spent)


def advance_all(worker: Worker) -> None:
    """Advance the chains of all runnables in flight."""
    for inflight in list(worker.queue.by_key.values()):
        if inflight.chain is not None:
            advance(worker, inflight)


def advance(worker: Worker, inflight: InFlight) -> None:
    """Start no further link of the chain of *inflight*, and fold the outcomes of those that have ended."""
    chain = inflight.chain
    if chain is None or inflight.state != "executing":
        return
    chain.is_halted = True
    ended = min(len(chain.ended), len(chain.links) - 1)  # the next one runs, or is about to be collected
    if ended <= chain.folded or not inflight.ticket:
        return
    following = _fold_links(worker, inflight, chain, ended)
    if following is None:  # it was removed from the run
        worker.dispatcher.withdraw(inflight)
        end_chain(worker, inflight, chain)
        return
    following.chain, chain.inflight, following.started = chain, following, inflight.started
    worker.dispatcher.queues[inflight.executor].pass_on(worker, following, inflight.ticket)


def _watch(worker: Worker, inflight: InFlight) -> None:
    inflight.arm(worker.dispatcher.timeouts.later(ADVANCE_AFTER, worker, _takes_long, worker, inflight))


def _takes_long(worker: Worker, inflight: InFlight) -> None:
    """Fold what has ended of the chain of *inflight*, and let the link that runs be its last."""
    if inflight.chain is None or inflight.state != "executing":
        return
    inflight.disarm()
    if worker.dispatcher.started(inflight) is None:  # it waits for a thread, or has just ended
        _watch(worker, inflight)
        return
    advance(worker, inflight)
    worker.turn()


def _fold_links(worker: Worker, inflight: InFlight, chain: ChainCall, until: int) -> InFlight | None:
    """Fold the outcomes of *chain*, that of *inflight* first, up to *until*; return the next link, in flight."""
    if chain.folded == until:
        return inflight
    memory, queue = worker.run.memory, worker.queue
    activation: Activation | None = inflight.activation
    inflight.disarm()
    queue.move(inflight, "done")
    while chain.folded < until and activation is not None:
        outcome, encoded = chain.ended[chain.folded]
        chain.folded += 1
        address = (len(memory.log) + 1,)
        if memory.ready.get(activation.key) is not activation:  # the workflow was changed meanwhile
            outcome = replace(outcome, inputs=activation.key[1])
        worker.fold(activation, outcome, encoded)
        activation = memory.ready.get((chain.nodes[chain.folded].name, address))
        if activation is not None:
            _withhold(memory, activation)
    if worker.observer is not None:
        worker.observer(worker)
    if activation is None:
        return None
    link = chain.links[until]
    link.inputs = activation.key[1]
    following = InFlight(activation, needed=len(memory.log), runnable=link, attempt=Attempt(link, None))
    following.executor = inflight.executor
    queue.add(following)
    queue.move(following, "executing")
    return following


def _withhold(memory: Memory, activation: Activation) -> None:
    """Do not offer *activation* as newly ready: it has run already, or is running."""
    ready = memory.newly_ready
    if ready and ready[-1] is activation:  # the usual case
        ready.pop()
    else:
        memory.newly_ready = [other for other in ready if other is not activation]

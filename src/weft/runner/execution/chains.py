"""
Chains of runnables that go to an executor in one hand-over, as a scheduler says (ADR 39).

    handed over ──► link 1 ──► link 2 ──► … ──► collected: the outcomes are folded in order
         │
         └──► advanced: what has ended is folded, and the running link is in flight by itself

Invariants:

1. A link runs only if the outcome of the one before is certain to be folded at once: it has completed, has added
   nothing to the workflow, and its value needs no encoding in slices.
2. A link sees no context variable of another, and reads the same id and idempotency key as without a chain.
3. ``links`` grows before a link runs and ``ended`` after it, on the thread of the executor; the event loop only reads
   them, and sets ``is_halted``, after which at most the link that runs is added to ``ended``.
"""

from __future__ import annotations

import logging
from contextvars import copy_context
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from weft.calling import attempt
from weft.core.fold.scope import NOTHING, Activation
from weft.core.lineage.fact import Fact
from weft.core.lineage.lineage import Lineage
from weft.core.plan.chains import chains_of
from weft.core.plan.node import FunctionNode
from weft.core.run.runnable import Outcome, Runnable
from weft.log import Encoded, needs_encoding
from weft.log.codec import encode_at_once
from weft.ports.scheduler import Scheduler
from weft.runner.checkpoints import Checkpoints
from weft.telemetry import bus
from weft.typing import Address

if TYPE_CHECKING:
    from weft.runner.execution.worker import Worker

MOMENT_NS: Final = 2_000_000
"""Longest chain, in nanoseconds: slow steps are started one by one, so that their results are seen at once."""

_PROVISIONAL: Final = 0
"""The position of a fact that is not in the log yet; events are counted from 1."""

_log = logging.getLogger("weft.runner")


def most_links(
    checkpoints: Checkpoints, *, is_volatile: bool, unacknowledged: int, units: int, in_flight: int
) -> int | None:
    """
    Return how many links may go out together so that no more is at risk than the strategy allows; None for any number.

    Args:
        is_volatile: whether the store does not outlive the process anyway.
        unacknowledged: how many events of the run are not durable yet.
        units: how many runnables have completed since the last checkpoint.
        in_flight: how many runnables of the run are in flight, this one included; they share what is allowed.
    """
    if checkpoints.lag is not None:
        if checkpoints.lag == 0:
            return None if is_volatile else 1
        allowed = checkpoints.lag - unacknowledged + 1  # the first link depends on what is there already
    elif checkpoints.every is None:
        return None
    else:
        allowed = checkpoints.every - units
    return max(1, allowed // max(1, in_flight))


class ChainLineage(Lineage):
    """The lineage of a run, and the facts that a chain has produced and that are not in the log yet."""

    __slots__ = ("_first", "_made")

    def __init__(self, known: Lineage, first: tuple[Address, ...]) -> None:
        """Continue what is *known*; *first* are the inputs of the first link."""
        super().__init__(known.log)
        self.gathered, self.read, self.absent, self.stateful = known.gathered, known.read, known.absent, known.stateful
        self._first = first
        self._made: list[tuple[str, Any]] = []

    def note(self, component: str, value: Any) -> Address:
        """Note that *component* has produced *value*; return a provisional address of it."""
        self._made.append((component, value))
        return (_PROVISIONAL, len(self._made) - 1)

    def fact(self, address: Address) -> Fact:
        """Return the fact at *address*."""
        if isinstance(address, tuple) and address[0] == _PROVISIONAL:
            component, value = self._made[address[1]]
            return Fact(self, address, value, component)
        return super().fact(address)

    def parents(self, address: Address) -> tuple[Address, ...]:
        """Return the addresses of the facts that the fact at *address* was computed from."""
        if isinstance(address, tuple) and address[0] == _PROVISIONAL:
            return ((_PROVISIONAL, address[1] - 1),) if address[1] else self._first
        return super().parents(address)


class ChainLink(Runnable, eq=False):
    """A runnable of a chain, but not the first one: its input may not be in the log yet."""

    chain: ChainCall | None = None


class ChainCall(Runnable, eq=False):
    """A chain in the form of a runnable, so that an executor can make it; its node is that of the first link."""

    nodes: tuple[FunctionNode, ...] = ()
    links: list[Runnable] = []  # noqa: RUF012 - a field of a record, which copies it
    """Links that have been started."""
    ended: list[tuple[Outcome, Encoded | None]] = []  # noqa: RUF012
    """The outcomes of those that have ended, with the bytes of values that had to be encoded."""
    folded: int = 0
    """How many of these are in the run."""
    is_halted: bool = False
    """Whether no further link is to start."""
    inflight: Any = None
    """The runnable in flight that has the ticket."""
    since: float = 0.0
    """When it was handed over, on the monotonic clock."""

    def call(self) -> None:
        """Run the links, one after the other, until the chain ends."""
        context, begun, link = copy_context(), perf_counter_ns(), self.links[0]
        lineage: ChainLineage | None = None
        for following in (*self.nodes[1:], None):
            outcome = context.copy().run(attempt, link)
            encoded, is_clear = _checked(outcome)
            self.ended.append((outcome, encoded))
            if following is None or not is_clear or self.is_halted or perf_counter_ns() - begun > MOMENT_NS:
                return
            if lineage is None:
                lineage = ChainLineage(self.lineage, self.inputs)
            link = self._link(following, outcome, lineage)
            self.links.append(link)

    def _link(self, node: FunctionNode, before: Outcome, lineage: ChainLineage) -> ChainLink:
        address = lineage.note(before.component, before.result)
        kwargs = NOTHING if node.arguments is None else dict(node.arguments.constants)
        link = ChainLink(node, self.run_id, (address,), lineage, (before.result,), kwargs, chain=self)
        link.runner = self.runner
        return link


def _checked(outcome: Outcome) -> tuple[Encoded | None, bool]:
    """Return the value of *outcome* as bytes, if it needs that, and whether it is certain to be folded at once."""
    if outcome.status != "completed" or outcome.added:
        return None, False
    if not needs_encoding(outcome.result):
        return None, True
    encoded = encode_at_once(outcome.result)
    return encoded, encoded is not None


def chain_for(worker: Worker, scheduler: Scheduler, activation: Activation, runnable: Runnable) -> ChainCall | None:
    """Return *runnable*, which is about to be handed over, with what goes out with it; None if that is nothing."""
    memory, options, dispatcher = worker.run.memory, worker.options, worker.dispatcher
    if (
        bus.runnable_start
        or bus.runnable_stop
        or options.hooks is not None
        or options.check_arguments
        or (memory.workflow.policies if memory.rules is None else memory.rules)
        or memory.has_deadlines
        or memory.attempts
        or memory.dispatched
        or memory.retried
        or worker.queue.barrier
    ):
        return None
    place = chains_of(activation.scope.plan).get(activation.node.name)
    if place is None:
        return None
    most = most_links(
        options.checkpoints,
        is_volatile=dispatcher.is_volatile,
        unacknowledged=len(memory.log) - worker.acknowledged,
        units=worker.units,
        in_flight=worker.queue.slots_used,
    )
    (nodes, names), index = place.chain, place.position
    end = len(nodes) if most is None else min(len(nodes), index + most)
    if end - index < 2 or nodes[index] is not activation.node:
        return None
    wanted = _asked(scheduler, names[index:end])
    if wanted < 2:
        return None
    chain = ChainCall(
        node=runnable.node,
        run_id=runnable.run_id,
        inputs=runnable.inputs,
        lineage=runnable.lineage,
        args=(),
        kwargs=NOTHING,
        nodes=nodes[index : min(end, index + wanted)],
        runner=dispatcher.step_runner,
    )
    chain.links.append(runnable)
    return chain


_FAILED: Final[set[type]] = set()
"""The classes of schedulers that have raised, each of which is logged once."""


def _asked(scheduler: Scheduler, components: tuple[str, ...]) -> int:
    try:
        return int(scheduler.group(components))
    except Exception:  # noqa: BLE001 - a scheduler that fails must not affect the run
        if type(scheduler) not in _FAILED:
            _FAILED.add(type(scheduler))
            _log.exception("the scheduler %r failed; runnables go out one by one", scheduler)
        return 1

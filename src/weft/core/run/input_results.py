"""
The results of one input of a run: its output, and the failures that nothing has handled.

The facts of an input stand after its event in the log, so looking for them begins there: the result of a recent input
costs as much in a long history as in a short one.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from weft.core.events import FannedOut, InputReceived, ReactionOccurred, RunnableFailed
from weft.core.functions.references import MISSING
from weft.core.graph.outputs import Output, fill
from weft.core.run.leaf_orders import ordered
from weft.errors import HistoryTruncated
from weft.typing import Address

if TYPE_CHECKING:
    from weft.core.fold.memory import Memory
    from weft.core.run.queries import Queries


def event_of(memory: Memory, ordinal: int) -> InputReceived:
    """Return the event of the input with this number, which the run has had."""
    if ordinal == memory.received == 1 and memory.lineage.removed <= 1:
        second = memory.log[1]  # the usual case
        if isinstance(second, InputReceived):
            return second
    found = (event for event in reversed(memory.log) if isinstance(event, InputReceived) and event.ordinal == ordinal)
    event = next(found, None)
    if event is None:  # which the run has had
        history = memory.lineage.history
        raise HistoryTruncated(memory.run_id, 1 if history is None else history.removed + 1)
    return event


def results_of(run: Queries, ordinal: int) -> dict[str, Any]:
    """Return the results of the leaves of *run* that come from the input *ordinal*; as ``Run.results``."""
    if ordinal > run.memory.received:
        return {}
    if run.memory.received == 1:
        return run.results()
    found = {name: _result(run, name, ordinal) for name in run.memory.workflow.leaves}
    return {name: value for name, value in found.items() if value is not MISSING}


def known_results_of(run: Queries, ordinal: int) -> dict[str, Any]:
    """Return what :func:`results_of` returns, without the leaves of which that cannot be said in a truncated log."""
    found: dict[str, Any] = {}
    for name in run.memory.workflow.leaves:
        with suppress(HistoryTruncated):
            found[name] = _result(run, name, ordinal)
    return {name: value for name, value in found.items() if value is not MISSING}


def last_result(memory: Memory, name: str) -> Any:
    """
    Return what *name*, the only leaf, has made of the only input, if that is the last event of the log; else MISSING.

    It is what :func:`results_of` returns, for nearly all runs that have just finished.
    """
    log, workflow = memory.log, memory.workflow
    last = log[-1]
    if type(last) is not ReactionOccurred or last.component != name or workflow.leaves != (name,):
        return MISSING
    is_plain = memory.received == 1 and memory.keyed is None and type(log) is list and not memory.lineage.void
    return last.value if is_plain and workflow.wiring.regions[name] is None else MISSING


def output_of_input(run: Queries, ordinal: int) -> Any:
    """
    Return the output of *run* for the input *ordinal*; as ``Run.output``.

    Raises:
        NothingProduced: a component that the workflow returns has produced nothing for it.
    """
    if run.memory.received == 1:
        return run.output

    def leaf(output: Output) -> Any:
        value = _result(run, output.component, ordinal)
        if value is MISSING:
            raise run.nothing_produced(output.component, ordinal)
        return value

    return fill(run.memory.workflow.returns, leaf)


def failures_of(run: Queries, ordinal: int) -> list[RunnableFailed]:
    """Return the failures of the input *ordinal* that nothing has handled, in the order of the log."""
    failed = [*(run.memory.failures or {}).values()]
    if run.memory.received > 1:
        history = run.memory.lineage.history
        removed = 0 if history is None else history.removed  # of inputs before those whose results are known
        failed = [event for event in failed if _position(event.inputs[0]) > removed]
        failed = [event for event in failed if run.memory.lineage.ordinal(event.inputs[0]) == ordinal]
    return sorted(failed, key=lambda event: event.seq)


def _result(run: Queries, name: str, ordinal: int) -> Any:
    """Return what the leaf *name* has made of the input *ordinal*: a list inside an ``each``; MISSING if nothing."""
    memory, wiring = run.memory, run.memory.workflow.wiring
    is_ordered = name in (memory.keyed or ())
    is_plain = wiring.regions[name] is None and not is_ordered
    if is_plain and (last := _latest_of(memory, name, ordinal)) is not None:
        return memory.lineage.cell(last).value
    since = event_of(memory, ordinal).seq
    facts = memory.lineage.index(since).get(name, [])
    later = facts[bisect_left(facts, since, key=_position) :]
    mine = [at for at in later if memory.lineage.is_of(at, ordinal, since)]
    if len(mine) > 1 and is_ordered and (among := ordered(memory, name, later)) is not None:
        orders = {at: order for order, at in among}
        if not orders.keys() >= set(mine):  # those that are needed are known: it is an old input, which was retried
            memory.lineage.check_whole()
        mine.sort(key=orders.__getitem__)
    elif maps := wiring.enclosing(wiring.regions[name])[:-1]:
        mine.sort(key=lambda at: [index for _, index in memory.lineage.elements(at, maps)])
    values = [memory.lineage.cell(at).value for at in mine]
    if wiring.regions[name] is not None and wiring.enclosing(wiring.regions[name])[:-1]:
        return values if values or _has_batch(run, name, ordinal) else MISSING
    return values[-1] if values else MISSING


def _latest_of(memory: Memory, name: str, ordinal: int) -> int | None:
    """Return where the latest fact of the leaf *name* stands, if it is known to be of the input *ordinal*."""
    paged = memory.lineage.paged
    if paged is None or not paged.cold:
        return None
    last = memory.lineage.last_address(name)
    return last if isinstance(last, int) and paged.ordinals.get(last) == ordinal else None


def _has_batch(run: Queries, name: str, ordinal: int) -> bool:
    """Whether the outermost ``each`` around *name* has taken a collection of the input *ordinal* apart."""
    memory, wiring = run.memory, run.memory.workflow.wiring
    outermost = wiring.enclosing(wiring.regions[name])[:-1][-1]
    begin = event_of(memory, ordinal).seq
    since = (memory.lineage.log[at] for at in range(begin, len(memory.log)))
    batches = (event for event in since if isinstance(event, FannedOut) and event.component == outermost)
    lineage = memory.lineage
    return any(batch.seq not in lineage.void and lineage.is_of(batch.seq, ordinal, begin) for batch in batches)


def _position(address: Address) -> int:
    return address if isinstance(address, int) else address[0]

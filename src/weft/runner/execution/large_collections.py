"""
A large collection on its way into a run: its elements are taken in a page at a time, as there are slots for them.

A map over a hundred thousand elements must not block the event loop or fill the queue.  So the fold makes a page of
elements ready, and the worker asks for the next page when there are more slots than runnables that run or are queued.
Other runs have their turn before the page after that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.runner.execution.run_queue import MOST_SPREAD

if TYPE_CHECKING:
    from weft.runner.execution.worker import Worker


def open_more(worker: Worker) -> None:
    """Make more elements ready for *worker*, if there are slots or a policy already counts their time."""
    memory, hooks = worker.run.memory, worker.options.hooks
    if hooks is not None and hooks.transform is not None:  # it puts all of them in order
        memory.open_all()
    elif not worker.is_opening and not memory.newly_ready and _wants_more(worker):
        memory.open_more()
        if memory.unopened is not None:
            _open_soon(worker)


def open_for_others(worker: Worker) -> None:
    """Make more elements ready soon, if other workers can run more than the page that was just handed to them."""
    if worker.queue.spread and not worker.is_opening and _wants_more(worker):
        _open_soon(worker)


def _open_soon(worker: Worker) -> None:
    worker.is_opening = True
    worker.dispatcher.loop.call_soon(worker.dispatcher.guard, worker, _open_again, worker)


def _open_again(worker: Worker) -> None:
    worker.is_opening = False
    if worker.run.memory.unopened is not None and _wants_more(worker):
        worker.turn()


def _wants_more(worker: Worker) -> bool:
    """Whether there are more slots than executing and queued runnables; those that wait for time need none."""
    queue = worker.queue
    has_slots = queue.slots_used - queue.spread + len(queue.line) < worker.options.max_concurrency
    return (has_slots and queue.spread < MOST_SPREAD) or _is_timed(worker)


def _is_timed(worker: Worker) -> bool:
    """Whether a policy of elements that are not ready yet counts from the moment they become ready."""
    policies = worker.policies
    for opening in worker.run.memory.unopened or () if policies.rules else ():
        table = policies.table(worker.run.workflow, opening.scope.plan)
        for target in opening.targets:
            policy, _ = table.of(target.name)
            if policy is not None and (policy.queue_timeout is not None or policy.delay):
                return True
    return False

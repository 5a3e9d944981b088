"""
The memory of a run: the fold of its events, and nothing else.

Only events change it (``weft.core.fold.fold``).  Everything else is derived from them: which nodes may run now, which
wait, and for what.  No user function is called.

    MemoryData ── Delivery ── Memory
    what a run    how facts   how activations
    knows         move on     end

A node that can produce nothing more *settles* (``weft.core.fold.settling``).
"""

from __future__ import annotations

from weft.core import events as ev
from weft.core.fold import gates, settling
from weft.core.fold.delivery import Delivery
from weft.core.fold.scope import Activation, Ending, Key, Letter
from weft.core.plan.node import FunctionNode, Kind

PAGE = 512
"""How many elements of a collection a runner takes in before it lets other tasks run."""


class Memory(Delivery):
    """Mutable state of one run."""

    __slots__ = ()

    def take(self, event: ev.Activated, kind: Kind | None = None) -> Activation:
        """Remove and return the activation that *event* is about, of a node of this *kind*."""
        key = (event.component, event.inputs)
        activation = self.ready.get(key) or self.at(key)
        if activation is None or (kind is not None and activation.node.kind is not kind):
            raise self.story(event)
        del self.ready[key]
        if self.unopened is not None and not self.ready:
            self.open_more()
        if self.dispatched:
            self.dispatched.pop(key, None)
            if self.external:
                self.external.drop(key)
        if self.attempts:
            self.attempts.pop(key, None)
        if self.retried:
            self.retried.pop(key, None)
        return activation

    def take_waiting(self, key: Key) -> Activation | None:
        """Remove and return the activation at *key* if it waits for time or a signal; else return None."""
        waiting = None if self.waiting is None else self.waiting.pop(key, None)
        if waiting is None:
            return None
        self._waits_ended += 1
        if not self.waiting:
            self.waiting, self._waits_ended = None, 0
        elif self._waits_ended > len(self.waiting) // 8 + 64:  # iterating a dict visits deleted entries too
            self.waiting, self._waits_ended = dict(self.waiting or {}), 0
        if self.external:
            self.external.drop(key)
            if self.attempts:
                self.attempts.pop(key, None)
        if self.retried:
            self.retried.pop(key, None)
        return waiting.activation

    def keep_dead_letter(self, activation: Activation, event: ev.RunnableFailed) -> None:
        """Keep *activation*, which failed for good, as a dead letter."""
        if self.letters is None:
            self.letters = {}
        self.letters[activation.key] = Letter(activation, event)
        self._run_next(activation.node)

    def take_dead_letter(self, event: ev.Activated) -> Activation | None:
        """Return the dead letter that *event* is about; what it failed with no longer counts."""
        letter = (self.letters or {}).pop((event.component, event.inputs), None)
        if letter is None:
            return None
        if self.failures:
            self.failures.pop((event.component, event.inputs), None)
        return letter.activation

    def release(self, activation: Activation) -> None:
        """Offer the next activation in the queue of the node, or let the node settle if this was the last."""
        self._run_next(activation.node)
        if activation.node.settling is not None and activation.flows:
            settling.close(self, activation.node, activation.scope)

    def _run_next(self, node: FunctionNode) -> None:
        if node.stateful and self.state_queues is not None:
            queue = self.state_queues.pop(node.name)
            if queue:
                following = queue.popleft()
                assert self.blocked is not None  # noqa: S101
                del self.blocked[following.key]
                self.enqueue(following)
                self.state_queues[node.name] = queue

    def end(self, activation: Activation, ending: Ending) -> None:
        """*activation* has produced nothing: *ending* says why."""
        self._tell(activation, ending)
        self.release(activation)
        self._end_loop(activation)

    def discard_dead_letter(self, activation: Activation) -> None:
        """Discard *activation*, a dead letter, which left the queue of its node when it failed."""
        self._tell(activation, "skipped")
        if activation.node.settling is not None and activation.flows:
            settling.close(self, activation.node, activation.scope)
        self._end_loop(activation)

    def _end_loop(self, activation: Activation) -> None:
        """A turn that ended without a value is the last one of its loop."""
        node, turn = activation.node, activation.node.turn
        if turn is not None and turn.first is not node and turn.first.settling is not None:
            settling.close(self, turn.first, activation.scope)

    def _tell(self, activation: Activation, ending: Ending) -> None:
        """Tell the nodes that wait for *activation* that it has produced nothing."""
        node, scope = activation.node, activation.scope
        if (
            node.settling is not None and activation.flows
        ):  # what a gate asked about is nothing that the condition would hand on
            scope.end(node.name, ending)
        if node.shares_answers:
            if scope.outcomes is None:
                scope.outcomes = {}
            scope.outcomes[activation.key] = ending
        for state in activation.gates or ():
            gates.abandon(self, state, ending)

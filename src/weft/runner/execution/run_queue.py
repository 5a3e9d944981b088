"""
The queue of one run: the runnables that wait for a slot, those that are in flight, and the number of used slots.

Invariants:

1. A runnable waits for a slot if and only if its state is *queued*.
2. The number of used slots is the number of runnables that are *executing*, *calling_policy*, *encoding* or
   *committing*.
3. As many of them as any worker of a fleet may run are counted as *spread* too: they need no slot of this process.
4. A runnable is in the queue, under its key, until it is *done*; there is at most one for each key.
5. A state changes here and nowhere else, as :data:`~weft.runner.execution.inflight.TRANSITIONS` says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable
from typing import Final

from weft.core.fold.scope import Key
from weft.runner.execution.inflight import TRANSITIONS, InFlight, State

_NO_LINE: Final[deque[InFlight]] = deque(maxlen=0)
"""The queue that all runs without queued runnables share: an empty deque takes 760 bytes."""

MOST_SPREAD: Final = 1_000
"""How many runnables of one run may be handed to other workers at once."""

UNNOTED: Final = -1
"""The barrier of a run that was taken over, until its log notes that, when its first runnable is to start."""


class RunQueue:
    """The runnables of one run that are in flight.  Others read its attributes, and do not change them."""

    __slots__ = ("barrier", "by_key", "line", "slots_used", "spread")

    def __init__(self) -> None:
        self.by_key: dict[Key, InFlight] = {}
        """All that are in flight, in the order in which they became ready."""
        self.line: deque[InFlight] = _NO_LINE
        """Queued runnables, by priority, then by arrival."""
        self.slots_used = self.spread = 0
        self.barrier = 0
        """
        How many events must be durable before anything starts, since a policy says ``checkpoint_after`` or since the
        log notes that the run was taken over; :data:`UNNOTED` if it does not yet; else 0.
        """

    def add(self, inflight: InFlight) -> None:
        """Queue a new runnable."""
        self.by_key[inflight.activation.key] = inflight
        self._line_up(inflight)

    def add_started(self, inflight: InFlight) -> None:
        """Add a new runnable that has a slot already, since it is the only one; it is *executing*."""
        self.by_key[inflight.activation.key] = inflight
        self.slots_used += 1

    def _line_up(self, inflight: InFlight) -> None:
        """Put *inflight* behind those that are as urgent, and before those that are less."""
        if self.line is _NO_LINE:
            self.line = deque()
        line = self.line
        if not line or line[-1].priority >= inflight.priority:
            line.append(inflight)
            return
        place = next(place for place, other in enumerate(line) if other.priority < inflight.priority)
        line.insert(place, inflight)

    def start_first(self) -> None:
        """Give the first queued runnable a slot: the same as :meth:`move`, but faster, since every step needs it."""
        inflight = self.line.popleft()
        inflight.state = "executing"
        self.slots_used += 1
        if inflight.is_spread:
            self.spread += 1

    def move(self, inflight: InFlight, state: State) -> None:
        """
        Change the state of *inflight* to *state*.

        Raises:
            RuntimeError: this transition is not allowed; it is a bug of the worker.
        """
        before = inflight.state
        slots = TRANSITIONS[before].get(state)
        if slots is None:
            raise RuntimeError(f"{inflight.activation.node.name!r} cannot be {state} after it was {before}")
        self.slots_used += slots
        if inflight.is_spread:
            self.spread += slots
        if before == "queued":
            self.line.remove(inflight)
        elif state == "queued":
            self._line_up(inflight)
        if state == "done":
            del self.by_key[inflight.activation.key]
        inflight.state = state

    def rest(self) -> None:
        """Free as much memory as possible until the next runnable comes: nothing is in flight."""
        if not self.by_key:
            self.by_key, self.line = {}, _NO_LINE

    def hold(self, position: int) -> None:
        """Let nothing start before *position* events are durable."""
        self.barrier = position

    def stored(self, position: int) -> None:
        """*position* events are durable."""
        if 0 < self.barrier <= position:
            self.barrier = 0

    def drop(self, kept: Container[InFlight] = ()) -> list[InFlight]:
        """Set all runnables to *done* except those *kept*; return the others in reverse order."""
        dropped = [inflight for inflight in reversed(self.by_key.values()) if inflight not in kept]
        queued = [inflight for inflight in self.line if inflight in kept]
        self.line.clear()
        self.line.extend(queued)
        for inflight in dropped:
            slots = TRANSITIONS[inflight.state]["done"]
            self.slots_used += slots
            if inflight.is_spread:
                self.spread += slots
            inflight.state = "done"
            del self.by_key[inflight.activation.key]
        return dropped

    def in_state(self, state: State) -> Iterable[InFlight]:
        """Return the runnables that are in *state*."""
        return [inflight for inflight in self.by_key.values() if inflight.state == state]

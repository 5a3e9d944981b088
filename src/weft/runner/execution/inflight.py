"""
One runnable in flight: from being ready to having ended, through attempts, waits and limits.

It holds no thread and no task.  Its state is one of seven (docs/adr/0020-one-state-per-runnable.md); the queue of its
run changes it, and counts the slots that are used.

                ┌───────────────────────────────────────────────┐
                ▼                                               │
    ──► queued ───► executing ◄──► calling_policy ───► waiting ─┘
                     │  ▲                ▲  │
                     │  └─► (encoding) ◄─┘  │
                     │  └─► (committing)    │
                     └──────────┬───────────┘
                                ▼
                              done

From any state, a runnable that is abandoned is done.  Not drawn: executing and calling_policy go back to queued if the
log must record something first, and a runnable that was not started in time is executing when it fails.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from weft.core.events import RunnableDispatched
from weft.core.fold.memory import Memory
from weft.core.fold.scope import Activation, Key
from weft.core.run.runnable import Outcome, Runnable
from weft.policy.driver import Attempt, Await, AwaitTurn, Begun, Instructions, Pause
from weft.policy.policy import Policy
from weft.runner.execution.chains import ChainCall
from weft.runner.execution.large_values import PendingResult
from weft.runner.execution.observed import ObservedAttempt
from weft.runner.execution.policy_call import PolicyCall
from weft.runner.execution.transactions import AttemptTransaction

State = Literal["queued", "executing", "calling_policy", "waiting", "encoding", "committing", "done"]
"""
- queued: in the line of its run, until there is a slot for it and what it needs is durable;
- executing: has a slot, and its attempt is with the executor or queued for it;
- calling_policy: has a slot, and a function of its policy is called in place of the component;
- waiting: for time or for a limit, without a slot;
- encoding: has a slot, and its attempt has ended with a large value that is being encoded;
- committing: has a slot, and its attempt has ended with a transaction that is about to be committed;
- done: its outcome is in the run, or it was given up.
"""

Wait = Literal["delayed", "backing_off", "limited"]
"""Why a policy makes a runnable wait; the names are those of :class:`weft.core.events.Timing`."""

TRANSITIONS: Final[dict[State, dict[State, int]]] = {
    "queued": {"executing": 1, "done": 0},
    "executing": {
        "executing": 0,
        "calling_policy": 0,
        "queued": -1,
        "waiting": -1,
        "encoding": 0,
        "committing": 0,
        "done": -1,
    },
    "calling_policy": {"executing": 0, "calling_policy": 0, "queued": -1, "waiting": -1, "encoding": 0, "done": -1},
    "waiting": {"queued": 0, "executing": 1, "done": 0},
    "encoding": {"executing": 0, "calling_policy": 0, "done": -1},
    "committing": {"executing": 0, "done": -1},
    "done": {},
}
"""By state: the states that may follow, and by how many slots more are then used."""


class InFlight(msgspec.Struct, eq=False):
    """One runnable in flight."""

    activation: Activation
    policy: Policy | None = None
    is_guarded: bool = False
    """Whether the policy matters before an attempt fails."""
    begun: Begun | None = None
    """Progress it had made before the run was resumed."""
    state: State = "queued"
    """Changed by :class:`~weft.runner.execution.run_queue.RunQueue`, and by nothing else."""
    runnable: Runnable | None = None
    instructions: Instructions | None = None
    """Its driver; None as long as no policy has anything to say."""
    attempt: Attempt | None = None
    """The last attempt, to be made when it has a slot; None if there was none, or if it was executed at once."""
    ticket: int = 0
    """The ticket of the attempt at its executor; 0 while the attempt is queued there."""
    executor: str = ""
    is_spread: bool = False
    """Whether any worker of a fleet may run it, so that it takes none of the slots of its run."""
    priority: int = 0
    needed: int = 0
    """How many events must be durable before it starts: whatever it has waited for since."""
    ready_since: float = 0.0
    """When it was queued first, on the monotonic clock."""
    started: float = 0.0
    """When the attempt was handed over, on the monotonic clock."""
    last_sign: float = 0.0
    """When the attempt gave its last sign of life."""
    failed: Outcome | None = None
    """The outcome of its last attempt, which has failed, until that is reported: the policy decides first."""
    waiting_since: float | None = None
    """When it began to wait for time or a limit, on the monotonic clock; None if it does not."""
    waited: dict[Wait, float] | None = None
    """By reason: how many seconds its policy has made it wait; None if it has not."""
    spent_ns: int = 0
    """How long its attempts took."""
    timers: list[Any] | None = None
    """The timers that will wake it or end its attempt, to be cancelled when they no longer matter."""
    awaited: Pause | Await | AwaitTurn | None = None
    """The instruction that it waits for; kept after the wait, until its driver receives the answer."""
    awaited_until: float = 0.0
    """When that wait ends at the latest, on the monotonic clock."""
    called: Any = None
    """Its place in the queue of a rate limit from which it was woken, until it starts or waits for something else."""
    queue_timer: Any = None
    """The timer that ends the wait for a first start."""
    handle: ObservedAttempt | None = None
    """The attempt as handlers of telemetry know it, from its start to its end; None if there are none."""
    children: dict[str, int] | None = None
    """By workflow: how many children the attempt has started."""
    outside: BaseException | None = None
    """The failure of its last attempt outside, until its driver receives it."""
    result: PendingResult | None = None
    """The outcome of its last attempt whose value had to be encoded, with the bytes of that."""
    receipt: tuple[int, int] | None = None
    """Location of the last outcome at the executor, until the log holds it."""
    chain: ChainCall | None = None
    """The chain that goes to the executor in its place, if a scheduler says so; it is the link that runs."""

    is_straight: bool = False
    """Whether it was handed over straight, so that its outcome can be folded straight too: :mod:`.straight_lane`."""
    transaction: AttemptTransaction | None = None
    """The transaction of its last attempt, if its function asks for one."""
    repeats: int = 0
    """How often an attempt was made again since its transaction was lost, without being counted."""

    def end_queue_timer(self) -> None:
        """It has started, or will not."""
        if self.queue_timer is not None:
            self.queue_timer.cancel()
            self.queue_timer = None

    @property
    def is_started(self) -> bool:
        """Whether an executor has the attempt, or its outcome is being processed."""
        return self.state in ("executing", "calling_policy") and (self.ticket != 0 or self.attempt is None)

    @property
    def has_ended(self) -> bool:
        """Whether its attempt has ended and is being encoded or committed, or it was abandoned or has its outcome."""
        return self.state in ("encoding", "committing", "done")

    @property
    def calls_policy(self) -> bool:
        """Whether its last attempt is a call of a function of its policy."""
        return self.attempt is not None and isinstance(self.attempt.runnable, PolicyCall)

    @property
    def is_durable(self) -> bool:
        """Whether its dispatch must be in the log before it starts."""
        return self.policy is not None and self.policy.execution_mode in ("durable", "external")

    @property
    def is_external(self) -> bool:
        """Whether it is completed from outside."""
        return self.policy is not None and self.policy.execution_mode == "external"

    def end_wait(self, now: float) -> None:
        """Its wait is over, or it was given up: note for how long it has waited."""
        awaited, since = self.awaited, self.waiting_since
        if since is None or awaited is None:
            return
        self.waiting_since = None
        reason: Wait = "limited"
        if isinstance(awaited, Pause) and awaited.about is None:
            reason = "delayed" if awaited.after is None else "backing_off"
        if self.waited is None:
            self.waited = {}
        self.waited[reason] = self.waited.get(reason, 0.0) + now - since

    def arm(self, timer: Any) -> None:
        """Let *timer* wake it."""
        if self.timers is None:
            self.timers = []
        self.timers.append(timer)

    def forget(self, timer: Any) -> None:
        """Forget *timer*, without cancelling it: it has fired, or its owner cancels it."""
        if self.timers and timer in self.timers:
            self.timers.remove(timer)

    def disarm(self) -> None:
        """Cancel all its timers."""
        if self.timers:
            for timer in self.timers:
                timer.cancel()
            self.timers.clear()


def dispatched(memory: Memory, key: Key, attempt: int, policy: Policy) -> RunnableDispatched:
    """Return the next event of *memory*: *attempt* of the runnable *key* is handed to its executor under *policy*."""
    return RunnableDispatched(len(memory.log) + 1, *key, attempt, policy.data() or None)

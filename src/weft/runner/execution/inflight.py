"""
One runnable on its way: from being ready to having ended, through attempts, waits and limits.

A flight holds no thread and no task.  It is either in line at its worker (*grounded*), with an executor under a
ticket, waiting for a timer or for a limit, or over.
"""

from __future__ import annotations

from typing import Any

import msgspec

from weft.core.fold.scope import Activation
from weft.core.run.runnable import Runnable
from weft.policy.driver import Attempt, Await, Begun, Instructions, Pause
from weft.policy.policy import Policy


class InFlight(msgspec.Struct, eq=False):
    """The state of one runnable under way."""

    activation: Activation
    policy: Policy | None = None
    is_guarded: bool = False
    """Whether the policy matters before an attempt fails."""
    begun: Begun | None = None
    """How far it had come in an earlier life."""
    runnable: Runnable | None = None
    instructions: Instructions | None = None
    """Its driver; None as long as no policy has anything to say."""
    attempt: Attempt | None = None
    """What to do when it is its turn; None if it has not been launched."""
    ticket: int = 0
    executor: str = ""
    priority: int = 0
    needed: int = 0
    """How many events must be durable before it starts: whatever it has waited for since."""
    ready_since: float = 0.0
    """When it came into line, on the monotonic clock."""
    started: float = 0.0
    """When the attempt was handed over, on the monotonic clock."""
    last_sign: float = 0.0
    """When the attempt gave its last sign of life."""
    spent_ns: int = 0
    """How long its attempts took."""
    timers: list[Any] | None = None
    """What will wake it, to be cancelled when it no longer matters."""
    awaited: Pause | Await | None = None
    """What it waits for, while it has timers."""
    awaited_until: float = 0.0
    """When that ends by itself, on the monotonic clock, if it does."""
    queue_timer: Any = None
    """What ends the wait for a first start."""
    children: dict[str, int] | None = None
    """By workflow: how many children the attempt has started."""
    is_asking: bool = False
    """Whether a function of its policy is to be asked, rather than the component to be attempted."""
    is_paused: bool = False
    """Whether it waited for time or a limit, and goes on when it is its turn."""
    is_aloft: bool = False
    """Whether an executor has it, or it stands in line for one."""
    is_over: bool = False

    @property
    def is_durable(self) -> bool:
        """Whether the log must say that it starts, before it starts."""
        return self.policy is not None and self.policy.execution_mode == "durable"

    def arm(self, timer: Any) -> None:
        """Let *timer* wake it."""
        if self.timers is None:
            self.timers = []
        self.timers.append(timer)

    def forget(self, timer: Any) -> None:
        """Let *timer* wake it no more; it is over, or whoever armed it sees to it."""
        if self.timers and timer in self.timers:
            self.timers.remove(timer)

    def disarm(self) -> None:
        """Forget what would have woken it."""
        if self.timers:
            for timer in self.timers:
                timer.cancel()
            self.timers.clear()

"""Workflows whose runs fail, and steps that count or wait: what several tests of the runner need."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from weft import Policy, Workflow, condition, step
from weft.testing.wrapping import WrappedStore


def inverse(x: int) -> float:
    """Fail for 0."""
    return 10 / x


halting = Workflow("halting", step(inverse))
keeping = halting.with_policies([("inverse", Policy(on_failure="dead_letter"))])
two_leaves = Workflow("two_leaves", step(inverse)).add(step(lambda x: x + 1, name="successor"))
positive = Workflow("positive", condition(lambda x: x > 0, name="is_positive") >> step(lambda x: x, name="same"))


class Switch:
    """A step that fails until it is switched on."""

    def __init__(self) -> None:
        self.is_on = threading.Event()

    def __call__(self, x: int) -> int:
        if not self.is_on.is_set():
            raise ConnectionError("down")
        return x * 2


def switched(switch: Switch, **policy: Any) -> Workflow:
    """Return a workflow whose only step is *switch*, with a failure that is kept as a dead letter."""
    return Workflow("switched", step(switch, name="fetch")).with_policies(
        [("fetch", Policy(on_failure="dead_letter", **policy))]
    )


class Calls(WrappedStore):
    """Notes which calls a store gets; but its runner may look for messages at any time."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.seen: list[str] = []

    async def around(self, call: str, act: Callable[[], Any]) -> Any:
        """Note the *call*."""
        if call != "messages":
            self.seen.append(call)
        return await act()

"""
A :class:`~weft.testing.runner.TestRunner` whose process dies between calls, and whose store fails: drawn from a seed.

    >>> from weft import Workflow, step
    >>> with FaultyTestRunner(3, share=1.0) as runner:
    ...     handle = runner.start(Workflow("w", step(lambda x: x + 1, name="more")), 1)
    ...     handle.result(), runner.deaths > 0
    (2, True)

A death loses everything but what the store has; the next process resumes all runs, with the workflows that this one
knew.  The test does not notice, unless its workflow depends on a step being executed once.
"""

from __future__ import annotations

from collections.abc import Coroutine
from random import Random
from typing import Any, Final, TypeVar

from weft.core.workflow import Workflow
from weft.stores import MemoryStore
from weft.testing.faults import Fault, FaultyStore
from weft.testing.loop import VirtualLoop
from weft.testing.runner import START, InlineLoop, TestRunner

T = TypeVar("T")

_MOMENT: Final = 0.05
_TRIES: Final = 100
"""How often time is advanced, at most, until a failed append has been tried again."""


class FaultyTestRunner(TestRunner):
    """A runner for tests to which faults happen, drawn from *seed*: after a *share* of calls, and in one of appends."""

    def __init__(self, seed: int, *, share: float = 0.2, **options: Any) -> None:
        """
        Make a runner; ``with`` opens it.

        Args:
            seed: draws the faults: the same seed and the same calls have the same ones.
            share: the share of the calls after which the process dies, and of the appends at which the store fails.
        """
        self.seed, self._share = seed, share
        self._dice = Random(seed)  # noqa: S311 - the same every time
        self._kept, self._options = MemoryStore(), options
        self._faulty = FaultyStore(self._kept, self._fault)
        self.deaths = 0
        """How often its process has died."""
        self._is_dying = False
        self._begins_at = 0.0
        """When the present process begins, by the virtual time."""
        self._last_fault = 0
        """The number of the last append at which the store failed: the next one is tried at once, and succeeds."""
        super().__init__(self._faulty, start=START, **options)

    def _new_loop(self) -> VirtualLoop:
        """Return the loop of the next process."""
        return InlineLoop(self._begins_at)

    def _fault(self, call: str, number: int) -> Fault | None:
        if call != "append" or number == self._last_fault + 1 or self._dice.random() >= self._share / 2:
            return None
        self._last_fault = number
        return Fault.fail() if self._dice.random() < 0.5 else Fault.fail_after()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """Make a call; then the process may die, and another one resumes its runs."""
        result = super()._do(work)
        if not self._is_dying and self._loop is not None and self._dice.random() < self._share:
            self._die()
        return result

    async def _quiet(self) -> None:
        """Wait until nothing more can happen; an append that has failed is tried again, for which some time passes."""
        await super()._quiet()
        for _ in range(_TRIES):
            if not self._last_fault or self._faulty.calls["append"] != self._last_fault:
                return
            self._virtual.advance(_MOMENT)
            await super()._quiet()

    def _die(self) -> None:
        self._is_dying = True
        try:
            self.deaths += 1
            known = self._known_workflows()
            self._begins_at = self._virtual.time()
            self._virtual.kill()
            self._kept.crash()
            super().__init__(self._faulty, start=START, **self._options)
            self.open()
            self._inner.register(*known)
            self._do(self._inner.resume_all(parked=True))
        finally:
            self._is_dying = False

    def _known_workflows(self) -> list[Workflow]:
        """Return the definitions that the runner knows, which a program that starts again would know too."""
        runtime = self._inner._runtime  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return runtime.definitions.all()

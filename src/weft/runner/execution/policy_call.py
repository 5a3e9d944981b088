"""
A question to a function of a policy, a fallback or a compensation, in the shape of what executors run.

Such a function may take its time, so it is asked where plain functions run, and not in the loop that all runs share.
It counts as no attempt, is told to nobody as one, and has no timeout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core.run.runnable import Runnable


class PolicyCall(Runnable, eq=False):
    """*question*, asked about a runnable."""

    question: Callable[[], Any] | None = None
    answer: Any = None
    """What came back: not the outcome, which of a condition is only its truth."""

    def call(self) -> Any:
        """Ask."""
        assert self.question is not None  # noqa: S101
        self.answer = self.question()


def policy_call(about: Runnable, question: Callable[[], Any]) -> PolicyCall:
    """Return *question* about a runnable, to be executed."""
    return PolicyCall(
        node=about.node,
        run_id=about.run_id,
        inputs=about.inputs,
        lineage=about.lineage,
        args=(),
        kwargs={},
        attempt=about.attempt,
        question=question,
    )

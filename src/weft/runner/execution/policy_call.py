"""
A call of a fallback or a compensation, in the form of a runnable, so that an executor can make it.

Such a function may be slow, so it is called where plain functions run, and not in the event loop that all runs share.
The call does not count as an attempt, is not reported as one, and has no timeout but the deadline of its input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core.run.runnable import Runnable


class PolicyCall(Runnable, eq=False):
    """A call of *question*, about a runnable."""

    question: Callable[[], Any] | None = None
    answer: Any = None
    """The value that it returned; the outcome of a condition would only be whether that is true."""

    def call(self) -> Any:
        """Call the function."""
        assert self.question is not None  # noqa: S101
        self.enter()
        self.answer = self.question()


def policy_call(about: Runnable, question: Callable[[], Any]) -> PolicyCall:
    """Return a call of *question* about a runnable, to be executed."""
    return PolicyCall(
        node=about.node,
        run_id=about.run_id,
        inputs=about.inputs,
        lineage=about.lineage,
        args=(),
        kwargs={},
        attempt=about.attempt,
        entries=about.entries,
        question=question,
    )

"""
The protocol of the policies of a run, as far as the run uses them.

``weft.policy.run_policies`` implements it; core does not import that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from weft.core.fold.scope import Activation
from weft.core.plan.plan import Plan
from weft.typing import PoliciesMode


class PoliciesInForce(Protocol):
    """Says which policy is in force for which node of a run."""

    @property
    def clock(self) -> Any:
        """The clock of the run."""
        ...

    def of(self, activation: Activation) -> tuple[Any, bool]:
        """Return the policy of *activation*, None if it has none, and whether it matters before an attempt fails."""
        ...

    def table(self, workflow: Any, plan: Plan) -> Any:
        """
        Return the policies of the nodes of *plan*, which is that of *workflow*.

        Raises:
            InvalidPolicy: a rule that cannot be applied, or honoured.
        """
        ...

    def check(self, component: str, policy: Any) -> None:
        """
        Refuse a *policy* for *component* that cannot be honoured.

        Raises:
            InvalidPolicy: it cannot.
        """
        ...

    def change(self, policies: Iterable[Any], mode: PoliciesMode, by: str | None = None) -> None:
        """
        Put *policies* in force from the next decision on, and record that, and *by* which caller.

        Raises:
            InvalidPolicy: one that makes no sense, or cannot be honoured; then nothing has changed.
        """
        ...

"""
The policies of a run, as far as the run asks for them.

A run in memory is given those of ``weft.local``, a run of a runner those of the runner, and neither is known here.
"""

from __future__ import annotations

from typing import Any, Protocol

from weft.core.plan.plan import Plan


class PoliciesInForce(Protocol):
    """Says which policy holds for which node of a run."""

    def table(self, workflow: Any, plan: Plan) -> Any:
        """
        Return what the rules in force say of the nodes of *plan*, which is that of *workflow*.

        Raises:
            InvalidPolicy: a rule that cannot be applied, or kept.
        """
        ...

    def check(self, component: str, policy: Any) -> None:
        """
        Refuse a *policy* for *component* that cannot be kept.

        Raises:
            InvalidPolicy: it cannot.
        """
        ...


class PoliciesInMemory(PoliciesInForce, Protocol):
    """Those of a run in memory, which it drives by its own clock and may change."""

    @property
    def clock(self) -> Any:
        """The clock that it waits by."""
        ...

    def change(self, plan: Plan, rules: tuple[Any, ...]) -> None:
        """
        Let *rules* hold from now on.

        Raises:
            InvalidPolicy: they cannot be kept; nothing has changed then.
        """
        ...

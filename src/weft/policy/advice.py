"""
Says which rules of a workflow match nothing, and which fields of their policies cannot matter.

    >>> [unused.field for unused in unused_fields(Policy(base_delay=2.0))]
    ['base_delay']

A rule for a name that the workflow does not have is most likely a mistake, so it is logged when a run is started; the
others are findings of ``Workflow.check()``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from logging import Logger
from typing import Any, Literal
from weakref import WeakKeyDictionary

import msgspec

from weft.core.plan.node import FunctionNode
from weft.core.plan.plan import Plan
from weft.policy.matching import Matcher, PolicyRule, Target, Within, matches
from weft.policy.policy import Policy


class UnusedField(msgspec.Struct, frozen=True):
    """A *field* of a policy that was given and cannot matter, and why."""

    field: str
    why: str


class RuleFinding(msgspec.Struct, frozen=True):
    """One thing that is wrong with a rule, and what to do about it."""

    kind: Literal["unmatched_rule", "unused_field"]
    rule: int
    """Its place in the list, from 1."""
    message: str
    advice: str


def unused_fields(policy: Policy) -> Iterator[UnusedField]:
    """Yield the fields that *policy* sets although nothing can come of them."""
    given = policy.given
    names: tuple[str, ...]
    if not policy.max_retries:
        why = "max_retries is 0, so nothing is tried again"
        names = ("backoff", "base_delay", "max_delay", "retryable", "non_retryable")
    elif policy.backoff == "none":
        why, names = "backoff is 'none', so nothing waits between attempts", ("base_delay", "max_delay")
    elif callable(policy.backoff):
        why, names = "backoff is a function, which returns the seconds itself", ("base_delay",)
    else:
        return
    for name in names:
        if name in given and getattr(policy, name) != _WITHOUT_EFFECT.get(name):
            yield UnusedField(name, why)


def unused_by_waits(policy: Policy) -> Iterator[UnusedField]:
    """Yield the fields that *policy* sets although the components it is for only wait, and run nothing."""
    for name in policy.given:
        if name == "on_failure" and policy.on_failure in ("fallback", "compensate"):
            yield UnusedField(name, f"a sleep or a wait calls no function, so {policy.on_failure!r} fails like 'halt'")
        elif name not in _OF_WAITS:
            yield UnusedField(name, "it is for a sleep or a wait alone, where nothing is executed")


_OF_WAITS = frozenset({"on_failure", "telemetry_prefix", "log_level", "metadata"})
"""The fields that matter for what only waits."""

_WITHOUT_EFFECT = {"backoff": "none"}
"""By field: the value that says that nothing is wanted."""


def rule_findings(rules: Sequence[PolicyRule], plan: Plan) -> Iterator[RuleFinding]:
    """Yield what is wrong with *rules* for the workflow of *plan*."""
    functions = [node for node in plan.nodes.values() if isinstance(node, FunctionNode)]
    for number, (matcher, policy) in enumerate(rules, 1):
        name, known = _name(matcher), _known_names(plan)
        if name is not None and name not in known:
            yield RuleFinding("unmatched_rule", number, f"no component is called {name!r}", _advice(name, known))
        matched = [node for node in functions if matches(matcher, Target(node.name, node.component))]
        if name is None and not matched:
            yield RuleFinding(
                "unmatched_rule", number, f"{matcher!r} matches no component", "correct the rule, or remove it"
            )
        is_for_waits = bool(matched) and all(node.wait is not None for node in matched)
        for unused in unused_by_waits(policy) if is_for_waits else unused_fields(policy):
            advice = f"leave {unused.field} out{'' if is_for_waits else ', or set what it needs'}"
            yield RuleFinding("unused_field", number, f"{unused.field} cannot matter: {unused.why}", advice)


class NameWarnings:
    """Logs, once per definition, the names in rules that the workflow does not have."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._reported: WeakKeyDictionary[Plan, set[str]] = WeakKeyDictionary()

    def look_at(self, workflow: str, plan: Plan, rules: Sequence[PolicyRule]) -> None:
        """Warn of each name in *rules* that *workflow*, with this *plan*, does not have."""
        known: Collection[str] | None = None
        for matcher, _ in rules:
            name = _name(matcher)
            if name is None or name in plan.nodes:
                continue
            known = known or _known_names(plan)
            reported = self._reported.setdefault(plan, set())
            if name not in known and name not in reported:
                reported.add(name)
                advice = _advice(name, known)
                self._log.warning(
                    "workflow %r has a policy rule for %r, and no component of this name: the rule has no effect; %s",
                    workflow,
                    name,
                    advice,
                )


def _name(matcher: Matcher) -> str | None:
    """Return the name that *matcher* asks for; None if it matches otherwise."""
    inner: Any = matcher
    front = ""
    while isinstance(inner, Within):
        front, inner = f"{front}{inner.workflow}.", inner.matcher
    return f"{front}{inner}" if isinstance(inner, str) else None


def _known_names(plan: Plan) -> set[str]:
    return {*plan.nodes, *(node.owner for node in plan.nodes.values())}


def _advice(name: str, known: Collection[str]) -> str:
    inside = sorted(each for each in known if each.startswith(f"{name}."))
    if inside:
        return f"for everything inside it, such as {inside[0]!r}, use matching(r'^{name}\\.')"
    close = get_close_matches(name, known, 1)
    if close:
        return f"perhaps {close[0]!r} was meant"
    return f"its components are {', '.join(map(repr, sorted(known)))}" if len(known) < 8 else "correct the name"

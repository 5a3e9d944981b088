"""Policies, which say how components run: retries, timeouts, fallbacks and limits, declared next to the graph."""

from weft.policy.fallback import RetryWith, Value
from weft.policy.limits import CircuitBreaker, ConcurrencyLimit, RateLimit
from weft.policy.matching import DEFAULT, Choice, Target, kind, matching, tag
from weft.policy.policy import Policy

__all__ = [
    "DEFAULT",
    "Choice",
    "CircuitBreaker",
    "ConcurrencyLimit",
    "Policy",
    "RateLimit",
    "RetryWith",
    "Target",
    "Value",
    "kind",
    "matching",
    "tag",
]

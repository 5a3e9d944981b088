"""
Weft's own records and functions that stored definitions are made of, by their stored names.

The tables are closed: a stored definition can construct these classes, and classes of components, and no others.
The names are wire format: a class or function may move, but its name stays.  A component with its own record adds a
line.

    >>> PARTS["policy.Policy"]
    <class 'weft.policy.policy.Policy'>
    >>> NAMES[Policy]
    'policy.Policy'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core.components.aggregate import Command
from weft.core.components.fsm import Transition
from weft.core.components.join import Absent
from weft.core.components.pattern import Capture, Entries, Equals, Items, OfClass
from weft.core.components.reduce import Stop
from weft.core.components.saga import Deed
from weft.core.components.saga_outcome import SagaOutcome
from weft.core.components.schema import Schema
from weft.core.components.state_machine import Reactor
from weft.core.compose.expression import And, Leaf, Not, Or
from weft.core.failure import Failure
from weft.core.functions.function import Function
from weft.core.functions.hooks import Hooks
from weft.core.functions.initial import Initial
from weft.core.functions.references import AllValues, Context, FactCount, InTransaction, Latest, StateOf, StepRan
from weft.core.trace.projection import Argument, Attribute, Item, itself
from weft.policy.fallback import Value
from weft.policy.limits import CircuitBreaker, ConcurrencyLimit, RateLimit
from weft.policy.matching import DEFAULT, Declared, Kinds, Pattern, Tag, Within
from weft.policy.policy import Policy

PARTS: dict[str, Any] = {
    "accumulator.Initial": Initial,
    "aggregate.Command": Command,
    "condition.And": And,
    "condition.Leaf": Leaf,
    "condition.Not": Not,
    "condition.Or": Or,
    "failure.Failure": Failure,
    "fallback.Value": Value,
    "fsm.Transition": Transition,
    "function.Function": Function,
    "history.SagaOutcome": SagaOutcome,
    "hooks.Hooks": Hooks,
    "join.Absent": Absent,
    "limits.CircuitBreaker": CircuitBreaker,
    "limits.ConcurrencyLimit": ConcurrencyLimit,
    "limits.RateLimit": RateLimit,
    "matching.Declared": Declared,
    "matching.Kinds": Kinds,
    "matching.Pattern": Pattern,
    "matching.Tag": Tag,
    "matching.Within": Within,
    "matching._Default": type(DEFAULT),
    "pattern.Capture": Capture,
    "pattern.Entries": Entries,
    "pattern.Equals": Equals,
    "pattern.Items": Items,
    "pattern.OfClass": OfClass,
    "policy.Policy": Policy,
    "projection.Argument": Argument,
    "projection.Attribute": Attribute,
    "projection.Item": Item,
    "reduce.Stop": Stop,
    "references.AllValues": AllValues,
    "references.Context": Context,
    "references.FactCount": FactCount,
    "references.InTransaction": InTransaction,
    "references.Latest": Latest,
    "references.StateOf": StateOf,
    "references.StepRan": StepRan,
    "saga.Deed": Deed,
    "schema.Schema": Schema,
    "state_machine.Reactor": Reactor,
}
NAMES = {kind: name for name, kind in PARTS.items()}

FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {("weft.core.projection", "itself"): itself}
"""Functions of Weft that traced workflows have as steps, by the module and name they have in the format."""

"""
Weft's own records and functions that stored definitions are made of, by their stored names.

The tables are closed: a stored definition can construct these classes, and classes of components, and no others.
The names are wire format: a class or function may move, but its name stays.  A component adds a line, and one with its
own record a second one.

    >>> PARTS["policy.Policy"]
    <class 'weft.policy.policy.Policy'>
    >>> NAMES[Policy]
    'policy.Policy'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core.components.accumulator import Accumulator
from weft.core.components.aggregate import Aggregate, Command
from weft.core.components.collect import Collect, GroupBy
from weft.core.components.condition import Condition
from weft.core.components.fsm import FSM, Transition
from weft.core.components.join import Absent
from weft.core.components.loop_ends import TurnEnd, TurnStart
from weft.core.components.map import Map
from weft.core.components.pattern import Capture, Entries, Equals, Items, OfClass
from weft.core.components.process_manager import ProcessManager
from weft.core.components.reduce import Reduce, Stop
from weft.core.components.repeat import Repeat
from weft.core.components.rule import Rule
from weft.core.components.saga import Deed, Saga
from weft.core.components.saga_outcome import SagaOutcome
from weft.core.components.schema import Schema
from weft.core.components.sleep import Sleep
from weft.core.components.state_machine import Reactor, StateMachine
from weft.core.components.step import Step
from weft.core.components.wait_for import WaitFor
from weft.core.compose.component import Component
from weft.core.compose.expression import And, Leaf, Not, Or
from weft.core.compose.part import Part
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

COMPONENTS: tuple[type[Component], ...] = (
    *(Component, Accumulator, Aggregate, Collect, Condition, FSM, GroupBy, Map, Part, ProcessManager, Reduce, Repeat),
    *(Rule, Saga, Sleep, StateMachine, Step, TurnEnd, TurnStart, WaitFor),
)
"""The components of Weft, each known by its kind.  What reads a definition has imported them all."""

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

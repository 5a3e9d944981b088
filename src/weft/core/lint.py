"""
Finds parts of a workflow that can never run, effects that a retry would repeat, and policies without effect.

    >>> from weft import Workflow, condition, step
    >>> is_big = condition(lambda x: x > 10, name="is_big")
    >>> big, small = step(lambda x: x, name="big"), step(lambda x: x, name="small")
    >>> both = step(lambda a, b: (a, b), name="both")
    >>> [finding] = Workflow("w", [is_big >> big, ~is_big >> small] >> both).check()
    >>> finding.kind, finding.component
    ('join_never_fires', 'both')

It reads the definition alone, and reports only what is certain: a condition is evaluated once per fact, so a component
that needs both results for the same fact can never run.  It does not try to predict the result of a condition.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec

from weft.core.components.condition import Condition
from weft.core.components.map import Map
from weft.core.components.rule import Rule
from weft.core.compose.expression import Expression, Leaf, expand, leaves
from weft.core.compose.inlet import INPUT_NAME, Inlet
from weft.core.compose.questions import questions_of, verdict
from weft.core.deferred import local
from weft.core.functions.function import Function
from weft.core.graph.wiring import Wiring
from weft.core.plan.node import FunctionNode, Node

if TYPE_CHECKING:
    from weft.core.compose.component import Component
    from weft.core.plan.compiled_workflow import CompiledWorkflow

Trouble: TypeAlias = Literal[
    "unreachable",
    "join_never_fires",
    "blind_read",
    "unbounded_fan_out",
    "gathers_one",
    "unprotected_effect",
    "unmatched_rule",
    "unused_field",
]

EFFECT = "effect"
"""The tag of a component that changes the world outside."""

_MOST = 8
"""How many conditions of one expression are tried in all combinations."""

Need: TypeAlias = tuple[Any, str, bool]
"""Facts, a condition, and what it must say of them."""
Needs: TypeAlias = frozenset[Need]

_NEVER: Needs = frozenset({((), "", True), ((), "", False)})
"""Needs that contradict each other."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong with *component*, or with a rule (``policy rule 2``), and what to do about it."""

    kind: Trouble
    component: str
    message: str
    advice: str

    def __str__(self) -> str:
        return f"{self.component}: {self.message}; {self.advice}"


def check(workflow: CompiledWorkflow) -> list[Finding]:
    """Return everything that is found, in the order of the graph; then what is wrong with the policy rules."""
    reach = Reach(workflow.wiring)
    wiring = workflow.wiring
    alone = _gathering(wiring, reach)
    found = [*reach.findings(), *_reads(workflow, reach), *_fan_outs(wiring), *alone, *_effects(workflow)]
    place = {name: number for number, name in enumerate(wiring.order)}
    return [*sorted(found, key=lambda finding: place[finding.component]), *_rules(workflow)]


# -- what can happen -----------------------------------------------------------------------------


class Reach:
    """Works out, for each component, the answers of conditions that it needs to make something."""

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self.needs: dict[str, Needs] = {}
        self._facts: dict[str, Any] = {}
        self._many: set[str] = set()
        """Components that may make several facts of one input, which a join would pair one with another."""
        self._spelled: dict[str, Expression] = {}
        """By condition that is an expression over others: the expression in full."""
        for name in wiring.order:  # a condition comes before those that ask it
            component = wiring.components[name]
            if isinstance(component, Condition) and component.expression is not None:
                self._spelled[name] = self._spell(component.expression)
            if self._makes_many(name):
                self._many.add(name)
            self.needs[name] = _NEVER if self.is_never_asked(name) else self._needed(name)

    def is_never_asked(self, name: str) -> bool:
        """Whether *name* is a condition that nothing follows and no rule asks."""
        wiring = self.wiring
        return wiring.is_asked_only(name) and name not in wiring.inlets and name not in wiring.users

    def is_dead(self, name: str) -> bool:
        """Whether *name* can make nothing, whatever the input."""
        return _is_impossible(self.needs[name])

    def may_make_several(self, name: str) -> bool:
        """Whether *name* may make several facts of one input."""
        return name in self._many

    def findings(self) -> Iterator[Finding]:
        """Yield the components that can never run, and why; causes come first."""
        for name in self.wiring.order:
            if not self.is_dead(name):
                continue
            parents = [p for inlet in self.wiring.fed_by(name) for p in inlet.parents if p != INPUT_NAME]
            dead = [parent for parent in parents if self.is_dead(parent)]
            joins = [inlet for inlet in self.wiring.fed_by(name) if inlet.is_join]
            if self.is_never_asked(name):
                message, advice = "nothing follows it and no rule asks it", "let it feed something, or remove it"
            elif not self.wiring.fed_by(name):
                message, advice = "nothing feeds it any more", "feed it with something, or remove it"
            elif dead:
                message, advice = f"it is fed by {dead[0]!r}, which can never make anything", f"see {dead[0]}"
            elif joins and _is_impossible(self._before(joins[0])):
                message = f"its parents {', '.join(joins[0].parents)} exclude each other, so they never both come"
                yield Finding("join_never_fires", name, message, "use join(..., wait='any') or wait='all_done'")
                continue
            else:
                message, advice = "its condition contradicts itself or what precedes it", "correct the condition"
            yield Finding("unreachable", name, message, advice)

    def _needed(self, name: str) -> Needs:
        if name in self.wiring.closing:  # it fires also if every element was dropped
            return _common([self.needs[opened] for opened in _closed(self.wiring, name)])
        if self.wiring.is_asked_only(name) and name not in self.wiring.inlets:
            return frozenset()  # it is asked wherever a rule stands
        return _common([self._before(inlet) | self._own(name, inlet) for inlet in self.wiring.fed_by(name)])

    def _makes_many(self, name: str) -> bool:
        inlets = self.wiring.fed_by(name)
        if self.wiring.components[name].gathers:
            return False
        return (
            self.wiring.components[name].makes_many
            or len(inlets) > 1
            or any(
                parent in self._many
                for inlet in inlets
                if inlet.wait in ("all", "all_done")
                for parent in inlet.parents
            )
        )

    def _before(self, inlet: Inlet) -> Needs:
        """Return what is needed for something to come by *inlet*."""
        if inlet.errors:
            return frozenset()
        each = [frozenset[Need]() if parent == INPUT_NAME else self.needs[parent] for parent in inlet.parents]
        if inlet.wait == "all_done":
            return frozenset()
        if inlet.wait == "all" or inlet.wait == len(each):
            return frozenset[Need]().union(*each)
        return _common(each)

    def _own(self, name: str, inlet: Inlet) -> Needs:
        component, facts = self.wiring.components[name], self._looked_at(inlet)
        if not self._many.isdisjoint(inlet.parents):
            return frozenset()
        if isinstance(component, Condition):
            if component.expression is not None:
                return _needs_of(self._spelled[name], facts)
            return frozenset({(facts, name, True)})
        if isinstance(component, Rule) and component.when is not None and not isinstance(component.when, Function):
            return _needs_of(self._spell(component.when), facts)
        return frozenset()

    def _looked_at(self, inlet: Inlet) -> Any:
        """Return a key for the facts that arrive by *inlet*: a condition passes on the fact it was evaluated on."""
        if not inlet.is_join and not inlet.errors and inlet.parents[0] != INPUT_NAME:
            parent = inlet.parents[0]
            before = self.wiring.fed_by(parent)
            if isinstance(self.wiring.components[parent], Condition) and len(before) == 1:
                if parent not in self._facts:
                    self._facts[parent] = self._looked_at(before[0])
                return self._facts[parent]
        return (inlet.parents, inlet.wait, inlet.errors)

    def _spell(self, expression: Expression) -> Expression:
        """Return *expression* with named conditions replaced by their expressions."""
        return expand(expression, lambda name: self._spelled.get(name) or Leaf(name))


def _needs_of(expression: Expression, facts: Any) -> Needs:
    """Return the answers of conditions without which *expression* cannot hold."""
    names = list(dict.fromkeys(leaves(expression)))
    if len(names) > _MOST:
        return frozenset()
    answers: list[dict[str, bool]] = [
        dict(zip(names, said, strict=True)) for said in product((True, False), repeat=len(names))
    ]
    questions = questions_of(expression)
    holding = [answer for answer in answers if verdict(questions, answer)]
    if not holding:
        return _NEVER
    return _common([frozenset((facts, name, said) for name, said in answer.items()) for answer in holding])


def _common(each: Iterable[Needs]) -> Needs:
    """Return the needs that all possible ways share; contradictory ones if no way is possible."""
    possible = [needs for needs in each if not _is_impossible(needs)]
    if not possible:
        return _NEVER
    return possible[0].intersection(*possible[1:])


def _is_impossible(needs: Needs) -> bool:
    return any((facts, name, not said) in needs for facts, name, said in needs)


# -- the others ----------------------------------------------------------------------------------


def _reads(workflow: CompiledWorkflow, reach: Reach) -> Iterator[Finding]:
    for name, component in workflow.components.items():
        for function in component.functions().values():
            for parameter, read in function.reads.items():
                if reach.is_dead(read.target):
                    yield Finding(
                        "blind_read",
                        name,
                        f"{parameter!r} reads {read.word}({read.target!r}), which can never make anything",
                        f"see {read.target}, or leave the parameter out",
                    )


def _closed(wiring: Wiring, reduce: str) -> set[str]:
    """Return the maps that *reduce* closes."""
    parents = {parent for inlet in wiring.fed_by(reduce) for parent in inlet.parents}
    return {p if isinstance(wiring.components[p], Map) else str(wiring.regions[p]) for p in parents}


def _fan_outs(wiring: Wiring) -> Iterator[Finding]:
    closed = {opened for name in wiring.closing for opened in _closed(wiring, name)}
    for name, component in wiring.components.items():
        outer = wiring.regions[name]
        if isinstance(component, Map) and outer is not None and _is_map(wiring, outer) and name not in closed:
            yield Finding(
                "unbounded_fan_out",
                name,
                f"it takes elements of {outer!r} apart again and no reduce brings them together, so one input makes as "
                "many facts as both collections multiplied",
                "close it with a reduce, a collect() or a group_by(...)",
            )


def _gathering(wiring: Wiring, reach: Reach) -> Iterator[Finding]:
    for name, component in wiring.components.items():
        inlets = wiring.fed_by(name) if component.gathers and not component.folds else ()
        if name in wiring.closing or len(inlets) != 1 or inlets[0].errors:
            continue
        parent = inlets[0].parents[0]
        if parent == INPUT_NAME or not reach.may_make_several(parent):
            source = "the input" if parent == INPUT_NAME else repr(parent)
            yield Finding(
                "gathers_one",
                name,
                f"it takes the facts of one input, and {source} makes one of it, which is not taken apart",
                f"put an each(...) before it, which takes what {source} makes apart",
            )


def _is_map(wiring: Wiring, region: str) -> bool:
    return isinstance(wiring.components[region], Map)


def _effects(workflow: CompiledWorkflow) -> Iterator[Finding]:
    if not any(EFFECT in component.tags for component in workflow.components.values()):
        return
    for node in workflow.compiled.nodes.values():
        component = workflow.components[node.owner]
        if (
            EFFECT not in component.tags
            or not isinstance(node, FunctionNode)
            or (node.is_test and node.name != node.owner)
        ):
            continue
        calls = [function.call for function in _run_by(node, component, workflow.compiled.nodes)]
        policy = workflow.policy_for(node.name)
        keyed = policy.idempotency_key is not None or any(mentions(call, "idempotency_key") for call in calls)
        if calls and policy.max_retries > 0 and not keyed:
            what = "it is" if node.name == node.owner else f"its part {node.name!r} is"
            yield Finding(
                "unprotected_effect",
                node.owner,
                f"{what} tagged {EFFECT!r} and retried up to {policy.max_retries} times, without an idempotency key",
                "hand weft.current().idempotency_key to what it calls, give its policy an idempotency_key, or do "
                "not retry it",
            )


def _rules(workflow: CompiledWorkflow) -> Iterator[Finding]:
    if workflow.policies:
        for found in local().rule_findings(workflow.policies, workflow.compiled):
            yield Finding(found.kind, f"policy rule {found.rule}", found.message, found.advice)


def _run_by(node: Node, component: Component, nodes: Mapping[str, Node]) -> list[Function]:
    """Return the user's functions that *node* runs: its own, or all of the component that no other node runs."""
    functions = {f"{node.owner}.{part}" if part else node.owner: call for part, call in component.functions().items()}
    if node.name in functions:
        return [functions[node.name]]
    return [function for name, function in functions.items() if name not in nodes]


def mentions(call: Any, attribute: str, depth: int = 3) -> bool:
    """Whether the code of *call*, or of functions it names, up to *depth* of them, uses *attribute*."""
    call = getattr(call, "func", call)
    code: Any = getattr(call, "__code__", None)
    if code is None:
        kind: Any = cast("Any", type)(call)
        code = getattr(getattr(kind, "__call__", None), "__code__", None)  # noqa: B004 - its code, if any
    codes = [code] if isinstance(code, types.CodeType) else []
    names: set[str] = set()
    for found in codes:
        names.update(found.co_names)
        codes.extend(inner for inner in found.co_consts if isinstance(inner, types.CodeType))
    if attribute in names or depth == 0:
        return attribute in names
    known = getattr(call, "__globals__", {})
    helpers = [known[name] for name in names if isinstance(known.get(name), types.FunctionType)]
    return any(mentions(helper, attribute, depth - 1) for helper in helpers)

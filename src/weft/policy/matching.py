"""
Chooses the policy of a component.  The first rule that matches wins.

    >>> target = Target("llm_classify")
    >>> rules = as_rules([("fetch", Policy(max_retries=5)), (matching("^llm_"), Policy.llm()), (DEFAULT, Policy())])
    >>> winner(rules, target).rule
    1

A rule is a matcher and a policy.  A matcher is the exact name of a component, or of a part of one; a component, which
stands for its name; a pattern; a kind or several; a tag; a function of the component; or ``DEFAULT``.  Nothing
cascades: fields that the winning rule does not set have their defaults, not the values of the next rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from weft.core.compose.component import Component
from weft.core.compose.flow import Flow, Fragment, NamedGraph
from weft.core.functions.offered import offer
from weft.errors import InvalidPolicy, ResolutionError
from weft.policy.policy import Policy, check_fields


class Target(msgspec.Struct, frozen=True):
    """The subject of a matcher: a component, or a part of one that runs separately."""

    name: str
    """The name of the component or part: ``large``, or ``large.when``."""
    component: Component | None = None
    inside: str = ""
    """The prefix of the nested workflow whose rule is being matched: ``crawl.``."""

    is_outcome: bool = False
    """Whether it is what a component runs under its own name, and not the component as a whole."""

    @property
    def owner(self) -> str:
        """The name of the component, even for a part of it."""
        return self.name if self.component is None else self.component.label.removeprefix(self.inside)

    @property
    def is_aside(self) -> bool:
        """Whether it is a part for which a policy of its component as a whole does not hold: a test of a loop."""
        part = self.name.removeprefix(self.owner).removeprefix(".")
        is_part = bool(part) or self.is_outcome
        return self.component is not None and is_part and not self.component.rules_hold_for(part)

    @property
    def kind(self) -> str | None:
        """The kind of the component: ``step``, ``rule``, ..."""
        return None if self.component is None else self.component.kind

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the component."""
        return () if self.component is None else self.component.tags


class _Default(msgspec.Struct, frozen=True):
    """Matches everything."""

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = _Default()
"""Matches every component: the last rule of a list."""


class Pattern(msgspec.Struct, frozen=True):
    """Matches names by a regular expression."""

    expression: re.Pattern[str]

    def __repr__(self) -> str:
        return f"matching({self.expression.pattern!r})"


class Kinds(msgspec.Struct, frozen=True):
    """Matches components by their class."""

    classes: tuple[type, ...]

    def __repr__(self) -> str:
        return f"kind({', '.join(each.__name__ for each in self.classes)})"


class Tag(msgspec.Struct, frozen=True):
    """Matches components that carry a tag."""

    name: str

    def __repr__(self) -> str:
        return f"tag({self.name!r})"


class Declared(msgspec.Struct, frozen=True):
    """Matches the step, or the part of a component, with whose function a policy was declared."""

    name: str

    def __repr__(self) -> str:
        return f"@step of {self.name!r}"


class Within(msgspec.Struct, frozen=True):
    """Matches in the nested *workflow* the components that *matcher* matches in that workflow alone."""

    workflow: str
    matcher: Any


def matching(pattern: str | re.Pattern[str]) -> Pattern:
    """Match names in which *pattern*, a regular expression, is found."""
    return Pattern(re.compile(pattern))


def kind(*classes: type) -> Kinds:
    """Match components of these *classes*: ``kind(Step, Rule)``."""
    for cls in classes:
        if not _is_component_class(cls):
            raise InvalidPolicy(f"kind({cls!r}): use classes of components, such as Step")
    return Kinds(classes)


def _is_component_class(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, Component)


def tag(name: str) -> Tag:
    """Match components that carry the tag *name*: ``component.tagged("db")``."""
    return Tag(name)


def within(workflow: str, rules: Iterable[PolicyRule]) -> tuple[PolicyRule, ...]:
    """Return the *rules* of *workflow* for a workflow around it, where its components are ``workflow.name``."""
    return tuple((Within(workflow, matcher), policy) for matcher, policy in rules)


Matcher = str | _Default | Pattern | Kinds | Tag | Declared | Within | Callable[[Target], bool]
PolicyRule = tuple[Matcher, Policy]


def as_rules(rules: Iterable[Any]) -> tuple[PolicyRule, ...]:
    """
    Return *rules* as they were given, checked.

    Raises:
        InvalidPolicy: an item is not a pair of a matcher and a policy.
    """
    if not isinstance(rules, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidPolicy(f"policies are a list of rules, got {rules!r:.80}; use [(matcher, Policy(...))]")
    return tuple(_as_rule(rule) for rule in rules)


def _as_rule(rule: Any) -> PolicyRule:
    try:
        matcher, policy = rule
    except (TypeError, ValueError):
        matcher, policy = rule, None
    if not isinstance(policy, Policy):
        raise InvalidPolicy(f"{rule!r} is not a rule; use (matcher, Policy(...))")
    given: Any = matcher
    if isinstance(matcher, Fragment):
        return _named(given), policy
    if isinstance(matcher, re.Pattern):
        return Pattern(given), policy
    if _is_component_class(matcher):
        return Kinds((given,)), policy
    if not isinstance(matcher, str | _Default | Pattern | Kinds | Tag | Declared | Within) and not callable(matcher):
        raise InvalidPolicy(
            f"{matcher!r} matches nothing; use a name, matching(...), kind(...), tag(...), a function or DEFAULT"
        )
    if callable(matcher):
        offer(matcher)
    return given, policy


def _named(component: Fragment) -> str:
    """Return the name by which a rule for *component* matches."""
    name: object = getattr(component, "name", None)
    if isinstance(component, NamedGraph):
        raise InvalidPolicy(
            f"{component!r} is a workflow, and a rule is for components: put it into that workflow, or use "
            f"matching(r'^{name}\\.') for everything inside it"
        )
    if isinstance(component, Flow):
        raise InvalidPolicy(f"{component!r} is several components: write one rule for each, or use matching(...)")
    if not isinstance(name, str):
        raise InvalidPolicy(f"{component!r} has no name yet, so no rule can be for it: use .named('...'), or its name")
    return name


def declared_policy(fields: Mapping[str, Any]) -> Policy:
    """
    Return the policy of these *fields*, which were declared with a function.

    Raises:
        InvalidPolicy: a policy does not have such a field, or not with this value.
    """
    check_fields(fields, "step")
    return Policy(**fields)


def with_declared(rules: Iterable[PolicyRule], declared: Mapping[str, Policy]) -> tuple[PolicyRule, ...]:
    """Return *rules* with those that were *declared* with functions: behind the others, and before ``DEFAULT``."""
    others = [rule for rule in rules if not (isinstance(rule[0], Declared) and rule[0].name in declared)]
    place = next((place for place, (matcher, _) in enumerate(others) if matcher == DEFAULT), len(others))
    own: list[PolicyRule] = [(Declared(name), policy) for name, policy in declared.items()]
    return (*others[:place], *own, *others[place:])


def matches(matcher: Matcher, target: Target) -> bool:
    """Return whether *matcher* matches *target*."""
    match matcher:
        case str():
            return matcher in (target.name, target.owner) and not (matcher == target.owner and target.is_aside)
        case _Default():
            return True
        case Pattern(expression):
            return expression.search(target.name) is not None
        case Kinds(classes):
            return isinstance(target.component, classes) and not target.is_aside
        case Tag(name):
            return name in target.tags and not target.is_aside
        case Declared(name):
            return name == target.name
        case Within(workflow, inner):
            front = f"{workflow}."
            name = target.name.removeprefix(front)
            inside = Target(name, target.component, target.inside + front, target.is_outcome)
            return target.name.startswith(front) and matches(inner, inside)
        case predicate:
            return _holds(predicate, target)


def _holds(predicate: Callable[[Target], bool], target: Target) -> bool:
    try:
        return bool(predicate(target))
    except ResolutionError:  # its message already says what to do
        raise
    except Exception as error:
        raise InvalidPolicy(
            f"the matcher {predicate!r} failed on {target.name!r} with {type(error).__name__}: {error}; "
            "it is called for every component, and for every part of one, and has to return an answer for each"
        ) from error


class Choice(msgspec.Struct, frozen=True):
    """The rule that won for a component, and its policy."""

    name: str
    policy: Policy
    rule: int | None
    """The index of the rule in the list; None if none matched, and the defaults apply."""
    matcher: Any = None
    of: int = 0

    def __str__(self) -> str:
        if self.rule is None:
            none = f"none of {self.of} rules matches" if self.of else "there are no rules"
            return f"{self.name}: {none}, so the defaults hold"
        return f"{self.name}: rule {self.rule + 1} of {self.of}, {self.matcher!r}, says {self.summary()}"

    def summary(self) -> str:
        """Return the policy as text."""
        return ", ".join(f"{field}={value!r}" for field, value in self.policy.changes().items()) or "the defaults"


def winner(rules: Sequence[PolicyRule], target: Target) -> Choice:
    """Return the first of *rules* that matches *target*."""
    for place, (matcher, policy) in enumerate(rules):
        if matches(matcher, target):
            return Choice(target.name, policy, place, matcher, len(rules))
    return Choice(target.name, Policy(), None, None, len(rules))


def check_mode(mode: object, name: str = "mode") -> None:
    """Raise InvalidPolicy unless *mode*, the argument *name*, says what happens to the rules that were there before."""
    if mode not in ("merge", "replace"):
        raise InvalidPolicy(f"{name}={mode!r}: use 'merge' or 'replace'")


def combine(
    base: Sequence[PolicyRule], extra: Iterable[Any] | None, mode: Literal["merge", "replace"]
) -> tuple[PolicyRule, ...]:
    """Return the rules of a run: *extra* before *base*, or in its place."""
    check_mode(mode)
    if extra is None:
        return tuple(base)
    given = as_rules(extra)
    return given if mode == "replace" else (*given, *base)

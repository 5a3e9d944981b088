"""
A state machine: a reducer that returns the next state, and reactors that fire when their condition holds for it.

    >>> from weft import Workflow
    >>> level = state_machine(
    ...     "level",
    ...     init=0,
    ...     reducer=lambda state, change: state + change,
    ...     reactors={"high": (lambda state: state > 10, lambda state: f"high: {state}")},
    ... )
    >>> run = Workflow("tank", level).run(7)
    >>> run.run(5).state_of("level"), run.values("level.high")
    (12, ['high: 12'])

Its values are its states, which ``>>`` passes on.  A reactor is a part with its own name, ``level.high``: after every
fold its condition (``level.high.when``) is evaluated, and if that holds, it runs; its results are facts of that part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from weft.core.components.folding import check_fold
from weft.core.compose.component import Component, check_arity, check_name, short
from weft.core.functions.code_identity import hidden_state
from weft.core.functions.function import Function
from weft.core.functions.initial import Initial
from weft.errors import InvalidComponent

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion


@dataclass(frozen=True, eq=False)
class Reactor:
    """A reaction to a new state, and the condition for it."""

    then: Function
    when: Function | None = None

    @staticmethod
    def of(owner: str, name: str, given: Any) -> Reactor:
        """Return the reactor *name* as it was *given*: a function, or a pair of a condition and a function."""
        check_name(name, f"a reactor of {owner!r}")
        pair: Any = given  # what is still of any type after the check
        when, then = pair if isinstance(given, tuple) and len(pair) == 2 else (None, pair)
        if callable(then) and (when is None or callable(when)):
            return Reactor(Function.of(then), None if when is None else Function.of(when))
        raise InvalidComponent(
            f"the reactor {name!r} of {owner!r} is {given!r}; give a function of the state, or (when, then)"
        )

    def renamed(self, names: Mapping[str, str]) -> Reactor:
        """Return this reactor with components renamed as *names* says."""
        return Reactor(self.then.renamed(names), self.when and self.when.renamed(names))


@dataclass(frozen=True, eq=False, repr=False)
class StateMachine(Component):
    """A state, the reducer that makes the next one, and what follows from it."""

    reducer: Function
    initial: Initial
    reactors: Mapping[str, Reactor]
    kind: ClassVar[str] = "state_machine"
    keeps_state: ClassVar[bool] = True
    folds: ClassVar[bool] = True

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return this state machine with components renamed as *names* says."""
        reactors = {name: reactor.renamed(names) for name, reactor in self.reactors.items()}
        return replace(super().renamed(names), reducer=self.reducer.renamed(names), reactors=reactors)

    def functions(self) -> dict[str, Function]:
        """Return the reducer, and the condition and the function of every reactor."""
        found = {"": self.reducer}
        for name, reactor in self.reactors.items():
            found[name] = reactor.then
            if reactor.when is not None:
                found[f"{name}.when"] = reactor.when
        return found

    def parts(self) -> dict[str, Function]:
        """Return the reactors."""
        return {name: reactor.then for name, reactor in self.reactors.items()}

    def arriving(self) -> dict[str, Function]:
        """Return the reducer; reactors get the state."""
        return {"": self.reducer}

    def describe_state(self, state: Any) -> str:
        """Return *state* in a few characters."""
        return short(state)

    def check_width(self, width: int, source: str) -> None:
        """Require a reducer of state and value, and reactors of the state."""
        check_fold(self.label, self.reducer, width, source, state="state")
        for part, function in self.functions().items():
            if part:
                check_arity(f"{self.label}.{part}", function, 1, f"{self.label}, the state", spread=False)

    def expand(self, into: Expansion) -> None:
        """The node that folds, one at a time; it feeds every reactor, through the condition if that has one."""
        fold = into.work(self.reducer, initial=self.initial)
        into.feed(fold)
        for name, reactor in self.reactors.items():
            reaction = into.work(reactor.then, part=name)
            if reactor.when is None:
                into.link(fold, reaction)
            else:
                asks = into.test(reactor.when, part=f"{name}.when")
                into.link(fold, asks)
                into.link(asks, reaction)

    def _held(self) -> list[object]:
        return [*super()._held(), *hidden_state(self.initial.init)]

    def details(self) -> bytes:
        """The initial state."""
        return self.initial.identity


def state_machine(
    name: str,
    *,
    init: Any,
    reducer: Callable[..., Any],
    reactors: Mapping[str, Any] | None = None,
) -> StateMachine:
    """
    Make a state machine.

    Args:
        name: its name.
        init: the state before the first value, or a function that makes it (``list``).
        reducer: takes the state and a value, and returns the next state.
        reactors: by name, a function of the new state, or a pair: the condition that the state must satisfy, and
            the function.  What it returns is a fact of ``name.reactor``.
    """
    if not isinstance(reactors, Mapping | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidComponent(
            f"reactors={reactors!r:.80} of {name!r}: each has a name, by which its values are found: "
            "reactors={'high': (when, then)}"
        )
    named = {key: Reactor.of(name, key, given) for key, given in (reactors or {}).items()}
    return StateMachine(name, Function.of(reducer), Initial(init), named)

"""
An aggregate: commands are checked against a state and emit events, which fold into it.

    >>> from weft import Workflow
    >>> stock = Aggregate("stock", init=0)
    >>> @stock.command("take", when=lambda left, command: left >= command["count"])
    ... def take(left, command):
    ...     return ("taken", command["count"])
    >>> @stock.command("fill")
    ... def fill(left, command):
    ...     return ("filled", command["count"])
    >>> @stock.event("taken")
    ... def taken(left, count):
    ...     return left - count
    >>> @stock.event("filled")
    ... def filled(left, count):
    ...     return left + count
    >>> run = Workflow("shop", stock).run({"command": "fill", "count": 5})
    >>> run.run({"command": "take", "count": 9}).run({"command": "take", "count": 2}).state_of("stock")
    3
    >>> run.values("stock")
    [('filled', 5), ('taken', 2)]

Each event is a fact, which ``>>`` passes on.  A command changes nothing if it is not declared, its guard refuses it or
it emits nothing; an event of the aggregate that comes back as input changes nothing either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from weft.core.components.builder import Builder, Parts
from weft.core.components.folding import check_fold
from weft.core.components.message_names import by_part, check_names, content, label, name_in
from weft.core.components.state_change import Call, Decision, Ignored, StateChange, as_function
from weft.core.functions.code_identity import hidden_state
from weft.core.functions.function import Function
from weft.core.functions.identity import canonical, digest
from weft.core.functions.initial import Initial
from weft.errors import InvalidComponent, InvalidStateChange

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion

C = TypeVar("C", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Command:
    """A command: the function that carries it out, and its guard."""

    function: Function
    when: Function | None = None

    def renamed(self, names: Mapping[str, str]) -> Command:
        """Return this command with components renamed as *names* says."""
        return Command(self.function.renamed(names), self.when and self.when.renamed(names))


@dataclass(frozen=True, eq=False, repr=False)
class Aggregate(Builder):
    """
    A state, the commands that it takes, and the events that change it.

    Args:
        init: the state before the first command, or a function that makes it (``dict``).
    """

    init: Any = field(kw_only=True)
    commands: Parts = field(default_factory=Parts, kw_only=True)
    events: Parts = field(default_factory=Parts, kw_only=True)
    kind: ClassVar[str] = "aggregate"
    keeps_state: ClassVar[bool] = True
    makes_many: ClassVar[bool] = True

    def command(self, name: Any, *, when: Callable[..., Any] | None = None) -> Callable[[C], C]:
        """
        Declare what the command *name* does: a function of state and command that returns an event, a list of
        events, or None.

        Args:
            name: a string, a member of an enum, or the class of the command.
            when: the guard, a function of state and command; if it does not hold, the command is refused.
        """

        def declare(function: C) -> C:
            guard = None if when is None else Function.of(when)
            self.commands.put(self.label, "a command", name, Command(Function.of(function), guard))
            return function

        return declare

    def event(self, name: Any) -> Callable[[C], C]:
        """
        Declare how the event *name* changes the state: a function of state and event that returns the next state.

        If the event is a tuple, such as ``("deposited", 100)``, the function gets what follows the name.
        """

        def declare(function: C) -> C:
            self.events.put(self.label, "an event", name, Function.of(function))
            return function

        return declare

    def check(self) -> None:
        """Refuse a name that a command and an event share: the event, fed back, would be taken for the command."""
        both = [name for name in self.commands if name in self.events]
        if both:
            raise InvalidComponent(
                f"{both[0]!r} is a command and an event of {self.label!r}; name the event after what has happened"
            )
        check_names([*self.commands, *self.events], f"a command or event of {self.label!r}")
        self.functions()

    def decide(self, state: Any, command: Any) -> Decision:
        """Decide what *command* does to *state*."""
        name = name_in(self._names, command, "command")
        if name not in self.commands:
            return Ignored()
        part = label(name)
        if self.commands[name].when is not None and not (yield Call(f"{part}.when", (state, command))):
            return Ignored()
        emitted = _events((yield Call(part, (state, command))))
        for event in emitted:
            known = name_in(self.events, event, "event")
            if known is None:
                raise InvalidStateChange(
                    f"{self.label}.{part} emitted {event!r:.80}, which is not an event of {self.label!r}; declare it "
                    f"with @{self.label}.event(...): it has {', '.join(label(of) for of in self.events) or 'none'}"
                )
            state = yield Call(label(known), (state, content(event)))
        return StateChange(state, tuple(emitted)) if emitted else Ignored()

    @cached_property
    def _names(self) -> Mapping[Any, Any]:
        return {**self.commands, **self.events}

    # -- what every component says ---------------------------------------------------------------

    def functions(self) -> dict[str, Function]:
        """Return the commands, their guards, and the events."""
        return by_part(
            self.label,
            [
                *((label(name), command.function) for name, command in self.commands.items()),
                *((f"{label(name)}.when", command.when) for name, command in self.commands.items()),
                *((label(name), function) for name, function in self.events.items()),
            ],
        )

    def arriving(self) -> dict[str, Function]:
        """Return none: which of them gets a command depends on its name, and each may take another type."""
        return {}

    def check_width(self, width: int, source: str) -> None:
        """Require functions of state and one more."""
        for part, function in self.functions().items():
            check_fold(f"{self.label}.{part}", function, width, source, state="state")

    def expand(self, into: Expansion) -> None:
        """One node, which decides and folds."""
        into.state(as_function(self.decide, self.functions()), Initial(self.init), several=True)

    def _held(self) -> list[object]:
        return [*super()._held(), *hidden_state(self.init)]

    def details(self) -> bytes:
        """The initial state, and the names of the commands and of the events."""
        names = [[label(name) for name in table] for table in (self.commands, self.events)]
        return digest(Initial(self.init).identity, canonical([sorted(table) for table in names]))


def _events(given: Any) -> list[Any]:
    """Return the result of a command as a list of events."""
    several = given  # what is still of any type after the check
    if isinstance(given, list | Iterator):
        return list(several)
    return [] if given is None else [several]

"""
A process manager reacts to events from many sources, keeps a state, and emits commands.

    >>> from weft import Workflow
    >>> order = ProcessManager("order", init=set, key=lambda event: event["id"], complete=lambda seen: len(seen) == 2)
    >>> @order.on("paid")
    ... def paid(seen, event):
    ...     return seen | {"paid"}, [("ship", event["id"])]
    >>> @order.on("shipped")
    ... def shipped(seen, event):
    ...     return seen | {"shipped"}, []
    >>> run = Workflow("shop", order).run({"event": "paid", "id": 7})
    >>> run.run({"event": "paid", "id": 8}).run({"event": "shipped", "id": 7}).values("order")
    [('ship', 7), ('ship', 8)]
    >>> run.is_complete("order", key=7), run.is_complete("order", key=8)
    (True, False)

Each command is a fact, which ``>>`` passes on.  With ``key=`` it keeps one state per key.  An event that is not
declared changes nothing.  When *complete* holds, the process is complete, once, and accepts nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from weft.core.components.builder import Builder, Parts
from weft.core.components.folding import check_fold
from weft.core.components.message_names import by_part, label, name_in
from weft.core.components.state_change import Call, Decision, Ignored, StateChange, States, adapted, as_function
from weft.core.compose.component import check_arity
from weft.core.functions.code_identity import hidden_state
from weft.core.functions.function import Function
from weft.core.functions.identity import canonical, digest
from weft.core.functions.initial import Initial
from weft.errors import InvalidStateChange

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion

C = TypeVar("C", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False, repr=False)
class ProcessManager(Builder):
    """
    A state, or one per key, and what events do to it.

    Args:
        init: the state before the first event, or a function that makes it (``dict``).
        complete: whether a state is the last one.
        on_complete: runs when the process has completed: a function of the state or of nothing.
        key: which process an event belongs to, a function of the event; without it there is one process.
    """

    init: Any = field(kw_only=True)
    complete: Any = field(default=None, kw_only=True)
    on_complete: Any = field(default=None, kw_only=True)
    key: Any = field(default=None, kw_only=True)
    handlers: Parts = field(default_factory=Parts, kw_only=True)
    kind: ClassVar[str] = "process_manager"
    keeps_state: ClassVar[bool] = True
    makes_many: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("complete", "on_complete", "key"):
            call = self.__dict__[name]
            self.__dict__[name] = call if call is None or isinstance(call, Function) else Function.of(call)

    def on(self, name: Any) -> Callable[[C], C]:
        """
        Declare what the event *name* does: a function of state and event that returns the next state and a list of
        commands.

        Args:
            name: a string, a member of an enum, or the class of the event.
        """

        def declare(function: C) -> C:
            self.handlers.put(self.label, "an event", name, Function.of(function))
            return function

        return declare

    def check(self) -> None:
        """Refuse two parts with one name."""
        self.functions()

    def decide(self, states: States, event: Any) -> Decision:
        """Decide what *event* does to the process that it belongs to."""
        name = name_in(self.handlers, event, "event")
        if name is None:
            return Ignored()
        key: Any = None if self.key is None else (yield Call("key", (event,)))
        if not isinstance(key, Hashable):
            raise InvalidStateChange(
                f"{self.label}.key returned {key!r:.60}, which cannot be a key; return a string or a number"
            )
        state, done = states.of(key, Initial(self.init).make)
        if done:
            return Ignored()
        part = f"on.{label(name)}"
        state, commands = self._state_and_commands(part, (yield Call(part, (state, event))))
        done = self.complete is not None and bool((yield Call("complete", (state,))))
        fired = ("on_complete",) if done and self.on_complete is not None else ()
        return StateChange(state, commands, fired, done=done, key=key)

    def _state_and_commands(self, part: str, given: Any) -> tuple[Any, tuple[Any, ...]]:
        """Return the result of a handler as state and commands."""
        pair = given  # what is still of any type after the check
        several: Any = pair[1] if isinstance(given, tuple) and len(pair) == 2 else ...
        commands = several
        if several is not None and not isinstance(several, list | Iterator):
            raise InvalidStateChange(
                f"{self.label}.{part} returned {pair!r:.80}; return the next state and a list of commands: "
                "return state, [command]"
            )
        return pair[0], tuple(commands or ())

    # -- what every component says ---------------------------------------------------------------

    def functions(self) -> dict[str, Function]:
        """Return the handlers, and the functions for keys and for the end of a process."""
        return by_part(
            self.label,
            [
                *((f"on.{label(name)}", function) for name, function in self.handlers.items()),
                ("key", self.key),
                ("complete", self.complete),
                ("on_complete", self.on_complete),
            ],
        )

    def parts(self) -> dict[str, Function]:
        """Return the function that runs when a process is complete."""
        return {} if self.on_complete is None else {"on_complete": self.on_complete}

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return this process manager with components renamed as *names* says."""
        others = {name: getattr(self, name) for name in ("complete", "on_complete", "key")}
        return replace(
            super().renamed(names), **{name: function and function.renamed(names) for name, function in others.items()}
        )

    def unreadable(self) -> str | None:
        """Return why no parameter can read its state, if it has one per key."""
        if self.key is None:
            return super().unreadable()
        return f"which keeps a state per key; read latest({self.label!r}), or ask run.state_of({self.label!r})"

    def arriving(self) -> dict[str, Function]:
        """Return none: which of them gets an event depends on its name, and each may take another type."""
        return {}

    def check_width(self, width: int, source: str) -> None:
        """Require handlers of state and event; the key is a function of the event, the others of the state."""
        for part, function in self.functions().items():
            if part.startswith("on."):
                check_fold(f"{self.label}.{part}", function, width, source, state="state")
            else:
                what = "the event" if part == "key" else "the state"
                check_arity(f"{self.label}.{part}", function, 1, f"{self.label}, {what}", spread=False)

    def expand(self, into: Expansion) -> None:
        """One node that decides, and one that it fires when the process is complete."""
        asked = {part: function for part, function in self.functions().items() if part != "on_complete"}
        lead = as_function(self.decide, asked)
        state = into.state(lead, Initial(self.init), several=True, by_key=self.key is not None, sees_states=True)
        if self.on_complete is not None:
            into.reaction(state, adapted(self.on_complete, _state_alone), "on_complete")

    def _held(self) -> list[object]:
        return [*super()._held(), *hidden_state(self.init)]

    def details(self) -> bytes:
        """The initial state, and the names of the events."""
        return digest(Initial(self.init).identity, canonical(sorted(label(name) for name in self.handlers)))


def _state_alone(state: Any, _event: Any) -> tuple[Any]:
    return (state,)

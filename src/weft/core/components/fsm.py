"""
A finite state machine: declared states, and the events that lead from one to the next.

    >>> from weft import Workflow
    >>> door = FSM(
    ...     "door",
    ...     initial="closed",
    ...     states={
    ...         "closed": {"open": "ajar", "unlock": Transition(do=lambda event: "click")},
    ...         "ajar": {"push": [Transition("wide", when=lambda event: event[1] > 5), Transition("ajar")]},
    ...         "wide": {},
    ...     },
    ...     on_entry={"wide": lambda: "bang"},
    ...     final=["wide"],
    ... )
    >>> run = Workflow("house", door).run("open")
    >>> run.run(("push", 9)).state_of("door"), run.values("door"), run.value("door.wide.entry")
    ('wide', ['ajar', 'wide'], 'bang')

An event that the present state does not declare, or none of whose guards holds, changes nothing.  A transition from a
state to itself leaves and enters that state; a :class:`Transition` without a target is internal: the state is not left.
``door.to_svg()`` and the other formats draw the states; a workflow draws the machine among its other components.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from weft.core.components.message_names import check_names, label, name_in
from weft.core.components.state_change import Call, Decision, Ignored, StateChange, adapted, as_function
from weft.core.compose.component import Component, check_arity
from weft.core.draw.drawable import Drawable
from weft.core.draw.picture import Picture
from weft.core.draw.states import diagram
from weft.core.functions.function import Function
from weft.core.functions.identity import canonical
from weft.core.functions.initial import Initial
from weft.errors import InvalidComponent, InvalidStateChange, WrongArity

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion


@dataclass(frozen=True, eq=False)
class Transition:
    """
    One way out of a state; of several for one event, the first whose guard holds is taken.

    Args:
        to: the next state; None for an internal transition, which neither leaves nor enters a state.
        when: the guard, a function of the event or of nothing.
        do: the action, a function of the event or of nothing; what it returns is a fact.
    """

    to: Any = None
    when: Any = field(default=None, kw_only=True)
    do: Any = field(default=None, kw_only=True)
    part: str = field(default="", kw_only=True, repr=False)
    """Its name inside the FSM: ``state.event``."""


States = Mapping[Any, Mapping[Any, tuple[Transition, ...]]]


@dataclass(frozen=True, eq=False, repr=False)
class FSM(Component, Drawable):
    """
    States, and the events that lead from one to the next.

    Args:
        initial: the state to begin with.
        states: by state, by event: the next state, a Transition, or a list of these.
        on_entry: by state, what runs when a transition enters it: a function of the event or of nothing.
        on_exit: by state, what runs when a transition leaves it.
        final: the states that end it; no events lead out of them.
    """

    initial: Any = field(kw_only=True)
    states: Mapping[Any, Mapping[Any, Any]] = field(kw_only=True)
    on_entry: Mapping[Any, Any] = field(default_factory=dict[Any, Any], kw_only=True)
    on_exit: Mapping[Any, Any] = field(default_factory=dict[Any, Any], kw_only=True)
    final: Collection[Any] = field(default=(), kw_only=True)
    kind: ClassVar[str] = "fsm"
    keeps_state: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _is_table(self.states):
            raise InvalidComponent(
                f"FSM {self.label!r}: states={self.states!r:.60} is not a table; by state, by event, say what is next: "
                "{'red': {'timer': 'green'}, 'green': {}}"
            )
        check_names(self.states, f"a state of {self.label!r}", classes=False)
        read = {
            state: {event: tuple(_ways(state, event, given)) for event, given in events.items()}
            for state, events in self.states.items()
        }
        final = (self.final,) if isinstance(self.final, str) else tuple(self.final)
        self.__dict__.update(states=read, final=final)
        self.__dict__.update(on_entry=_functions(self.on_entry), on_exit=_functions(self.on_exit))
        self._check()

    def _check(self) -> None:
        known = ", ".join(repr(state) for state in self.states)
        named = {
            "the initial state": [self.initial],
            "a final state": self.final,
            "on_entry": self.on_entry,
            "on_exit": self.on_exit,
            **{f"the target of {way.part}": [way.to] for way in self._all_ways() if way.to is not None},
        }
        for what, states in named.items():
            for state in states:
                if state not in self.states:
                    raise InvalidComponent(
                        f"FSM {self.label!r}: {what} is {state!r}, which is not declared; "
                        f"add it to states={{...}}: it has {known or 'none'}"
                    )
        for state, events in self.states.items():
            check_names(events, f"an event of {self.label}.{label(state)}")
            if events and state in self.final:
                raise InvalidComponent(
                    f"FSM {self.label!r}: {state!r} is final and has events; take it out of final=, or its events away"
                )

    def _all_ways(self) -> Iterator[Transition]:
        for events in cast("States", self.states).values():
            for ways in events.values():
                yield from ways

    def decide(self, state: Any, event: Any) -> Decision:
        """Decide what *event* does in *state*, by asking the guards that matter."""
        if state not in self.states:
            raise InvalidStateChange(
                f"{self.label!r} is in state {state!r}, which its definition no longer has; declare it again"
            )
        events = self.states[state]
        for way in events.get(name_in(events, event, "event"), ()):
            if way.when is not None and not (yield Call(f"{way.part}.when", (event,))):
                continue
            do = () if way.do is None else (f"{way.part}.do",)
            if way.to is not None:
                left = (f"{label(state)}.exit",) if state in self.on_exit else ()
                entered = (f"{label(way.to)}.entry",) if way.to in self.on_entry else ()
                return StateChange(way.to, (way.to,), (*left, *do, *entered), done=way.to in self.final)
            return StateChange(state, (), do) if do else Ignored()
        return Ignored()

    # -- what every component says ---------------------------------------------------------------

    def _guards(self) -> dict[str, Function]:
        return {f"{way.part}.when": way.when for way in self._all_ways() if way.when is not None}

    def _actions(self) -> dict[str, Function]:
        """Return what reacts to transitions, by part."""
        found = {f"{label(state)}.exit": function for state, function in self.on_exit.items()}
        found |= {f"{way.part}.do": way.do for way in self._all_ways() if way.do is not None}
        return found | {f"{label(state)}.entry": function for state, function in self.on_entry.items()}

    def functions(self) -> dict[str, Function]:
        """Return the guards and the actions."""
        return {**self._guards(), **self._actions()}

    def parts(self) -> dict[str, Function]:
        """Return the actions."""
        return self._actions()

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return this FSM with components renamed as *names* says."""

        def moved(function: Function | None) -> Function | None:
            return function and function.renamed(names)

        states = {
            state: {
                event: [replace(way, when=moved(way.when), do=moved(way.do)) for way in ways]
                for event, ways in events.items()
            }
            for state, events in self.states.items()
        }
        entry, leave = (
            {state: moved(function) for state, function in actions.items()} for actions in (self.on_entry, self.on_exit)
        )
        return replace(super().renamed(names), states=states, on_entry=entry, on_exit=leave)

    def to_data(self) -> dict[str, Any]:
        """Return its parts; a table whose names are not strings is returned as pairs."""
        data = super().to_data()
        states = {state: _as_data(events) for state, events in self.states.items()}
        tables = {"states": states, "on_entry": self.on_entry, "on_exit": self.on_exit}
        return {**data, **{field: _as_data(table) for field, table in tables.items()}}

    @classmethod
    def from_data(cls, name: str, tags: tuple[str, ...], data: Mapping[str, Any]) -> Self:
        """Return the FSM whose :meth:`to_data` returned *data*."""
        states = {state: dict(events) for state, events in dict(data["states"]).items()}
        actions = {field: dict(data.get(field, ())) for field in ("on_entry", "on_exit")}
        return super().from_data(name, tags, {**data, "states": states, **actions})

    def arriving(self) -> dict[str, Function]:
        """Return none: which of them gets an event depends on its name, and each may take another type."""
        return {}

    def describe_state(self, state: Any) -> str:
        """Return the name of *state*."""
        return label(state)

    def picture(self) -> Picture:
        """Return its states and transitions, as data; ``to_svg`` and the like draw them."""
        ways = [
            (label(state), None if way.to is None else label(way.to), _transition_label(label(event), way))
            for state, events in cast("States", self.states).items()
            for event, several in events.items()
            for way in several
        ]
        states, final = [label(state) for state in self.states], [label(state) for state in self.final]
        return diagram(self.label, label(self.initial), states, final, ways)

    def _repr_svg_(self) -> str:
        """Draw its states where a notebook shows it."""
        return self.to_svg()

    def check_width(self, width: int, source: str) -> None:
        """Require one event, and functions of it or of nothing."""
        if width != 1:
            raise WrongArity(f"{self.label!r} takes one event at a time and gets {width} from {source}")
        for part, function in self.functions().items():
            check_arity(f"{self.label}.{part}", function, 1, f"{self.label}, the event", spread=False)

    def expand(self, into: Expansion) -> None:
        """The node that decides, and one for every action, which a transition fires."""
        state = into.state(as_function(self.decide, self._guards()), Initial(self.initial), several=False)
        for part, function in self._actions().items():
            into.reaction(state, adapted(function, _event_alone), part)

    def details(self) -> bytes:
        """The table."""
        table = [
            (label(state), label(event), [(label(way.to) if way.to is not None else None, way.part) for way in ways])
            for state, events in self.states.items()
            for event, ways in events.items()
        ]
        states = [label(state) for state in self.states]
        return canonical((label(self.initial), states, sorted(table), sorted(label(state) for state in self.final)))


def _is_table(given: object) -> bool:
    rows = cast("Mapping[Any, object]", given).values() if isinstance(given, Mapping) else [None]
    return all(isinstance(row, Mapping) for row in rows)


def _transition_label(event: str, way: Transition) -> str:
    """Return the event with its guard and its action, as far as these have names."""
    guard = f" [{way.when.name}]" if isinstance(way.when, Function) and way.when.name else ""
    return event + guard + (f" / {way.do.name}" if isinstance(way.do, Function) and way.do.name else "")


def _as_data(table: Mapping[Any, Any]) -> Any:
    return dict(table) if all(isinstance(name, str) for name in table) else [[*pair] for pair in table.items()]


def _event_alone(_state: Any, event: Any) -> tuple[Any]:
    return (event,)


def _ways(state: Any, event: Any, given: Any) -> Iterator[Transition]:
    """Yield the transitions that are *given* for an *event*, each with a name."""
    several: Any = given  # what is still of any type after the check
    if not isinstance(given, list | tuple):
        several = [several]
    for number, item in enumerate(several, 1):
        way = item if isinstance(item, Transition) else Transition(item)
        part = f"{label(state)}.{label(event)}{'' if number == 1 else f'_{number}'}"
        yield replace(way, when=_function(way.when), do=_function(way.do), part=part)


def _function(call: Callable[..., Any] | Function | None) -> Function | None:
    return call if call is None or isinstance(call, Function) else Function.of(call)


def _functions(given: Mapping[Any, Any]) -> dict[Any, Function | None]:
    return {state: _function(call) for state, call in given.items()}

"""
The parts of a component, as parents: ``trip.book`` of a saga, ``level.high`` of a state machine.

A compound component is many nodes.  Those that produce values besides its own are its parts; other components can be
fed by one, or read one:

    >>> from weft import Workflow, latest, state_machine, step
    >>> level = state_machine(
    ...     "level",
    ...     init=0,
    ...     reducer=lambda state, change: state + change,
    ...     reactors={"high": (lambda state: state > 10, lambda state: f"high: {state}")},
    ... )
    >>> alarm = step(str.upper, name="alarm")
    >>> Workflow("tank", level.part("high") >> alarm).run(12).results()
    {'level': 12, 'alarm': 'HIGH: 12'}

In the graph a part that is taken or read is a component, called ``level.high`` and fed by ``level``; it has no node, as
its values are those of the node of that name.  It is not a leaf: ``results("level.high")`` asks for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from weft.core.compose.component import Component
from weft.core.compose.flow import ENTRY, Flow, Link
from weft.core.functions.function import Function
from weft.core.functions.identity import canonical
from weft.errors import InvalidComponent, TracingError

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion


@dataclass(frozen=True, eq=False, repr=False)
class Part(Component):
    """A part of another component, of which others take or read the values."""

    of: Component | str
    """The component; its name, once it is in a workflow."""
    which: str
    """The part, as the component calls it."""
    kind: ClassVar[str] = "part"
    makes_many: ClassVar[bool] = True
    is_leaf: ClassVar[bool] = False

    @property
    def owner(self) -> str:
        """The name of the component."""
        return self.of if isinstance(self.of, str) else self.of.label

    def flow(self) -> Flow:
        """Return the component, open for what feeds it, and this part, which feeds what follows."""
        if isinstance(self.of, str):
            return super().flow()
        return Flow(
            entries=(Link((ENTRY,), self.of, implicit=True),),
            tails=(self,),
            components=(*self.of.flow().components, self),
            supports=self.of.supports(),
            links=(Link((self.of,), self),),
        )

    def placed(self, name: str, names: Mapping[Component, str]) -> Self:
        """Return this part with its component by name."""
        return self if isinstance(self.of, str) else replace(self, name=name, of=names[self.of])

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return this part with components renamed as *names* says."""
        owner = names.get(self.owner, self.owner)
        return replace(self, name=f"{owner}.{self.which}", of=owner)

    def named(self, name: str) -> NoReturn:
        """Refuse: a part is called after its component."""
        raise InvalidComponent(f"{self.label!r} is called after {self.owner!r}, and cannot be called {name!r}")

    def before(self, *hooks: Any, part: str | None = None) -> NoReturn:
        """Refuse: the component has the hooks of its parts."""
        del hooks, part
        raise InvalidComponent(f"hooks of {self.label!r} are given to {self.owner}: before(..., part={self.which!r})")

    def after(self, *hooks: Any, part: str | None = None) -> NoReturn:
        """Refuse: the component has the hooks of its parts."""
        del hooks, part
        raise InvalidComponent(f"hooks of {self.label!r} are given to {self.owner}: after(..., part={self.which!r})")

    def on_error(self, *errors: type[BaseException], then: object) -> NoReturn:
        """Refuse: failures are routed from the component."""
        del errors, then
        raise InvalidComponent(f"failures of {self.label!r} are those of {self.owner!r}: {self.owner}.on_error(...)")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: inside ``@workflow`` the component is called."""
        del args, kwargs
        raise TracingError(
            f"{self.label!r} cannot be called; inside @workflow call {self.owner}(...), and read the part: "
            f"latest({self.label!r})"
        )

    def functions(self) -> dict[str, Function]:
        """Return none: its function is one of the component."""
        return {}

    def check_width(self, width: int, source: str) -> None:
        """Take whatever the component makes: nothing arrives here."""

    def expand(self, into: Expansion) -> None:
        """Add no node: the component has it."""
        into.take(self.owner, self.which)

    def details(self) -> bytes:
        """The owner and the part."""
        return canonical((self.owner, self.which))


def part_called(name: str, components: Mapping[str, Component]) -> tuple[str, str] | None:
    """Return the component of *components* and the part of it that *name* stands for; None if there is no such part."""
    at = name.rfind(".")
    while at > 0:
        owner, part = components.get(name[:at]), name[at + 1 :]
        if owner is not None and part in owner.parts():
            return name[:at], part
        at = name.rfind(".", 0, at)
    return None

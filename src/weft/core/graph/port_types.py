"""
Port types: what components take and make, by their annotations, checked when edges are drawn.

    >>> from weft import Workflow, step
    >>> def size(text: str) -> int: ...
    >>> def shout(text: str) -> str: ...
    >>> Workflow("w", step(size) >> step(shout))
    Traceback (most recent call last):
        ...
    weft.errors.PortMismatch: 'size' produces int, and 'shout' takes str as 'text'; put a step between them that...

A type that is not annotated, or not known, fits everything; a component that passes on its input, such as a
condition, produces the type that it takes.
"""

from __future__ import annotations

import inspect
import types
import warnings
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, Literal, TypeAlias

from weft.core.components.collect import Collect
from weft.core.components.condition import Condition
from weft.core.components.loop_ends import TurnEnd, TurnStart
from weft.core.components.map import Map
from weft.core.components.reduce import Reduce, Stop
from weft.core.components.sleep import Sleep
from weft.core.compose.component import Component
from weft.core.compose.growing_dict import over
from weft.core.compose.inlet import INPUT_NAME, Inlet
from weft.core.compose.part import Part
from weft.core.failure import Failure
from weft.core.functions.annotations import ANY, element_of, fits, members, shown
from weft.core.functions.function import Function
from weft.core.graph.wiring import Wiring
from weft.errors import DefinitionError, PortMismatch

Validate: TypeAlias = Literal["error", "warn", "off"]
"""How to treat ends that do not fit."""

Types: TypeAlias = tuple[Any, ...]
"""The types of the values that go over one edge; None where their number is not known."""


class Ports:
    """The types of what the components of one workflow make."""

    __slots__ = ("given", "gives", "validate", "wiring")

    def __init__(self, wiring: Wiring, validate: Validate, known: Ports | None = None, given: Any = ANY) -> None:
        """
        Work out what every component makes, and check every edge; of a graph that has grown, the new ones.

        Args:
            given: the type of the input, if it is declared.
        """
        self.given = given
        if validate not in ("error", "warn", "off"):
            raise DefinitionError(f"validate={validate!r} is none of 'error', 'warn' and 'off'")
        self.wiring, self.validate = wiring, validate
        self.gives: MutableMapping[str, Types | None] = {} if known is None else over(known.gives)
        """By component: the types of the values it passes on."""
        new = wiring.order[len(self.gives) :]  # a graph that has grown has what is new at the end of its order
        for name in wiring.order if any(name in self.gives for name in new) else new:
            if name in self.gives:
                continue
            component = wiring.components[name]
            is_asked = name not in wiring.inlets and wiring.is_asked_only(name)
            arriving: tuple[Inlet, ...] = () if is_asked else wiring.fed_by(name)
            if validate != "off":
                for inlet in arriving:
                    self._check(name, component, inlet)
            self.gives[name] = self._given(component, arriving)

    def made_by(self, name: str) -> Any:
        """Return the type of one value of *name*."""
        kinds = self.gives.get(name)
        return kinds[0] if kinds is not None and len(kinds) == 1 else ANY

    # -- what comes out --------------------------------------------------------------------------

    def _given(self, component: Component, arriving: Iterable[Inlet]) -> Types | None:
        if isinstance(component, Map):
            return (self._element(arriving),)
        if isinstance(component, Condition | Sleep | TurnStart):
            ways = [self._arriving(inlet) for inlet in arriving]
            return ways[0] if len(ways) == 1 else None
        if isinstance(component, TurnEnd):
            [inlet] = arriving
            kinds = [self.made_by(parent) for parent in inlet.parents]
            return (kinds[0],) if len(kinds) == 1 else None
        if component.gathers and not component.folds:
            return (self._gathered(component, arriving),)
        made = component.makes
        if isinstance(component, Part):
            made = self.wiring.components[component.owner].parts()[component.which].makes
        others = [kind for kind in members(made) if kind is not Stop]
        return (others[0] if len(others) == 1 else made,)

    def _gathered(self, component: Any, arriving: Iterable[Inlet]) -> Any:
        """Return the type of a list of what arrives, or of a dict of such lists."""
        ways = [self._arriving(inlet) for inlet in arriving]
        one = ways[0] if len(ways) == 1 else None
        values = listed(one[0] if one is not None and len(one) == 1 else ANY)
        return values if component.kind == Collect.kind else types.GenericAlias(dict, (component.key.makes, values))

    def _element(self, arriving: Iterable[Inlet]) -> Any:
        ways = [self._arriving(inlet) for inlet in arriving]
        if len(ways) != 1 or ways[0] is None or len(ways[0]) != 1:
            return ANY
        element = element_of(ways[0][0])
        return ANY if element is None else element

    def _arriving(self, inlet: Inlet) -> Types | None:
        """Return the types of the values that come by *inlet*; None if they are not known."""
        found: list[Any] = []
        if inlet.errors:
            return (Failure,)
        for parent in inlet.parents:
            kinds = (self.given,) if parent == INPUT_NAME else self.gives[parent]
            if kinds is None or inlet.wait not in ("all", "all_done"):
                return None
            found += kinds
        return tuple(found)

    def takes(self, name: str) -> Any:
        """Return the type that *name*, which the input feeds, takes it as."""
        component = self.wiring.components[name]
        function = next(iter(component.arriving().values()), None)
        if function is None or getattr(component, "spread", False):
            return ANY
        skipped = 1 if component.folds else 0
        for inlet in self.wiring.fed_by(name):
            if INPUT_NAME in inlet.parents and not isinstance(component, Reduce):
                at = inlet.parents.index(INPUT_NAME) + skipped
                return dict(enumerate(function.taken(at + 1))).get(at, ("", ANY))[1]
        return ANY

    def check_output(self, port: str, name: str, declared: Any) -> None:
        """Check that the values of *name* fit what is *declared* for the output *port*."""
        made = listed(self.made_by(name)) if self.wiring.regions[name] is not None else self.made_by(name)
        if self.validate != "off" and not fits(made, declared):
            self._report(name, made, f"the output {port!r}", shown(declared))

    # -- what goes in ----------------------------------------------------------------------------

    def _check(self, name: str, component: Component, inlet: Inlet) -> None:
        if inlet.wait == "any":  # each of them may be the one
            for parent in inlet.parents:
                self._check(name, component, Inlet((parent,)))
            return
        kinds = self._arriving(inlet)
        if kinds is None or all(kind is ANY for kind in kinds) or getattr(component, "spread", False):
            return
        if isinstance(component, Map):
            if element_of(kinds[0]) is None:
                self._report(inlet.parents[0], kinds[0], f"{name!r}, an each(),", "a list or another collection")
            return
        for part, function in component.arriving().items():
            self._check_function(f"{name}.{part}" if part else name, component, function, inlet, kinds)

    def _check_function(self, name: str, component: Component, function: Function, inlet: Inlet, kinds: Types) -> None:
        if not function.hints:
            return
        takes = function.taken(len(kinds) + component.folds)
        if component.folds:  # the state comes first, and is its own
            takes = takes[1:2]
            if isinstance(component, Reduce) and name not in self.wiring.closing:
                element = element_of(kinds[0])
                if element is None:
                    self._report(inlet.parents[0], kinds[0], f"{name!r}, a reduce,", "a list or another collection")
                    return
                kinds = (element,)
        sources = self._sources(inlet)
        for (parameter, taken), given, source in zip(takes, kinds, sources, strict=False):
            if not fits(given, taken):
                self._report(source, given, repr(name), f"{shown(taken)} as {parameter!r}")

    def _sources(self, inlet: Inlet) -> Iterator[str]:
        """Yield, for every value that comes by *inlet*, the parent it comes from."""
        if inlet.errors:
            yield inlet.parents[0]
            return
        for parent in inlet.parents:
            for _ in (ANY,) if parent == INPUT_NAME else self.gives[parent] or ():
                yield parent

    def _report(self, source: str, given: Any, target: str, taken: str) -> None:
        if source == INPUT_NAME:
            what = "the input"
        else:
            what = f"an element of {source!r}" if isinstance(self.wiring.components[source], Map) else repr(source)
        what = f"the error route of {source!r}" if given is Failure else what
        error = PortMismatch(what, shown(given), target, taken)
        if self.validate == "error":
            raise error
        warnings.warn(str(error), UserWarning, stacklevel=_outside())


def _outside() -> int:
    """Return how many calls lie between a warning and the user's code, for ``warnings`` to point there."""
    frame: Any = inspect.currentframe()
    depth = 0
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("weft."):
        frame, depth = frame.f_back, depth + 1
    return depth


def listed(kind: Any) -> Any:
    """Return the type of a list of *kind*: the results for all elements of an ``each``."""
    return types.GenericAlias(list, (kind,))

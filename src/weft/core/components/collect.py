"""
Collecting: the values of a batch as a list, or in groups, in the order of the collection.

    >>> from weft import Workflow, each, step
    >>> double = step(lambda x: x * 2, name="double")
    >>> Workflow("w", each(double) >> collect()).run([3, 1, 2]).output
    [6, 2, 4]
    >>> Workflow("w", each(double) >> group_by(lambda x: x > 3)).run([3, 1, 2]).output
    {True: [6, 4], False: [2]}

After an ``each`` they take its elements, as a reduce does: once per input, when every element is done, even if there
were none.  After any other component they take the facts that arrive for one input, as they are and in the order in
which the inlets are written.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar, overload

from weft.core.compose.component import Component, check_filled
from weft.core.compose.flow import Gathering
from weft.core.functions.function import Function
from weft.errors import InvalidComponent, WrongArity, an

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion


K = TypeVar("K")


@dataclass(frozen=True, eq=False, repr=False)
class Collect(Component[list[Any]], Gathering[list[Any]]):
    """The values of a batch as a list."""

    kind: ClassVar[str] = "collect"
    gathers: ClassVar[bool] = True

    def functions(self) -> dict[str, Function]:
        """Return nothing: it runs no function of the user."""
        return {}

    @property
    def makes(self) -> Any:
        """A list; the type of its items depends on its place in the graph."""
        return list

    def check_width(self, width: int, source: str) -> None:
        """Require one value at a time."""
        check_gathers(self.label, width, source)

    def expand(self, into: Expansion) -> None:
        """A node that collects, which is part of the fold, and one that makes the list."""
        into.collect(into.work(_LISTED))


@dataclass(frozen=True, eq=False, repr=False)
class GroupBy(Component[dict[K, list[Any]]], Gathering[dict[K, list[Any]]], Generic[K]):
    """The values of a batch in groups: a dict of lists, whose keys are the results of a function."""

    key: Function
    kind: ClassVar[str] = "group_by"
    gathers: ClassVar[bool] = True

    def functions(self) -> dict[str, Function]:
        """Return the function that says to which group a value belongs."""
        return {"": self.key}

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return this component with components renamed as *names* says."""
        return replace(super().renamed(names), key=self.key.renamed(names))

    @property
    def makes(self) -> Any:
        """A dict; the types of its items depend on its place in the graph."""
        return dict

    def check_width(self, width: int, source: str) -> None:
        """Require one value at a time, and a function of one."""
        check_gathers(self.label, width, source)
        check_filled(self.label, self.key)
        if not self.key.takes(1):
            takes = ", ".join(self.key.required) or "nothing"
            raise WrongArity(f"the key of {self.label!r} takes {takes}; it must take one value, and say its group")

    def expand(self, into: Expansion) -> None:
        """A node that collects, which is part of the fold, and one that asks for the group of every value."""
        group = _agroup if self.key.is_async else _group
        into.collect(into.work(self.key, call=partial(group, self.key.call)))


def check_gathers(component: str, width: int, source: str) -> None:
    """Raise WrongArity unless one value at a time arrives from *source*."""
    if width != 1:
        raise WrongArity(f"{component!r} gathers one value at a time and gets {width} from {source}")


# Functions at the top of the module, not closures: these can be sent to a worker process.
def _listed(*values: Any) -> list[Any]:
    return list(values)


def _group(key: Callable[..., Any], /, *values: Any, **given: Any) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for value in values:
        _put(groups, key(value, **given), value)
    return groups


async def _agroup(key: Callable[..., Any], /, *values: Any, **given: Any) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for value in values:
        found = key(value, **given)
        _put(groups, await found if inspect.isawaitable(found) else found, value)
    return groups


def _put(groups: dict[Any, list[Any]], key: Any, value: Any) -> None:
    if not isinstance(key, Hashable):
        raise TypeError(
            f"the group of {value!r:.60} is {key!r:.60}, {an(type(key).__name__)}, which cannot be a key of a dict; "
            "return a string, a number or a tuple"
        )
    groups.setdefault(key, []).append(value)


_LISTED = Function(_listed, (), variadic=True)


def collect(*, name: str | None = None) -> Collect:
    """
    Collect what arrives into a list: after an ``each`` its elements, otherwise the facts of one input.

    Args:
        name: its name; ``collect_1`` and so on if not given.
    """
    return Collect(name)


class GroupByDecorator(Protocol):
    """Makes groups by a function."""

    @overload
    def __call__(self, key: Callable[..., Coroutine[Any, Any, K]], /) -> GroupBy[K]: ...
    @overload
    def __call__(self, key: Callable[..., K], /) -> GroupBy[K]: ...


@overload
def group_by(key: Callable[..., Coroutine[Any, Any, K]], *, name: str | None = None) -> GroupBy[K]: ...
@overload
def group_by(key: Callable[..., K], *, name: str | None = None) -> GroupBy[K]: ...
@overload
def group_by(*, name: str | None = None) -> GroupByDecorator: ...
def group_by(key: Callable[..., Any] | None = None, *, name: str | None = None) -> Any:
    """
    Group what arrives into a dict of lists, by the result of *key* for each value; also a decorator.

    The groups are in the order of their first values, the values of a group in the order of the collection.

    Args:
        key: takes a value, and returns the group that it belongs to: a string, a number, a tuple.
        name: its name; by default ``by_`` and the name of the function, if it has one.
    """

    def make(call: Callable[..., Any]) -> GroupBy[Any]:
        if not callable(call):
            raise InvalidComponent(
                f"group_by() takes a function of a value, got {call!r}; for an item or an attribute write "
                f"operator.itemgetter({call!r}) or operator.attrgetter({call!r})"
            )
        read = Function.of(call)
        return GroupBy(name or (f"by_{read.name}" if read.name else None), read)

    return make if key is None else make(key)

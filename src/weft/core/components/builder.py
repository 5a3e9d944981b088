"""
Components that are written with decorators, and sealed when a workflow takes them.

    >>> from weft import Aggregate, Workflow
    >>> account = Aggregate("account", init=0)
    >>> @account.event("opened")
    ... def opened(state, name): return state
    >>> workflow = Workflow("bank", account)
    >>> account.event("closed")(opened)
    Traceback (most recent call last):
        ...
    weft.errors.InvalidComponent: 'account' is part of a workflow and cannot change any more; ...

All runs of a workflow share its definition, so its components must not change after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from weft.core import deferred
from weft.core.components.message_names import check_names
from weft.core.compose.component import Component
from weft.core.compose.flow import Flow
from weft.errors import InvalidComponent

_OTHERS = "_by_object"
"""Suffix of the name of a field whose parts are not named by strings."""


class Parts(dict[Any, Any]):
    """The parts that decorators have put into a component, by name."""

    def __init__(self, given: Mapping[Any, Any] | None = None) -> None:
        super().__init__(given or {})
        self.is_sealed = False

    def put(self, owner: str, what: str, name: Any, thing: Any) -> None:
        """
        Add *thing*, a part of *owner*, under *name*.

        Raises:
            InvalidComponent: the name is taken, cannot be a name, or a workflow has *owner* already.
        """
        self._check_open(owner, name)
        check_names([*self, name], f"{what} of {owner!r}")
        self[name] = thing

    def change(self, owner: str, name: Any, thing: Any) -> None:
        """Replace the part *name* by *thing*."""
        self._check_open(owner, name)
        self[name] = thing

    def _check_open(self, owner: str, name: Any) -> None:
        if self.is_sealed:
            raise InvalidComponent(
                f"{owner!r} is part of a workflow and cannot change any more; declare {name!r} before it is given to "
                f"a Workflow or stands beside >>, or make another one: {owner}.named('other')"
            )


@dataclass(frozen=True, eq=False, repr=False)
class Builder(Component):
    """A component with tables that can be written until it is sealed; a copy under another name has its own tables."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, parts in self._tables().items():
            self.__dict__[name] = Parts(parts)

    def _tables(self) -> dict[str, Parts]:
        return {field.name: found for field in fields(self) if isinstance(found := getattr(self, field.name), Parts)}

    def seal(self) -> None:
        """Check the component as a whole, and refuse all later changes."""
        tables = self._tables().values()
        if not all(table.is_sealed for table in tables):
            self.check()
            for table in tables:
                table.is_sealed = True

    def to_data(self) -> dict[str, Any]:
        """Return its parts; those of a table by name if the names are strings, and as pairs otherwise."""
        data = super().to_data()
        for field, table in self._tables().items():
            data[field] = {name: part for name, part in table.items() if isinstance(name, str)}
            others = [[name, part] for name, part in table.items() if not isinstance(name, str)]
            data |= {f"{field}{_OTHERS}": others} if others else {}
        return data

    @classmethod
    def from_data(cls, name: str, tags: tuple[str, ...], data: Mapping[str, Any]) -> Self:
        """Return the component whose :meth:`to_data` returned *data*."""
        given = {field: held for field, held in data.items() if not field.endswith(_OTHERS)}
        for field in fields(cls):
            if field.default_factory is Parts:
                others: list[Any] = data.get(f"{field.name}{_OTHERS}", [])
                given[field.name] = Parts({**given.get(field.name, {}), **dict(others)})
        return super().from_data(name, tags, given)

    def check(self) -> None:
        """Raise InvalidComponent if what was written makes no sense as a whole."""

    def flow(self) -> Flow:
        """Return this component, open at both ends, and sealed."""
        self.seal()
        return super().flow()

    def _repr_svg_(self) -> str | None:
        """Draw a twin of it, so that this one can still be written."""
        return deferred.drawn(replace(self))

    def placed(self, name: str, names: Mapping[Component, str]) -> Self:
        """Return this component as *name*, sealed."""
        self.seal()
        twin = super().placed(name, names)
        twin.seal()
        return twin

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return this component with components renamed as *names* says, sealed."""
        twin = super().renamed(names)
        for table in twin._tables().values():  # noqa: SLF001
            for name, part in table.items():
                table[name] = part.renamed(names)
        twin.seal()
        return twin

"""
References: values that a parameter reads from the run or the context, declared as its default.

    >>> def over(amount, spent=state_of("total"), limit=context("limit", default=100)):
    ...     return spent > limit

``state_of``, ``latest``, ``all_values``, ``step_ran`` and ``fact_count`` read another component of the same
run; ``context`` reads a value that the caller passed, which is never logged.  ``transaction`` is the transaction in
which the completion of the step is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, cast

import msgspec


class _Missing(msgspec.Struct, frozen=True):
    """Stands for "no default was given", since None is a default like any other."""


MISSING: Final[Any] = _Missing()


class Reference(msgspec.Struct, frozen=True):
    """Base of all references: the value of a parameter that is filled in when the function runs."""


class Read(Reference, frozen=True):
    """A parameter that reads what another component, *target*, has made."""

    word: ClassVar[str] = "read"
    target: str


class StateOf(Read, frozen=True):
    """The state of a stateful component, as it is after the same input."""

    word: ClassVar[str] = "state_of"


class Latest(Read, frozen=True):
    """The last value that a component has produced for the same input, or else the one before."""

    word: ClassVar[str] = "latest"
    default: Any = None


class AllValues(Read, frozen=True):
    """Every value that a component has made so far, this input included."""

    word: ClassVar[str] = "all_values"


class StepRan(Read, frozen=True):
    """Whether a component has made anything so far, this input included."""

    word: ClassVar[str] = "step_ran"


class FactCount(Read, frozen=True):
    """How many facts a component has made so far, this input included."""

    word: ClassVar[str] = "fact_count"


class Context(Reference, frozen=True):
    """A value that the caller hands to the run: a secret, a handle, a setting."""

    key: str
    default: Any = MISSING

    @property
    def is_required(self) -> bool:
        """Whether a run without this key is refused."""
        return self.default is MISSING

    def fallback(self) -> Any:
        """Return the default; a function is called for it, and only now."""
        default = self.default
        return cast("Callable[[], Any]", default)() if callable(default) else default


class InTransaction(Reference, frozen=True):
    """The transaction of the store in which the step writes, and in which its completion is stored."""


def state_of(component: object) -> Any:
    """
    Read the state of *component*, a stateful component or its name.

    >>> state_of("total")
    StateOf(target='total')
    """
    return StateOf(_name(component))


def latest(component: object, *, default: Any = None) -> Any:
    """Read the last value of *component*; *default* where it has made none."""
    return Latest(_name(component), default)


def all_values(component: object) -> Any:
    """Read all values of *component*, as a list."""
    return AllValues(_name(component))


def step_ran(component: object) -> Any:
    """Read whether *component* has run and produced something."""
    return StepRan(_name(component))


def fact_count(component: object) -> Any:
    """Read how many facts *component* has produced."""
    return FactCount(_name(component))


def context(key: str, *, default: Any = MISSING) -> Any:
    """
    Read *key* of the context that a run is given; without *default* the key is required.

    A *default* that can be called is called, when the key is absent.  ``name.key`` in the given context
    is for the component *name* alone and wins over ``key``.
    """
    return Context(key, default)


def transaction() -> Any:
    """
    Take the transaction in which the completion of this step is stored: its own writes and its event commit together.

    With :class:`~weft.stores.PostgresStore` a coroutine function gets an asyncpg connection, and a plain function an
    object with the same methods, which block.  With :class:`~weft.stores.SQLiteStore` both get an object with
    ``execute`` and ``executemany`` on the file of the store.  No other store has transactions.

    >>> def pay(order, tx=transaction()):
    ...     tx.execute("insert into payments (order_id) values (?)", (order,))
    ...     return order
    """
    return InTransaction()


def _name(component: object) -> str:
    name = component if isinstance(component, str) else getattr(component, "name", None)
    if not isinstance(name, str):
        raise TypeError(f"expected a component with a name, or its name; got {component!r}")
    return name

"""
Names of events and commands, by which the function that handles one is found.

A table is keyed by strings, members of an enum, or classes.  A message is named by its class, if that class or a base
class of it is in the table; otherwise by itself (a string), by its first item (``("deposit", 100)``), or by a field of
a mapping (``{"command": "deposit", "amount": 100}``).

    >>> table = {"deposit": 1, ValueError: 2}
    >>> [name_in(table, value, "command") for value in ("deposit", ("deposit", 5), {"command": "deposit"})]
    ['deposit', 'deposit', 'deposit']
    >>> name_in(table, UnicodeError(), "command"), name_in(table, "withdraw", "command")
    (<class 'ValueError'>, None)
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from enum import Enum
from typing import Any, TypeAlias

from weft.core.functions.function import Function
from weft.core.functions.offered import offer
from weft.errors import InvalidComponent

Name: TypeAlias = str | Enum | type
"""Types of names of events, commands and states."""


def name_in(table: Container[Any], value: Any, word: str) -> Any:
    """Return the name in *table* by which *value* is called, or None; a mapping has its name in the field *word*."""
    kind: Any = value.__class__
    for cls in kind.__mro__:
        if cls in table:
            return cls
    given = called = value  # what is still of any type after the checks
    if isinstance(value, Mapping):
        called = given.get(word)
    elif isinstance(value, tuple) and given:
        called = given[0]
    return called if isinstance(called, str | Enum) and called in table else None


def content(value: Any) -> Any:
    """Return *value* without its name: the rest of a tuple (one item alone, not as a tuple), or else all of it."""
    given = value  # what is still of any type after the check
    if type(value) is not tuple or len(given) < 2:
        return given
    return given[1] if len(given) == 2 else given[1:]


def label(name: Any) -> str:
    """Return *name* as the name of a part of a component."""
    if isinstance(name, type):
        return name.__name__
    return name.name if isinstance(name, Enum) else str(name)


def check_names(names: Iterable[Any], what: str, *, classes: bool = True) -> None:
    """
    Raise InvalidComponent unless *names* are valid, different names of *what*.  Classes among them are offered.

    Two names that read alike, such as two classes of one name in different modules, would be one part.
    """
    seen: dict[str, Any] = {}
    for name in names:
        is_name = isinstance(name, str | Enum) or (classes and isinstance(name, type))
        if not is_name or not label(name) or "\0" in label(name):
            kinds = "a string, a member of an enum or a class" if classes else "a string or a member of an enum"
            raise InvalidComponent(f"{what} is called {name!r}; use {kinds}")
        if label(name) in seen:
            raise InvalidComponent(f"{what} is declared twice: {seen[label(name)]!r} and {name!r}; rename one of them")
        seen[label(name)] = name
        if isinstance(name, type):
            offer(name)


def by_part(owner: str, functions: Iterable[tuple[str, Function | None]]) -> dict[str, Function]:
    """Return the *functions* of *owner* that are not None, by part; refuse two parts with one name."""
    found: dict[str, Function] = {}
    for part, function in functions:
        if part in found:
            raise InvalidComponent(f"two parts of {owner!r} would be called {part!r}; rename what one is called after")
        if function is not None:
            found[part] = function
    return found

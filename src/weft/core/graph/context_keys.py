"""
The context of a workflow: the keys that its components read, and defaults that it has for them.

A key is for all components (``limit``), for one (``trip.limit``) or for a part (``trip.book.limit``); the narrowest
that is given wins.  Defaults come after everything that is given:

    >>> over_defaults({"limit": 5, "trip.limit": 9}, {"limit": 7})
    {'limit': 7}
    >>> over_defaults({"limit": 5, "trip.limit": 9}, {"key": "k"})
    {'limit': 5, 'trip.limit': 9, 'key': 'k'}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from weft.core.compose.component import Component
from weft.errors import InvalidArgument

Needed = Iterable[tuple[str, str, str]]
"""Names of nodes, the components that they belong to, and the keys that they need."""


def check_context(context: object) -> None:
    """Raise InvalidArgument unless *context* is a mapping, or None."""
    if context is not None and type(context) is not dict and not isinstance(context, Mapping):
        raise InvalidArgument(f"context={context!r:.80}: use a mapping of keys to values: context={{'key': value}}")


def keys_read(components: Mapping[str, Component]) -> dict[str, dict[str, Any]]:
    """Return, by component, the keys that it reads and their defaults; a required one has ``MISSING``."""
    keys: dict[str, dict[str, Any]] = {}
    for name, component in components.items():
        for function in component.functions().values():
            for ref in function.contexts.values():
                keys.setdefault(name, {})[ref.key] = ref.default
    return keys


def missing_keys(needed: Needed, context: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the components, and the keys that they need and *context* has neither for all, for them nor for a part."""
    return list(
        dict.fromkeys(
            (owner, key)
            for name, owner, key in needed
            if key not in context and f"{owner}.{key}" not in context and f"{name}.{key}" not in context
        )
    )


def unread_keys(components: Mapping[str, Component], context: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the components, and the keys that *context* has for them alone although they do not read them."""
    found: list[tuple[str, str]] = []
    for name in context:
        owner, _, key = name.rpartition(".")
        part = ""
        while owner and owner not in components:
            owner, _, inner = owner.rpartition(".")
            part = f"{inner}.{part}" if part else inner
        if not owner:
            continue
        functions = components[owner].functions()
        read = functions.values() if not part else [functions[part]] if part in functions else []
        if not any(ref.key == key for function in read for ref in function.contexts.values()):
            found.append((f"{owner}.{part}" if part else owner, key))
    return found


def over_defaults(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return *given*, and those of *defaults* that nothing in *given* overrides."""
    kept = {name: value for name, value in defaults.items() if not any(name.endswith(f".{key}") for key in given)}
    return {**kept, **given}


def nested_defaults(name: str, components: Mapping[str, Component], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the *defaults* of a workflow for a place where its components are called ``name.component``."""
    found: dict[str, Any] = {}
    for component, keys in keys_read(components).items():
        found.update({f"{name}.{component}.{key}": defaults[key] for key in keys if key in defaults})
    read = {key for keys in keys_read(components).values() for key in keys}
    found.update({f"{name}.{key}": value for key, value in defaults.items() if key not in read})
    return found

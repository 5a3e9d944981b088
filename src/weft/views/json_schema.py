"""
Checks a value against a JSON Schema, as far as Weft writes such schemas: for a process without the classes of a type.

    >>> schema = {"$ref": "#/$defs/Answer", "$defs": {"Answer": {"type": "object",
    ...     "properties": {"ok": {"type": "boolean"}, "by": {"type": "string"}}, "required": ["ok", "by"]}}}
    >>> misfit(schema, {"ok": "yes", "by": "ada"})
    'expected a boolean, got text, at ok'
    >>> misfit(schema, {"ok": True})
    'by is missing'
    >>> misfit(schema, {"ok": True, "by": "ada"})

A keyword that is not known here, such as ``format``, refuses nothing: the process that drives the run checks the value
against the class itself.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

_NAMES: Final = {
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "string": "text",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_COMPARED: Final[dict[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "minimum": (operator.ge, "at least"),
    "exclusiveMinimum": (operator.gt, "more than"),
    "maximum": (operator.le, "at most"),
    "exclusiveMaximum": (operator.lt, "less than"),
}
_MOST_REFERENCES: Final = 50
"""A schema that only refers to itself accepts everything, instead of being followed for ever."""


def misfit(schema: Mapping[str, Any], value: object) -> str | None:
    """
    Return why *value*, which is JSON data, does not fit *schema*, and which field is wrong; None if it fits.

    Args:
        schema: a JSON Schema, of which the keywords that say something about types, fields and limits are checked.
    """
    definitions: Any = schema.get("$defs", {})
    return next(_Check(definitions).problems(schema, value, ""), None)


class _Check:
    """Checks values against schemas that refer to *definitions*."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions

    def problems(self, schema: Any, value: Any, at: str) -> Iterator[str]:
        """Yield what is wrong with *value*, which stands *at* this place."""
        for _ in range(_MOST_REFERENCES):
            name: Any = cast("Mapping[str, Any]", schema).get("$ref") if isinstance(schema, Mapping) else None
            if not isinstance(name, str) or not name.startswith("#/$defs/"):
                break
            schema = self._definitions.get(name.removeprefix("#/$defs/"), {})
        else:
            return
        if not isinstance(schema, Mapping):
            return
        rules = cast("Mapping[str, Any]", schema)
        wanted: Any = rules.get("type")
        types: Sequence[Any] = [wanted] if isinstance(wanted, str) else wanted or []
        if types and not any(_is_of(each, value) for each in types):
            expected = " or ".join(_NAMES.get(each, str(each)) for each in types)
            yield f"expected {expected}, got {_kind(value)}{_place(at)}"
            return
        if "const" in rules and rules["const"] != value:
            yield f"expected {rules['const']!r}, got {value!r:.60}{_place(at)}"
        if "enum" in rules and value not in rules["enum"]:
            yield f"expected one of {', '.join(map(repr, rules['enum']))}, got {value!r:.60}{_place(at)}"
        yield from self._alternatives(rules, value, at)
        yield from _limits(rules, value, at)
        if isinstance(value, Mapping):
            yield from self._fields(rules, cast("Mapping[str, Any]", value), at)
        elif isinstance(value, list):
            yield from self._items(rules, cast("Sequence[Any]", value), at)

    def _alternatives(self, rules: Mapping[str, Any], value: Any, at: str) -> Iterator[str]:
        for each in rules.get("allOf", ()):
            yield from self.problems(each, value, at)
        options: Any = rules.get("anyOf") or rules.get("oneOf")
        if not options:
            return
        found = [next(self.problems(each, value, at), None) for each in options]
        if all(found):
            said = [each for each in found if each is not None]
            deepest = max(said, key=lambda each: not each.endswith(_place(at)))  # of the option whose type fits
            yield deepest if len(said) == 1 or not deepest.endswith(_place(at)) else " or ".join(dict.fromkeys(said))

    def _fields(self, rules: Mapping[str, Any], value: Mapping[str, Any], at: str) -> Iterator[str]:
        fields, rest = rules.get("properties", {}), rules.get("additionalProperties", True)
        for name in rules.get("required", ()):
            if name not in value:
                yield f"{_inner(at, name)} is missing"
        for name, held in value.items():
            if name in fields:
                yield from self.problems(fields[name], held, _inner(at, name))
            elif rest is False:
                yield f"{_inner(at, name)} is not a field"
            elif isinstance(rest, Mapping):
                yield from self.problems(rest, held, _inner(at, name))

    def _items(self, rules: Mapping[str, Any], value: Sequence[Any], at: str) -> Iterator[str]:
        first: Any = rules.get("prefixItems", ())
        for place, held in enumerate(value):
            of = first[place] if place < len(first) else rules.get("items")
            if of is False:
                yield f"there is one too many{_place(f'{at}[{place}]')}"
                return
            yield from self.problems(of, held, f"{at}[{place}]")


def _limits(rules: Mapping[str, Any], value: Any, at: str) -> Iterator[str]:
    """Yield which limits of numbers, texts and lists *value* does not keep."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        for name, (is_kept, word) in _COMPARED.items():
            if name in rules and not is_kept(value, rules[name]):
                yield f"expected {word} {rules[name]}, got {value}{_place(at)}"
    kinds: list[tuple[type, str, str]] = [(str, "Length", "characters"), (list, "Items", "items")]
    for kind, suffix, word in [*kinds, (dict, "Properties", "fields")]:
        if isinstance(value, kind):
            length = len(cast("Any", value))
            if length < rules.get(f"min{suffix}", 0):
                yield f"expected at least {rules[f'min{suffix}']} {word}, got {length}{_place(at)}"
            if length > rules.get(f"max{suffix}", length):
                yield f"expected at most {rules[f'max{suffix}']} {word}, got {length}{_place(at)}"
    if isinstance(value, str) and "pattern" in rules and not _is_like(rules["pattern"], value):
        yield f"expected text like {rules['pattern']}{_place(at)}"


def _is_like(pattern: str, value: str) -> bool:
    try:
        return re.search(pattern, value) is not None
    except re.error:  # the schema of a class that checks with other regular expressions than Python's
        return True


def _is_of(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    match kind:
        case "integer":
            return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        case "number":
            return isinstance(value, int | float)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, Mapping)
        case "null":
            return value is None
        case _:
            return kind != "boolean"


def _kind(value: Any) -> str:
    names = ("boolean", "integer", "number", "string", "array", "object", "null")
    return next((_NAMES[name] for name in names if _is_of(name, value)), type(value).__name__)


def _inner(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _place(at: str) -> str:
    return f", at {at}" if at else ""

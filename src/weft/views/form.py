"""
A form for the value of a type: which fields it has, and the value that the filled-in fields make.

    >>> fields = form_fields({"type": "object", "properties": {"ok": {"type": "boolean"}, "note": {"type": "string"}},
    ...                       "required": ["ok"]})
    >>> [(field.key, field.is_required) for field in fields]
    [('field:flag:ok', True), ('field:text:note', False)]
    >>> filled({"field:flag:ok": "true", "field:text:note": "on us"})
    {'ok': True, 'note': 'on us'}

The key of a field says how its text is read, so that a form can be read without the type.
Whether the value fits its type is checked where it arrives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, cast

import msgspec

from weft.errors import InvalidArgument
from weft.views.text import from_json

Kind = Literal["flag", "text", "number", "choice", "date", "datetime", "json"]

_PREFIX: Final = "field:"
_FORMATS: Final[dict[str, Kind]] = {"date": "date", "date-time": "datetime"}
_LIMITS: Final = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
    "multipleOf": "a multiple of",
    "minLength": "characters at least:",
    "maxLength": "characters at most:",
    "pattern": "like",
}


class Field(msgspec.Struct, frozen=True):
    """One field of a form."""

    name: str
    """The field of the value; empty if the value has none."""
    kind: Kind
    is_required: bool
    default: str = ""
    """The text that is filled in at first."""
    choices: tuple[tuple[str, str], ...] = ()
    """The text that is sent, and the one that is shown."""
    hint: str = ""

    @property
    def key(self) -> str:
        """The name of the field in the form."""
        return f"{_PREFIX}{self.kind}:{self.name}"


def form_fields(schema: Mapping[str, Any]) -> list[Field]:
    """Return the fields of a form for values of a JSON Schema; one for the whole value unless that is an object."""
    known: dict[str, Any] = schema.get("$defs", {})
    whole = _resolved(schema, known)
    properties: dict[str, Any] | None = whole.get("properties")
    if properties is None:
        return [_field("", whole, known, is_required=True)]
    required = whole.get("required", ())
    return [_field(name, each, known, is_required=name in required) for name, each in properties.items()]


def _resolved(schema: Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    found: dict[str, Any] = known.get(reference.rpartition("/")[2], {})
    return {**found, **{name: held for name, held in schema.items() if name != "$ref"}}


def _field(name: str, schema: Mapping[str, Any], known: Mapping[str, Any], *, is_required: bool) -> Field:
    schema = _resolved(schema, known)
    inner, may_be_none = _without_none(schema, known)
    default, hint = schema.get("default"), _hint(inner)
    is_required = is_required and not may_be_none
    choices = inner.get("enum")
    if choices is not None:
        shown = tuple((_json(each), each if isinstance(each, str) else _json(each)) for each in choices)
        return Field(name, "choice", is_required, _json(default) if default is not None else "", shown, hint)
    kind = _kind(inner)
    text = "" if default is None else default if kind == "text" and isinstance(default, str) else _json(default)
    return Field(name, kind, is_required, "" if text in ("[]", "{}") else text, hint=hint)


def _without_none(schema: Mapping[str, Any], known: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """Return the only type of ``X | None``, and whether it is one; other unions are typed as JSON."""
    members = [_resolved(each, known) for each in cast("list[Any]", schema.get("anyOf", ()))]
    rest = [each for each in members if each.get("type") != "null"]
    if not members:
        return schema, False
    return (rest[0] if len(rest) == 1 else {}), len(rest) < len(members)


def _kind(schema: Mapping[str, Any]) -> Kind:
    match schema.get("type"):
        case "boolean":
            return "flag"
        case "integer" | "number":
            return "number"
        case "string":
            return _FORMATS.get(schema.get("format", ""), "text")
        case _:
            return "json"


def _hint(schema: Mapping[str, Any]) -> str:
    limits = [f"{words} {schema[name]}" for name, words in _LIMITS.items() if name in schema]
    whole = ["a whole number"] if schema.get("type") == "integer" else []
    return ", ".join([*filter(None, [schema.get("description")]), *whole, *limits])


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def is_filled(form: Mapping[str, str]) -> bool:
    """Return whether *form* has fields that were made from a type."""
    return any(key.startswith(_PREFIX) for key in form)


def filled(form: Mapping[str, str]) -> Any:
    """
    Return the value that a form makes; fields that were left empty are left out.

    Raises:
        InvalidArgument: what was typed into a field cannot be read.
    """
    found = dict(_read(form))
    return found.get("") if set(found) <= {""} else found


def _read(form: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    for key, text in form.items():
        if not key.startswith(_PREFIX) or text == "":
            continue
        kind, _, name = key.removeprefix(_PREFIX).partition(":")
        yield name, text if kind in ("text", "date", "datetime") else _parsed(name, kind, text)


def _parsed(name: str, kind: str, text: str) -> Any:
    try:
        return from_json(text)
    except msgspec.DecodeError as error:
        expected = "a number" if kind == "number" else "JSON"
        raise InvalidArgument(f"{name or 'the value'}: {text[:40]!r} is not {expected}") from error

"""A value that does not fit the schema of a type is refused as by the type, with the field that is wrong."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.components.schema import json_schema
from weft.views.json_schema import misfit


class Line(msgspec.Struct):
    name: str
    pieces: Annotated[int, msgspec.Meta(ge=1)]


class Answer(msgspec.Struct, forbid_unknown_fields=True):
    ok: bool
    by: str
    lines: list[Line] = []
    note: str | None = None
    way: Literal["post", "van"] = "post"
    place: tuple[int, int] | None = None
    more: dict[str, float] = {}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"ok": True, "by": "ada", "lines": [{"name": "tea", "pieces": 2}], "note": None, "place": [1, 2]}, None),
        ({"ok": "yes", "by": "ada"}, "expected a boolean, got text, at ok"),
        ({"ok": True}, "by is missing"),
        ({"ok": True, "by": "ada", "bye": 1}, "bye is not a field"),
        (
            {"ok": True, "by": "ada", "lines": [{"name": "tea", "pieces": 0}]},
            "expected at least 1, got 0, at lines[0].pieces",
        ),
        (
            {"ok": True, "by": "ada", "note": 7},
            "expected text, got an integer, at note or expected null, got an integer, at note",
        ),
        ({"ok": True, "by": "ada", "way": "air"}, "expected one of 'post', 'van', got 'air', at way"),
        ({"ok": True, "by": "ada", "more": {"x": "y"}}, "expected a number, got text, at more.x"),
        ("yes", "expected an object, got text"),
    ],
)
def test_the_field_that_is_wrong_is_named(value: Any, why: str | None) -> None:
    assert misfit(json_schema(Answer), value) == why


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["ada", "post", "air", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["ok", "by", "lines", "note", "way", "place", "more", "name", "pieces"]), inner
        )
    ),
    max_leaves=8,
)
NEARLY = st.fixed_dictionaries(
    {"ok": st.booleans(), "by": st.just("ada")},
    optional={
        "lines": st.lists(st.fixed_dictionaries({"name": st.just("tea"), "pieces": JSON}), max_size=2),
        "note": JSON,
        "way": JSON,
        "place": JSON,
        "more": JSON,
    },
)


@given(JSON | NEARLY)
def test_it_refuses_what_the_type_refuses_and_nothing_else(value: Any) -> None:
    try:
        msgspec.convert(value, Answer)
    except msgspec.ValidationError:
        assert misfit(json_schema(Answer), value) is not None
    else:
        assert misfit(json_schema(Answer), value) is None


def test_a_schema_that_only_refers_to_itself_accepts_everything() -> None:
    assert misfit({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, 1) is None

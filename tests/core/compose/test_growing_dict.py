"""Tables that share what they have in common behave like dicts that were copied."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.core.compose.growing_dict import Table, over

CHANGES = st.lists(st.tuples(st.sampled_from(["put", "drop", "twin"]), st.integers(0, 9)), max_size=60)


@given(CHANGES)
def test_a_table_is_what_a_copied_dict_would_be(changes: list[tuple[str, int]]) -> None:
    plain: dict[int, int] = {0: -1, 5: -1}
    table = over(dict(plain))
    before: list[tuple[Table[int, int], dict[int, int]]] = []

    for number, (what, key) in enumerate(changes):
        if what == "put":
            plain[key] = table[key] = number
        elif what == "drop" and key in plain:
            del plain[key], table[key]
        elif what == "twin":
            before.append((table, dict(plain)))
            table = over(table)

    for found, expected in [*before, (table, plain)]:
        assert list(found.items()) == list(expected.items())
        assert (len(found), found == expected) == (len(expected), True)
        assert [key in found for key in range(10)] == [key in expected for key in range(10)]
        assert [found.get(key) for key in range(10)] == [expected.get(key) for key in range(10)]


def test_a_table_that_grows_one_by_one_has_few_layers() -> None:
    table: Table[int, int] = over({})

    for number in range(2_000):
        table = over(table)
        table[number] = number

    assert list(table) == list(range(2_000))
    assert len(table._below) < 16

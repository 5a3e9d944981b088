"""The questions of an expression: those that a plain evaluation would ask, in the same order, each once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from weft.core.compose.expression import And, Expression, Leaf, Not, Or
from weft.core.compose.questions import next_question, questions_of, verdict


def tree(drawn: Any) -> Expression:
    """Return an expression whose parts are made of those before them, shared as it comes."""
    parts: list[Expression] = [Leaf(name) for name in "abc"]
    for kind, left, right in drawn:
        one, other = parts[left % len(parts)], parts[right % len(parts)]
        parts.append(Not(one) if kind is Not else kind(one, other))
    return parts[-1]


def answer(expression: Expression, ask: Callable[[str], bool]) -> bool:
    """Return what an expression comes to, in the plainest way there is."""
    match expression:
        case Leaf(name):
            return ask(name)
        case Not(of):
            return not answer(of, ask)
        case And(left, right):
            return answer(left, ask) and answer(right, ask)
        case Or(left, right):
            return answer(left, ask) or answer(right, ask)


@given(
    st.lists(st.tuples(st.sampled_from([And, Or, Not]), st.integers(0, 99), st.integers(0, 99)), max_size=9),
    st.fixed_dictionaries(dict.fromkeys("abc", st.booleans())),
)
def test_whatever_is_shared_the_same_questions_are_asked_in_the_same_order(drawn: Any, says: dict[str, bool]) -> None:
    expression = tree(drawn)
    plainly: dict[str, bool] = {}
    asked: dict[str | int, bool] = {}
    questions, inside = questions_of(expression), list[int]()

    expected = answer(expression, lambda name: plainly.setdefault(name, says[name]))
    at: int | bool = len(questions) - 1
    while not isinstance(at := next_question(questions, asked, at, inside), bool):
        name = questions[at][0]
        assert isinstance(name, str)
        assert name not in asked
        asked[name] = says[name]

    assert at is expected
    assert [name for name in asked if isinstance(name, str)] == list(plainly)
    assert verdict(questions, says) is expected

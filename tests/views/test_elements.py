"""The elements of a map: figures of all, and pages of those one looks for."""

from __future__ import annotations

import pytest

from weft import Policy, Run, Runner, Workflow, each, reduce, step
from weft.views.elements import elements, place_of


def size(word: str) -> int:
    if word == "boom":
        raise ValueError("too loud")
    return len(word)


WORDS = [*("a" * (number % 7) for number in range(120)), "boom"]
COUNT = Workflow(
    "count",
    step(list, name="words") >> each(step(str.strip, name="strip") >> step(size)) >> reduce(max, init=0, name="most"),
    policies=[("size", Policy(on_failure="dead_letter"))],
)


@pytest.fixture(scope="module")
def run() -> Run:
    with Runner(executor="inline") as runner:
        handle = runner.start(COUNT, WORDS)
        return runner.wait(handle)


def test_those_that_failed_stand_first_and_pages_go_on_where_they_ended(run: Run) -> None:
    pages = [elements(run, "size", text=repr, start=start) for start in (0, 50, 100, 150)]

    assert pages[0].page[0].index == 120
    assert pages[0].page[0].text == "ValueError: too loud"
    assert sorted(element.index for page in pages for element in page.page) == list(range(121))
    assert pages[0].counts == {"failed": 1, "done": 120}


def test_an_index_is_handed_on_through_the_steps_of_a_map(run: Run) -> None:
    for name in ("strip", "size"):
        event = place_of(run, name, 5)

        assert event is not None
        assert event.value in ("aaaaa", 5)
    assert place_of(run, "words", 0) is None
    assert place_of(run, "size", 999) is None


def test_a_search_finds_an_index_a_value_or_an_error(run: Run) -> None:
    def found(search: str, state: str = "") -> set[int]:
        return {element.index for element in elements(run, "size", text=repr, search=search, state=state).page}

    assert found("LOUD") == found("", "failed") == {120}
    assert 33 in found("33")
    assert found("loud", "done") == set()


def test_hidden_values_are_not_searched(run: Run) -> None:
    assert elements(run, "strip", text=lambda _: "hidden", search="aaa").found == 0


def test_durations_are_a_strip_in_ascending_order(run: Run) -> None:
    found = elements(run, "size", text=repr)

    assert list(found.strip) == sorted(found.strip)
    assert found.percentiles["p50"] <= found.percentiles["p99"] <= found.percentiles["max"]

"""
Random small graphs with error routes and dead letters: what holds for every run holds for those that fail.

A graph is a few steps in a row of any shape, some inside an ``each``; every step fails on some values, by its number,
and has routes, a policy that keeps or skips what failed, both or neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from weft import Failure, Policy, Run, Runnable, Workflow, each, execute_with_policies, reduce, step
from weft.core.components.step import Step
from weft.policy import Value

ERRORS: tuple[type[Exception], ...] = (KeyError, ValueError, LookupError)


class Part(msgspec.Struct, frozen=True):
    """One step: who feeds it, when it fails and with what, and what is done about it."""

    parents: tuple[int, ...]
    fails: int
    """Fails on what this number divides; 0 never fails."""
    error: int
    routes: tuple[tuple[int, ...], ...]
    on_failure: str


def drawn_part(number: int) -> st.SearchStrategy[Part]:
    earlier = st.lists(st.integers(-1, number - 1), min_size=1, max_size=2, unique=True)
    return st.builds(
        Part,
        parents=earlier.map(tuple),
        fails=st.integers(0, 3),
        error=st.integers(0, 2),
        routes=st.lists(st.lists(st.integers(0, 2), max_size=2, unique=True).map(tuple), max_size=2).map(tuple),
        on_failure=st.sampled_from(["halt", "skip", "dead_letter", "dead_letter"]),
    )


graphs = st.integers(1, 4).flatmap(lambda count: st.tuples(*(drawn_part(number) for number in range(count))))
bodies = st.none() | st.tuples(drawn_part(0), st.lists(st.integers(1, 6), max_size=4))


def size(value: Any) -> int:
    """Return a number that says what *value* is."""
    if isinstance(value, Failure):
        return len(value.message) + len(value.component) + size(value.input)
    if isinstance(value, list | tuple):
        return sum(size(item) + 1 for item in value)
    return int(value)


def working(name: str, part: Part, width: int) -> Step[..., int]:
    def work(*values: Any) -> int:
        total = size(values)
        if part.fails and total % part.fails == 0:
            raise ERRORS[part.error](f"{name} on {total}")
        return total

    def one(x: Any) -> int:
        return work(x)

    def two(x: Any, y: Any) -> int:
        return work(x, y)

    return step(one if width == 1 else two, name=name)


def handler(name: str, failing: int) -> Step[..., int]:
    """Return a step that takes failures, and now and then fails itself."""

    def handle(failure: Failure) -> int:
        assert failure.type in ("KeyError", "ValueError", "LookupError")
        if failing and size(failure) % 4 == 0:
            raise ValueError(f"{name} too")
        return size(failure)

    return step(handle, name=name)


def with_routes(made: Step[..., int], part: Part) -> list[Any]:
    return [
        made.on_error(*(ERRORS[i] for i in kinds), then=handler(f"{made.name}_h{number}", part.fails))
        for number, kinds in enumerate(part.routes)
    ]


def build(parts: tuple[Part, ...], body: tuple[Part, list[int]] | None) -> tuple[Workflow, list[Any]]:
    """Return the workflow, and its rules."""
    made: list[Step[..., int]] = []
    fragments: list[Any] = []
    rules: list[Any] = []
    for number, part in enumerate(parts):
        parents = [made[parent] for parent in part.parents if parent >= 0]
        component = working(f"s{number}", part, max(1, len(parents)))
        made.append(component)
        feeding: Any = parents[0] if len(parents) == 1 else parents
        fragments += [feeding >> component if parents else component, *with_routes(component, part)]
        rules.append((f"s{number}", Policy(on_failure=part.on_failure)))  # type: ignore[arg-type]
    if body is not None:
        part, items = body
        inner = working("e", part, 1)
        source = step(lambda x: [x + item for item in items], name="items")
        whole = reduce(lambda acc, x: [*acc, x], init=list[int], name="whole")
        fragments += [source >> each([inner, *with_routes(inner, part)], name="m"), inner >> whole]
        rules.append(("e", Policy(on_failure=part.on_failure)))  # type: ignore[arg-type]
    return Workflow("random", *fragments), rules


Choose = Callable[[int], int]


def drive(run: Run, rules: list[Any], choose: Choose) -> Run:
    """Run until nothing is ready, in the order that *choose* says."""
    while ready := run.prepare():
        runnable: Runnable = ready[choose(len(ready))]
        run.apply(execute_with_policies(runnable, rules))
    return run


def bring_to_an_end(run: Run, rules: list[Any], choose: Choose) -> Run:
    """Drive *run*; then try every second letter again, with a value for those that fail again, and give up the rest."""
    drive(run, rules, choose)
    while letters := run.dead_letters:
        letter = letters[choose(len(letters))]
        if sum(map(ord, letter.error.message)) % 2:
            run.retry(letter, policy=Policy(fallback=lambda runnable, error: Value(1)))
            for runnable in run.prepare():
                if runnable.key == (letter.component, letter.inputs):
                    run.apply(execute_with_policies(runnable, [(letter.component, run.memory.retried[runnable.key])]))  # type: ignore[index]
        else:
            run.discard(letter)
        drive(run, rules, choose)
    return run


def seen(run: Run) -> Any:
    """Return what a run has come to, without the order it came in."""
    made = {name: Counter(map(repr, run.values(name))) for name in run.workflow.components}
    letters = Counter((letter.component, letter.error.message) for letter in run.dead_letters)
    return made, set(run.failures), set(run.skipped), letters, run.status


def first(count: int) -> int:
    del count
    return 0


def last(count: int) -> int:
    return count - 1


@given(graphs, bodies, st.integers(0, 7), st.randoms(use_true_random=False))
def test_the_order_in_which_work_ends_does_not_matter(
    parts: tuple[Part, ...], body: tuple[Part, list[int]] | None, value: int, random: Any
) -> None:
    workflow, rules = build(parts, body)

    runs = [bring_to_an_end(workflow.plan(value), rules, choose) for choose in (first, last, random.randrange)]

    assert seen(runs[0]) == seen(runs[1]) == seen(runs[2])


@given(graphs, bodies, st.integers(0, 7), st.randoms(use_true_random=False))
def test_a_run_is_the_fold_of_its_log_and_can_be_resumed_after_any_event(
    parts: tuple[Part, ...], body: tuple[Part, list[int]] | None, value: int, random: Any
) -> None:
    workflow, rules = build(parts, body)
    run = bring_to_an_end(workflow.plan(value), rules, random.randrange)
    log = run.log()

    assert Run.from_log(log) == run
    for cut in range(2, len(log) + 1):
        resumed = Run.from_log(log[:cut])
        assert resumed.log() == log[:cut]
        assert seen(bring_to_an_end(resumed, rules, first)) == seen(run)


class Expected:
    """Return what a graph comes to before letters are looked at, worked out without Weft."""

    def __init__(self) -> None:
        self.made: dict[str, list[int]] = {}
        self.failed: set[str] = set()
        self.skipped: set[str] = set()
        self.letters: list[str] = []

    def meet(self, name: str, part: Part, values: tuple[Any, ...]) -> str:
        """Let the step *name* work on *values*; return how that ended."""
        total = size(values)
        if not part.fails or total % part.fails:
            self.made.setdefault(name, []).append(total)
            return "made"
        if part.on_failure == "skip":
            self.skipped.add(name)
            return "skipped"
        error = ERRORS[part.error]
        near = [self.distance(error, kinds) for kinds in part.routes]
        best = min((steps for steps in near if steps is not None), default=None)
        if best is None:
            self.failed.add(name)
            self.letters += [name] if part.on_failure == "dead_letter" else []
            return part.on_failure
        seen = len(f"{name} on {total}") + len(name) + size(values[0] if len(values) == 1 else values)
        for route in [number for number, steps in enumerate(near) if steps == best]:
            if part.fails and seen % 4 == 0:
                self.failed.add(f"{name}_h{route}")
            else:
                self.made.setdefault(f"{name}_h{route}", []).append(seen)
        return "handled"

    @staticmethod
    def distance(error: type[Exception], kinds: tuple[int, ...]) -> int | None:
        named: set[type[BaseException]] = {ERRORS[i] for i in kinds} or {BaseException}
        return next((place for place, kind in enumerate(error.__mro__) if kind in named), None)


@given(graphs, bodies, st.integers(0, 7))
def test_a_failure_goes_to_the_one_place_that_is_meant_for_it(
    parts: tuple[Part, ...], body: tuple[Part, list[int]] | None, value: int
) -> None:
    workflow, rules = build(parts, body)
    expected = Expected()
    for number, part in enumerate(parts):
        parents = [f"s{parent}" for parent in part.parents if parent >= 0]
        if all(parent in expected.made for parent in parents):
            expected.meet(f"s{number}", part, tuple(expected.made[p][0] for p in parents) or (value,))
    if body is not None:
        expected.made["items"] = [[value + item for item in body[1]]]  # type: ignore[list-item]
        ends = {expected.meet("e", body[0], (value + item,)) for item in body[1]}
        if "halt" in ends:
            expected.failed.add("whole")
        elif "dead_letter" not in ends:
            expected.made["whole"] = [expected.made.get("e", [])]  # type: ignore[list-item]

    run = drive(workflow.plan(value), rules, first)

    made = {name: run.values(name) for name in run.workflow.components if name != "m" and run.values(name)}
    assert made == expected.made
    assert set(run.failures) == expected.failed
    assert set(run.skipped) == expected.skipped
    assert Counter(letter.component for letter in run.dead_letters) == Counter(expected.letters)

"""Errors: one for every bad input, which names the place and says what to do; and the tree that shows them all."""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Callable

import pytest

from weft import (
    Outcome,
    Run,
    Workflow,
    accumulator,
    condition,
    context,
    current,
    each,
    join,
    latest,
    reduce,
    rule,
    state_of,
    step,
)
from weft import errors as module
from weft.core.functions.identity import canonical
from weft.errors import (
    BatchFailed,
    CannotSpread,
    CyclicWorkflow,
    DefinitionError,
    DescribedError,
    DuplicateName,
    ExecutionError,
    InvalidAppend,
    InvalidComponent,
    InvalidEvent,
    InvalidJoin,
    InvalidStoreOption,
    LogError,
    MissingContent,
    MissingContext,
    MixedRegions,
    MutualWait,
    NoRun,
    NotACollection,
    NothingProduced,
    RunError,
    RunNotFound,
    StepFailed,
    StoreError,
    UnidentifiableValue,
    UnknownComponent,
    UnknownReference,
    UnknownRunnable,
    WeftError,
    WrongArity,
)

a, b, c = (step(lambda x: x, name=name) for name in "abc")
two = step(lambda x, y: (x, y), name="two")
is_even = condition(lambda x: x % 2 == 0, name="is_even")
total = accumulator(lambda so_far, x: so_far + x, init=0, name="total")
most = reduce(max, init=0, name="most")

EVERY = [kind for _, kind in inspect.getmembers(module, inspect.isclass) if issubclass(kind, BaseException)]


def reads(reference: object, name: str) -> object:
    return step(lambda x, read: (x, read), name=name).bind(read=reference)


# -- at definition -------------------------------------------------------------------------------

Case = tuple[Callable[[], object], type[WeftError], tuple[str, ...]]

DEFINITIONS: dict[str, Case] = {
    "a cycle": (lambda: Workflow("w", a >> b >> c, c >> a), CyclicWorkflow, ("'w'", "a -> b -> c -> a", "remove")),
    "a component that feeds itself": (lambda: Workflow("w", a >> a), CyclicWorkflow, ("a -> a", "a.named('other')")),
    "a cycle by way of a rule's condition": (
        lambda: Workflow("w", rule(when=is_even, then=lambda x: x, name="r") >> is_even >> a),
        CyclicWorkflow,
        ("is_even", "r"),
    ),
    "a name for two components": (
        lambda: Workflow("w", a, step(lambda x: x + 1, name="a")),
        DuplicateName,
        ("'a'", "different code", "another name"),
    ),
    "a name for two kinds": (
        lambda: Workflow("w", a, rule(then=lambda x: x, name="a")),
        DuplicateName,
        ("'a'", "a step and a rule", "another name"),
    ),
    "the name of a part of another component": (
        lambda: Workflow("w", rule(when=len, then=len, name="r"), step(len, name="r.when")),
        DuplicateName,
        ("'r.when'", "'r'", "another name"),
    ),
    "a reference to an unknown component": (
        lambda: Workflow("w", a, reads(latest("lastest"), "r")),
        UnknownReference,
        ("'r'", "latest", "'lastest'", "add it first", "it has a, r"),
    ),
    "an unknown condition": (
        lambda: Workflow("w", rule(when="ham", then=lambda x: x, name="r")),
        UnknownReference,
        ("'r'", "condition", "'ham'", "add it first"),
    ),
    "the state of something without one": (
        lambda: Workflow("w", a, reads(state_of("a"), "r")),
        UnknownReference,
        ("'r'", "state_of", "'a'", "latest('a')"),
    ),
    "a step of two parameters with one parent": (
        lambda: Workflow("w", a >> two),
        WrongArity,
        ("'two'", "2 (x, y)", "gets 1 from a", "join", "spread=True"),
    ),
    "a root of two parameters": (lambda: Workflow("w", two), WrongArity, ("'two'", "gets 1 from INPUT")),
    "a join of too many for its child": (
        lambda: Workflow("w", [a, b, c] >> two),
        WrongArity,
        ("'two'", "gets 3 from a, b, c", "one parameter for each parent"),
    ),
    "a fold of one parameter": (
        lambda: Workflow("w", accumulator(lambda x: x, init=0, name="bad")),
        WrongArity,
        ("'bad'", "(state, value)", "state first"),
    ),
    "a reducer of one parameter": (
        lambda: Workflow("w", each(a) >> reduce(lambda x: x, init=0, name="bad")),
        WrongArity,
        ("'bad'", "(accumulator, value)", "accumulator first"),
    ),
    "a parameter that nothing fills": (
        lambda: Workflow("w", step(lambda x, *, y: x, name="bad")),
        WrongArity,
        ("'y'", "give it a default"),
    ),
    "a constant for no parameter": (lambda: a.bind(y=1), WrongArity, ("'y'", "it has (x)")),
    "a join of one parent": (lambda: join(a), InvalidJoin, ("join(a)", "at least two", "a >> b")),
    "a join that waits for too many": (lambda: join(a, b, wait=3), InvalidJoin, ("wait=3", "from 1 to 2")),
    "a join that waits for something else": (
        lambda: join(a, b, wait="most"),
        InvalidJoin,
        ("'most'", "'all', 'any', 'all_done'"),
    ),
    "a join into an accumulator": (
        lambda: Workflow("w", [a, b] >> total),
        InvalidJoin,
        ("'total'", "takes no join of a, b", "[a, b] >> combine >> total"),
    ),
    "a join into a reduce": (
        lambda: Workflow("w", each([a, b]) >> most),
        InvalidJoin,
        ("'most'", "a >> most, b >> most"),
    ),
    "an empty list": (lambda: a >> [], InvalidJoin, ("an empty list",)),
    "inside and outside of an each": (
        lambda: Workflow("w", each(a) >> b, c >> b),
        MixedRegions,
        ("'b'", "after a", "after c", "b.named('other')", "latest"),
    ),
    "in two maps": (
        lambda: Workflow("w", each(a, name="m"), each(a, name="n")),
        MixedRegions,
        ("'a'", "'m' and 'n'", "a.named('other')"),
    ),
    "a mutual wait": (
        lambda: Workflow("w", reads(latest("b"), "a"), reads(latest("a"), "b")),
        MutualWait,
        ("a -> b -> a", ">>"),
    ),
    "no function": (lambda: step("a"), InvalidComponent, ("expected a function", "'a'")),
    "a name that is no name": (lambda: a.named(""), InvalidComponent, ("a string other than 'INPUT'",)),
    "no condition": (lambda: rule(when=1, then=len), InvalidComponent, ("when=", "1")),
    "an unknown parent": (
        lambda: Workflow("w", a).add(b, to="aa"),
        UnknownComponent,
        ("'aa'", "workflow 'w'", "it has a"),
    ),
    "an unknown component to replace": (
        lambda: Workflow("w", a).replace("aa", b),
        UnknownComponent,
        ("'aa'", "workflow 'w'"),
    ),
}


@pytest.mark.parametrize("case", DEFINITIONS)
def test_what_cannot_work_is_refused_where_it_is_defined(case: str) -> None:
    define, kind, words = DEFINITIONS[case]

    with pytest.raises(kind) as caught:
        define()

    assert isinstance(caught.value, DefinitionError)
    assert [word for word in words if word not in str(caught.value)] == []


# -- in a run ------------------------------------------------------------------------------------


def run_error(act: Callable[[Run], object]) -> Callable[[], object]:
    return lambda: act(Workflow("w", a, is_even >> b).run(1, id="r1"))


RUNS: dict[str, Case] = {
    "an unknown component": (run_error(lambda run: run.value("x")), UnknownComponent, ("'x'", "it has a, b, is_even")),
    "nothing produced": (run_error(lambda run: run.value("b")), NothingProduced, ("'b'", "did not hold", "default=")),
    "an unknown outcome": (
        run_error(lambda run: run.apply(Outcome("a", (9,), "completed"))),
        UnknownRunnable,
        ("'r1'", "never offered 'a'"),
    ),
    "work that is done": (
        run_error(lambda run: run.runnable(Workflow("w", a).plan(1).prepare()[0].ref())),
        UnknownRunnable,
        ("'a'", "not ready in run 'r1'"),
    ),
    "missing context": (
        lambda: Workflow("w", reads(context("token"), "call")).run(1),
        MissingContext,
        ("'token' (for call)", "context={'token': ...}", "default="),
    ),
    "no run": (lambda: reads(latest("a"), "r")(1), NoRun, ("latest", "pass read=")),
    "nothing running": (current, NoRun, ("current()", "outside")),
    "no history": (lambda: Run.from_log([]), InvalidEvent, ("empty log",)),
    "no identity": (lambda: canonical([object()]), UnidentifiableValue, ("object", "value[0]", "use builtins")),
}


@pytest.mark.parametrize("case", RUNS)
def test_what_cannot_be_done_says_why_and_what_to_do(case: str) -> None:
    act, kind, words = RUNS[case]

    with pytest.raises(kind) as caught:
        act()

    assert [word for word in words if word not in str(caught.value)] == []


FAILURES: dict[str, tuple[Workflow, object, str, type[WeftError], tuple[str, ...]]] = {
    "each over no collection": (
        Workflow("w", each(a, name="all")),
        "text",
        "all",
        NotACollection,
        ("'all'", "got a str: 'text'", "return a list"),
    ),
    "reduce over no collection": (
        Workflow("w", most),
        5,
        "most",
        NotACollection,
        ("'most'", "reduce", "got an int: 5", "return a list"),
    ),
    "spread over too few": (
        Workflow("w", step(lambda x, y: x, name="two", spread=True)),
        [1],
        "two",
        CannotSpread,
        ("'two'", "2 parameters", "got a list: [1]"),
    ),
    "a batch that is not whole": (
        Workflow("w", each(step(lambda x: x / 0, name="bad")) >> most),
        [1],
        "most",
        BatchFailed,
        ("'most'", "element", "says why"),
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_what_can_only_be_known_at_run_time_is_a_recorded_failure(case: str) -> None:
    workflow, value, component, kind, words = FAILURES[case]

    failure = workflow.run(value).failures[component]

    assert isinstance(failure, StepFailed)
    assert isinstance(failure.__cause__, kind)
    assert [word for word in words if word not in str(failure)] == []


def test_a_long_value_is_not_told_whole() -> None:
    run = Workflow("w", each(a, name="all")).run("x" * 10_000)

    assert len(str(run.failures["all"])) < 400


def test_a_long_list_of_names_is_not_told_whole() -> None:
    workflow = Workflow("w", *(step(lambda x: x, name=f"s{n:04}") for n in range(500)))

    with pytest.raises(UnknownComponent, match="and 488 more") as caught:
        workflow.component("nobody")

    assert len(str(caught.value)) < 400


# -- the tree ------------------------------------------------------------------------------------


def drawn() -> dict[str, str | None]:
    """Every error in the tree of the module's docstring, and what it stands below."""
    above: dict[int, str] = {}
    found: dict[str, str | None] = {}
    for line in (module.__doc__ or "").splitlines():
        match = re.match(r"    ((?:[│ ]   )*(?:[├└]── )?)(\w+)(?:  |$)", line)
        if match:
            depth = len(match[1]) // 4
            found[match[2]] = above.get(depth - 1)
            above[depth] = match[2]
    return found


def test_the_tree_shows_every_error_in_its_place() -> None:
    actual = {
        kind.__name__: next((base.__name__ for base in kind.__bases__ if issubclass(base, WeftError)), None)
        for kind in EVERY
    }

    assert drawn() == actual


@pytest.mark.parametrize("kind", EVERY)
def test_every_error_is_explained(kind: type[BaseException]) -> None:
    assert (kind.__doc__ or "").strip()


def test_a_caller_can_catch_at_three_heights() -> None:
    for height in (WeftError, DefinitionError, CyclicWorkflow):
        with pytest.raises(height):
            Workflow("w", a >> a)


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (DefinitionError, ValueError),
        (UnknownComponent, LookupError),
        (UnknownReference, LookupError),
        (UnknownRunnable, LookupError),
        (MissingContext, LookupError),
        (NothingProduced, LookupError),
        (WrongArity, TypeError),
        (NotACollection, TypeError),
        (CannotSpread, TypeError),
        (UnidentifiableValue, TypeError),
        (LogError, ValueError),
        (RunNotFound, LookupError),
        (MissingContent, LookupError),
        (InvalidAppend, ValueError),
        (InvalidStoreOption, ValueError),
    ],
)
def test_where_a_builtin_says_the_same_the_error_is_that_builtin_too(
    kind: type[WeftError], builtin: type[Exception]
) -> None:
    assert issubclass(kind, builtin)


@pytest.mark.parametrize("kind", [ExecutionError, RunError, LogError, DefinitionError, StoreError])
def test_every_kind_is_an_error_of_the_library(kind: type[WeftError]) -> None:
    assert issubclass(kind, WeftError)


@pytest.mark.parametrize("kind", EVERY)
def test_no_error_hides_a_builtin(kind: type[BaseException]) -> None:
    assert not hasattr(builtins, kind.__name__)


def test_a_described_error_says_what_it_stands_for() -> None:
    error = DescribedError("shop.Declined", "no money")

    assert (error.kind, error.message, str(error)) == ("shop.Declined", "no money", "shop.Declined: no money")

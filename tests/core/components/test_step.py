"""Steps: what a function may look like, what it is given, and what it is outside of a run."""

from __future__ import annotations

import functools
import operator
from typing import Any

import pytest

from weft import INPUT, Workflow, condition, context, current, each, fact_count, latest, state_of, step
from weft.errors import CannotSpread, InvalidComponent, NoRun, WrongArity

# -- the plain function --------------------------------------------------------------------------


def test_a_decorated_step_is_still_the_plain_function() -> None:
    @step
    def double(x: int) -> int:
        """Twice as much."""
        return x * 2

    assert double(4) == 8
    assert double.__doc__ == "Twice as much."


def test_a_decorator_with_arguments_names_the_step() -> None:
    @step(name="twice")
    def double(x: int) -> int:
        return x * 2

    assert double.name == "twice"
    assert double(4) == 8


def test_an_exception_of_a_direct_call_is_not_wrapped() -> None:
    invert = step(lambda x: 1 / x, name="invert")

    with pytest.raises(ZeroDivisionError):
        invert(0)


def test_a_direct_call_takes_the_default_of_a_context() -> None:
    @step
    def limited(x: int, limit: int = context("limit", default=5)) -> int:
        return min(x, limit)

    assert limited(9) == 5
    assert limited(9, limit=7) == 7


def test_a_direct_call_that_reads_a_run_says_that_there_is_none() -> None:
    @step
    def over(x: int, so_far: int = state_of("total")) -> bool:
        return x > so_far

    with pytest.raises(NoRun, match=r"state_of.*no run.*so_far="):
        over(9)


@pytest.mark.parametrize("reference", [latest("a"), fact_count("a"), context("required")])
def test_a_direct_call_may_be_given_what_it_would_read(reference: object) -> None:
    add = step(lambda x, y=reference: x + y, name="add")

    assert add(9, y=1) == 10
    with pytest.raises(NoRun):
        add(9)


# -- names ---------------------------------------------------------------------------------------


def test_a_step_is_named_after_its_function() -> None:
    def parse(text: str) -> str:
        return text

    assert step(parse).name == "parse"
    assert step(functools.partial(parse)).name == "parse"
    assert step(len).name == "len"


def test_a_step_without_a_name_is_named_after_its_kind_with_a_number() -> None:
    workflow = Workflow("w", step(lambda x: x + 1) >> step(lambda x: x * 2))

    run = workflow.run(5)

    assert list(workflow.components) == ["step_1", "step_2"]
    assert run.value("step_2") == 12


def test_named_gives_the_same_step_another_name() -> None:
    double = step(lambda x: x * 2, name="double")
    twice = double.named("twice")

    run = Workflow("w", double >> twice).run(5)

    assert run.results() == {"twice": 20}
    assert double.name == "double"


@pytest.mark.parametrize("name", ["", "INPUT", 5])
def test_a_name_that_cannot_name_a_component_is_refused(name: object) -> None:
    with pytest.raises(InvalidComponent, match="a string other than 'INPUT'"):
        step(lambda x: x, name="a").named(name)


def test_a_step_of_something_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(InvalidComponent, match="expected a function, got 5"):
        step(5)


# -- what it is given ----------------------------------------------------------------------------


def test_nothing_is_a_value_like_any_other() -> None:
    """A9: None goes on to what follows."""
    nothing = step(lambda _: None, name="nothing")
    got = step(lambda x: ("got", x), name="got")

    run = Workflow("w", nothing >> got).run(1)

    assert run.values() == [None, ("got", None)]


def test_none_as_an_input_is_an_input() -> None:
    run = Workflow("w", step(lambda x: ("got", x), name="got")).run(None)

    assert run.output == ("got", None)


def test_a_step_without_parameters_is_only_triggered() -> None:
    run = Workflow("w", step(lambda: "called", name="call")).run("ignored")

    assert run.output == "called"


def test_a_step_takes_one_value_of_each_parent_of_a_join() -> None:
    parents = [step(lambda x, k=k: x + k, name=f"plus_{k}") for k in range(4)]

    run = Workflow("w", parents >> step(lambda a, b, c, d: (a, b, c, d), name="all")).run(10)

    assert run.output == (10, 11, 12, 13)


def test_a_variadic_step_takes_any_number_of_values() -> None:
    parents = [step(lambda x, k=k: x + k, name=f"plus_{k}") for k in range(4)]
    gather = step(lambda first, *others: (first, others), name="gather")

    assert Workflow("w", parents >> gather).run(10).output == (10, (11, 12, 13))
    assert Workflow("w", gather).run(10).output == (10, ())


def test_a_parameter_with_a_default_is_a_constant() -> None:
    run = Workflow("w", step(lambda x, k=3: x * k, name="times")).run(5)

    assert run.output == 15


@pytest.mark.parametrize(
    ("function", "given", "made"),
    [(len, [1, 2], 2), (str.upper, "a", "A"), (int, "7", 7), (dict, [("a", 1)], {"a": 1}), (max, [3, 9], 9)],
)
def test_a_builtin_can_be_a_step(function: object, given: object, made: object) -> None:
    run = Workflow("w", step(function, name="builtin")).run(given)

    assert run.output == made


def test_an_object_that_can_be_called_can_be_a_step() -> None:
    class Scale:
        def __init__(self, by: int) -> None:
            self.by = by

        def __call__(self, x: int) -> int:
            return x * self.by

    run = Workflow("w", step(Scale(3), name="scale")).run(5)

    assert run.output == 15


def test_a_bound_method_can_be_a_step() -> None:
    class Shop:
        def price(self, item: str) -> int:
            return len(item)

    run = Workflow("w", step(Shop().price)).run("pear")

    assert run.results() == {"price": 4}


def test_a_partial_can_be_a_step() -> None:
    run = Workflow("w", step(functools.partial(operator.sub, 10))).run(3)

    assert run.results() == {"sub": 7}


# -- bound constants -----------------------------------------------------------------------------


def test_a_bound_constant_takes_the_place_of_a_parameter() -> None:
    minus = step(lambda x, y: x - y, name="minus")

    assert Workflow("w", minus.bind(y=10)).run(1).output == -9
    assert Workflow("w", minus.bind(x=10)).run(1).output == 9


def test_a_bound_step_called_directly_takes_what_is_left() -> None:
    minus = step(lambda x, y: x - y, name="minus")

    assert minus.bind(y=10)(1) == -9
    assert minus.bind(x=10)(1) == 9


def test_a_bound_constant_replaces_a_default() -> None:
    times = step(lambda x, k=3: x * k, name="times")

    assert Workflow("w", times.bind(k=4)).run(5).output == 20
    assert times.bind(k=4)(5) == 20
    assert times(5) == 15


def test_constants_bound_one_after_another_add_up() -> None:
    show = step(lambda a, b, c: (a, b, c), name="show").bind(a=1).bind(c=3)

    assert Workflow("w", show).run(2).output == (1, 2, 3)


def test_a_reference_can_be_bound() -> None:
    add = step(lambda x, y: x + y, name="add").bind(y=context("more"))

    assert Workflow("w", add).run(1, context={"more": 10}).output == 11


def test_binding_a_parameter_that_is_not_there_is_refused() -> None:
    with pytest.raises(WrongArity, match=r"no parameter 'z' to bind; it has \(x, y\)"):
        step(lambda x, y: x + y, name="add").bind(z=1)


def test_binding_a_leading_parameter_of_a_variadic_step_is_refused() -> None:
    with pytest.raises(WrongArity, match=r"takes \*args, so only trailing parameters can be bound"):
        step(lambda first, *others: (first, others), name="gather").bind(first=1)


def test_binding_leaves_the_step_as_it_was() -> None:
    add = step(lambda x, y: x + y, name="add")

    add.bind(y=10)

    with pytest.raises(WrongArity):
        Workflow("w", add)


# -- arity ---------------------------------------------------------------------------------------


def test_a_step_of_several_parameters_with_one_parent_is_refused() -> None:
    """A7: nothing is spread by itself."""
    with pytest.raises(WrongArity, match=r"'minus' takes 2 \(a, b\) values and gets 1 .*spread=True"):
        Workflow("w", step(lambda a, b: a - b, name="minus"))


def test_a_step_that_says_so_is_given_the_members_of_a_collection() -> None:
    """A7."""
    run = Workflow("w", step(lambda a, b: a - b, name="minus", spread=True)).run([9, 4])

    assert run.output == 5


def test_a_step_of_one_parameter_gets_a_collection_whole() -> None:
    """A7."""
    run = Workflow("w", step(lambda pair: pair, name="whole")).run([9, 4])

    assert run.output == [9, 4]


def test_a_variadic_step_can_be_spread_over() -> None:
    run = Workflow("w", step(lambda *xs: sum(xs), name="sum", spread=True)).run([1, 2, 3])

    assert run.output == 6


@pytest.mark.parametrize("given", [[1], [1, 2, 3], "ab", b"ab", {"a": 1, "b": 2}, 5, None])
def test_a_value_that_cannot_be_spread_is_a_recorded_failure(given: object) -> None:
    run = Workflow("w", step(lambda a, b: (a, b), name="pair", spread=True)).run(given)

    assert isinstance(run.failures["pair"].__cause__, CannotSpread)
    assert "'pair' spreads its input over 2 parameters" in str(run.failures["pair"])
    assert run.status == "idle"


def test_spreading_over_one_parameter_is_refused() -> None:
    with pytest.raises(WrongArity, match="'whole' says spread=True"):
        Workflow("w", step(lambda pair: pair, name="whole", spread=True))


def test_a_join_of_more_parents_than_parameters_is_refused() -> None:
    a, b = step(lambda x: x, name="a"), step(lambda x: x, name="b")

    with pytest.raises(WrongArity, match=r"'one' takes 1 \(x\) values and gets 2 from a, b"):
        Workflow("w", [a, b] >> step(lambda x: x, name="one"))


def test_a_join_with_the_input_counts_as_a_parent() -> None:
    length = step(len, name="length")

    run = Workflow("w", [INPUT, length] >> step(lambda text, n: f"{text} ({n})", name="report")).run("abc")

    assert run.output == "abc (3)"


def test_a_keyword_only_parameter_that_nothing_fills_is_refused() -> None:
    def pay(x: int, *, currency: str) -> str:
        return f"{x} {currency}"

    with pytest.raises(WrongArity, match="keyword-only parameter 'currency'; give it a default"):
        Workflow("w", step(pay))


def test_a_keyword_only_parameter_can_be_bound() -> None:
    def pay(x: int, *, currency: str) -> str:
        return f"{x} {currency}"

    assert Workflow("w", step(pay).bind(currency="EUR")).run(5).output == "5 EUR"


def test_a_reference_in_a_positional_only_parameter_is_refused() -> None:
    def add(x: int, y: int = latest("a"), /) -> int:
        return x + y

    with pytest.raises(WrongArity, match="'y' reads the run, so it cannot be positional-only"):
        step(add)


def test_a_default_before_variadic_parameters_is_refused() -> None:
    def pay(x: int, y: int = 1, *more: int) -> int:
        return x + y + sum(more)

    with pytest.raises(WrongArity, match=r"after \*more"):
        step(pay)


# -- coroutines ----------------------------------------------------------------------------------


def test_an_async_step_is_a_step_like_any_other() -> None:
    @step
    async def fetch(x: int) -> int:
        return x + 1

    run = Workflow("w", fetch >> step(lambda x: -x, name="negate")).run(3)

    assert run.values() == [4, -4]


def test_a_coroutine_that_a_plain_function_returns_is_awaited() -> None:
    async def fetch(x: int) -> int:
        return x + 1

    run = Workflow("w", step(lambda x: fetch(x + 0), name="fetch")).run(3)

    assert run.output == 4


def test_a_partial_of_a_coroutine_function_is_awaited() -> None:
    async def fetch(base: int, x: int) -> int:
        return base + x

    run = Workflow("w", step(functools.partial(fetch, 10))).run(3)

    assert run.output == 13


def test_an_object_whose_call_is_a_coroutine_is_awaited() -> None:
    class Client:
        async def __call__(self, x: int) -> int:
            return x + 1

    run = Workflow("w", step(Client(), name="client")).run(3)

    assert run.output == 4


def test_an_async_step_that_raises_is_a_recorded_failure() -> None:
    async def fetch(x: int) -> int:
        return 1 // x

    run = Workflow("w", step(fetch)).run(0)

    assert isinstance(run.failures["fetch"].__cause__, ZeroDivisionError)


# -- what a step can know of itself --------------------------------------------------------------


def test_a_step_knows_what_is_running() -> None:
    run = Workflow("w", step(lambda _: current(), name="who")).run(1, id="r1")

    assert (run.output.run_id, run.output.component, run.output.attempt) == ("r1", "who", 1)


def test_a_step_sees_the_idempotency_key_of_its_runnable() -> None:
    run = Workflow("w", step(lambda _: current().idempotency_key, name="key")).plan(1)
    [runnable] = run.prepare()

    run.apply(runnable.execute())

    assert run.output == runnable.idempotency_key


def test_outside_of_a_component_nothing_is_running() -> None:
    Workflow("w", step(lambda x: x, name="a")).run(1)

    with pytest.raises(NoRun, match="outside of a component"):
        current()


def test_a_run_inside_a_step_does_not_change_what_is_running() -> None:
    inner = Workflow("inner", step(lambda x: x, name="innermost"))

    def outer(x: int) -> str:
        inner.run(x)
        return current().component

    assert Workflow("w", step(outer)).run(1).output == "outer"


@pytest.mark.parametrize("thing", [Workflow("w"), each(step(len)), step(len) >> step(abs)])
def test_what_is_composed_is_not_a_function(thing: object) -> None:
    with pytest.raises(InvalidComponent, match=r"expected a function.*beside >>"):
        step(thing)  # type: ignore[call-overload]


@pytest.mark.parametrize("call", [bool, int, float, str, list, tuple, frozenset, dict.fromkeys, str.upper, len, repr])
def test_a_builtin_gets_what_arrives_whether_or_not_it_could_do_without(call: Any) -> None:
    value = "7"

    assert Workflow("w", step(call, name="s")).run(value).value("s") == call(value)


@pytest.mark.parametrize("call", [bool, float, str])
def test_a_builtin_that_is_a_condition_is_asked_about_what_arrives(call: Any) -> None:
    workflow = Workflow("w", condition(call, name="c") >> step(lambda x: x, name="s"))

    assert workflow.run(1).values("s") == [1]

"""Loops: turns are facts, only the outcome goes on, and a loop that was cut off goes on where it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from weft import (
    Policy,
    Repeat,
    Run,
    Workflow,
    condition,
    context,
    current,
    each,
    join,
    latest,
    reduce,
    repeat,
    step,
    workflow,
)
from weft.errors import (
    BatchFailed,
    InvalidComponent,
    InvalidJoin,
    LoopExhausted,
    NoRun,
    PortMismatch,
    StepFailed,
    WrongArity,
)
from weft.testing import VirtualClock

Finish = Callable[[Run], Run]

collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")
after = step(lambda x: ("after", x), name="after")


def halving(**options: Any) -> Repeat:
    given: dict[str, Any] = {"until": lambda x: x < 10, "at_most": 8, "name": "halve", **options}
    return repeat(lambda x: x // 2, **given)


# -- turning -------------------------------------------------------------------------------------


def test_the_body_runs_on_what_it_made_until_that_is_enough() -> None:
    run = Workflow("w", halving() >> after).run(100)

    assert run.values("halve.turn") == [50, 25, 12, 6]
    assert run.values("halve") == [6]
    assert run.results() == {"after": ("after", 6)}


def test_the_body_runs_at_least_once() -> None:
    assert Workflow("w", halving()).run(8).output == 4


def test_a_turn_came_from_the_turn_before() -> None:
    run = Workflow("w", halving()).run(40)

    assert [fact.producer for fact in run.fact("halve").ancestry()] == [None, *["halve.turn"] * 3, "halve"]


def test_a_chain_of_steps_is_one_turn() -> None:
    think = step(lambda notes: [*notes, "think"], name="think")
    act = step(lambda notes: [*notes, "act"], name="act")
    agent = repeat(think >> act, until=lambda notes: len(notes) >= 4, at_most=5, name="agent")
    run = Workflow("w", agent).run([])

    assert run.output == ["think", "act", "think", "act"]
    assert [fact.producer for fact in run.productions()] == [
        *["agent.think", "agent.act"] * 2,
        "agent",
    ]


def test_a_body_that_is_one_named_step_names_the_loop() -> None:
    improve = step(lambda x: x + 1, name="improve")

    loop = repeat(improve, until=condition(lambda x: x > 3, name="enough"), at_most=9)

    assert loop.name == "improve"
    assert Workflow("w", loop).run(0).output == 4


def test_composed_conditions_end_a_loop() -> None:
    is_big = condition(lambda x: x > 3, name="is_big")
    is_even = condition(lambda x: x % 2 == 0, name="is_even")

    assert Workflow("w", repeat(lambda x: x + 1, until=is_big & ~is_even, at_most=9, name="up")).run(3).output == 5


def test_async_functions_turn_too() -> None:
    async def grow(x: int) -> int:
        return x + 1

    async def enough(x: int) -> bool:
        return x >= 3

    flow = Workflow("w", repeat(grow, until=enough, at_most=5))

    assert flow.run(0).output == 3
    assert flow.run(0, parallel=2).output == 3


def test_body_and_test_can_read_the_run() -> None:
    goal = step(lambda x: 4, name="goal")
    loop = repeat(
        lambda x, by=context("by"): x + by, until=lambda x, goal=latest("goal"): x >= goal, at_most=9, name="climb"
    )

    assert Workflow("w", loop, goal).run(0, context={"by": 3}).value("climb") == 6


# -- the bound -----------------------------------------------------------------------------------


def test_a_loop_that_is_never_done_fails_after_its_last_turn() -> None:
    run = Workflow("w", halving(until=lambda x: False, at_most=3) >> after).run(100)

    assert run.values("halve.turn") == [50, 25, 12]
    assert run.results() == {}
    assert isinstance(run.failures["halve"].__cause__, LoopExhausted)
    assert "made 3 turns" in str(run.failures["halve"])
    assert run.status == "idle"
    with pytest.raises(StepFailed, match="otherwise='last'"):
        run.run(100, raise_on_failure=True)


def test_a_loop_may_give_its_last_value_instead() -> None:
    run = Workflow("w", halving(until=lambda x: False, at_most=3, otherwise="last") >> after).run(100)

    assert run.output == ("after", 12)
    assert not run.failed


@pytest.mark.parametrize("at_most", [0, -1, True, 2.5, None])
def test_a_bound_that_makes_no_sense_is_refused(at_most: Any) -> None:
    with pytest.raises(InvalidComponent, match="at least 1"):
        halving(at_most=at_most)


def test_another_way_out_is_refused() -> None:
    with pytest.raises(InvalidComponent, match="'fail' and 'last'"):
        halving(otherwise="skip")


# -- failures ------------------------------------------------------------------------------------


def test_a_turn_whose_test_fails_ends_the_loop() -> None:
    run = Workflow("w", halving(until=lambda x: 1 // (x - 25)) >> after).run(100)

    assert run.values("halve.turn") == [50, 25]
    assert isinstance(run.failures["halve.until"].__cause__, ZeroDivisionError)
    assert run.results() == {}


def test_a_failing_body_and_a_failing_test_end_the_loop_and_its_branch() -> None:
    fails_late = repeat(lambda x: 10 // x - 2, until=lambda x: x > 100, at_most=9, name="body")
    bad_test = repeat(lambda x: x, until=lambda x: 1 // 0, at_most=9, name="test")
    tidy = step(lambda *given: [bool(value) for value in given], name="tidy")
    run = Workflow("w", join(fails_late, bad_test, wait="all_done") >> tidy).run(5)

    assert isinstance(run.failures["body.turn"].__cause__, ZeroDivisionError)
    assert isinstance(run.failures["test.until"].__cause__, ZeroDivisionError)
    assert run.value("tidy") == [False, False]


def test_a_middle_step_that_fails_ends_the_loop() -> None:
    loop = repeat(
        step(lambda x: x, name="a") >> step(lambda x: 1 // 0, name="b") >> step(lambda x: x, name="c"),
        until=lambda x: True,
        at_most=2,
        name="loop",
    )
    tidy = step(lambda x, y: (x.reason, y), name="tidy")
    other = step(lambda x: x, name="other")

    assert Workflow("w", join(loop, other, wait="all_done") >> tidy).run(1).output == ("failed", 1)


def test_a_policy_holds_for_every_turn() -> None:
    tries: list[int] = []

    def unsteady(x: int) -> int:
        tries.append(x)
        if len(tries) % 2:
            raise ConnectionError("not yet")
        return x + 1

    flow = Workflow("w", repeat(unsteady, until=lambda x: x >= 3, at_most=5, name="climb"))
    run = flow.add_policy("climb", Policy(max_retries=1)).run(0, clock=VirtualClock())

    assert tries == [0, 0, 1, 1, 2, 2]
    assert run.output == 3


def test_every_turn_has_an_idempotency_key_of_its_own() -> None:
    keys: list[str] = []

    def same(x: int) -> int:
        keys.append(current().idempotency_key)
        return x

    Workflow("w", repeat(same, until=lambda x: len(keys) == 4, at_most=5)).run(1)

    assert len(set(keys)) == 4


# -- among others --------------------------------------------------------------------------------


def test_a_loop_per_element_is_reduced_in_order(finish: Finish) -> None:
    run = Workflow("w", each(halving()) >> collect).plan([100, 5, 640])

    assert finish(run).output == [6, 2, 5]


def test_a_loop_that_fails_for_an_element_fails_the_batch(finish: Finish) -> None:
    run = finish(Workflow("w", each(halving(at_most=3)) >> collect).plan([20, 10_000]))

    assert isinstance(run.failures["collect"].__cause__, BatchFailed)
    assert isinstance(run.failures["halve"].__cause__, LoopExhausted)


def test_a_loop_joins_with_others_and_is_read_when_it_is_over(finish: Finish) -> None:
    pair = step(lambda a, b: (a, b), name="pair")
    seen = step(lambda x, half=latest("halve"): half, name="seen")
    run = finish(Workflow("w", [halving(), after] >> pair, seen).plan(100))

    assert run.results() == {"pair": (6, ("after", 100)), "seen": 6}


def test_loops_for_several_inputs_turn_side_by_side(finish: Finish) -> None:
    run = Workflow("w", halving() >> after).plan(100)
    run.plan(64)

    assert sorted(finish(run).values("after")) == [("after", 6), ("after", 8)]


def test_a_loop_fed_by_several_ways_turns_once_for_each(finish: Finish) -> None:
    one, other = step(lambda x: [x], name="one"), step(lambda x: [x, x], name="other")
    grow = repeat(lambda xs: [*xs, 0], until=lambda xs: len(xs) > 3, at_most=9, name="grow")
    run = finish(Workflow("w", one >> grow, other >> grow).plan(7))

    assert len(run.values("grow.turn")) == 5
    assert sorted(run.values("grow")) == [[7, 0, 0, 0], [7, 7, 0, 0]]


def test_loops_follow_each_other_and_nest_in_workflows() -> None:
    inner = Workflow("inner", halving() >> repeat(lambda x: x + 1, until=lambda x: x > 8, at_most=9, name="climb"))

    run = Workflow("w", inner >> after).run(100)

    assert run.output == ("after", 9)
    assert run.values("inner.halve.turn") == [50, 25, 12, 6]


# -- the log -------------------------------------------------------------------------------------


def test_a_loop_that_was_cut_off_after_any_event_goes_on_where_it_was() -> None:
    flow = Workflow("w", each(halving()) >> collect >> after)
    whole = flow.run([100, 30], id="r")

    for length in range(2, len(whole.log()) + 1):  # the first event is the definition, the second the input
        restored = Run.from_log(whole.log()[:length]).react_until_satisfied()
        assert restored.output == ("after", [6, 7])
        assert len(restored.values("halve.turn")) == 6


def test_a_restored_loop_knows_how_many_turns_it_has_made() -> None:
    whole = Workflow("w", halving(until=lambda x: False, at_most=4)).run(1000)

    for length in range(2, len(whole.log()) + 1):
        restored = Run.from_log(whole.log()[:length]).react_until_satisfied()
        assert len(restored.values("halve.turn")) == 4
        assert isinstance(restored.failures["halve"].__cause__, LoopExhausted)


@pytest.mark.parametrize("done", range(10))
def test_a_reader_that_is_added_while_a_loop_turns_waits_for_its_end(done: int, finish: Finish) -> None:
    run = Workflow("w", halving(), after).plan(100)
    for _ in range(done):
        turning = [runnable for runnable in run.prepare() if runnable.component.startswith("halve")]
        for runnable in turning:
            run.apply(runnable.execute())

    run.add(step(lambda x, half=latest("halve"): half, name="reads"), to=after)

    assert finish(run).results() == {"halve": 6, "reads": 6}
    assert Run.from_log(run.log()) == run


def test_two_advances_of_a_loop_are_merged_into_one() -> None:
    flow = Workflow("w", halving() >> after)
    one = flow.plan(100, id="r").react().react()
    other = Run.from_log(one.log()).react_until_satisfied()
    one.react()

    one.merge(other)

    assert one.react_until_satisfied().output == ("after", 6)
    assert one.values("halve.turn") == [50, 25, 12, 6]


def test_the_bound_the_order_and_the_code_are_part_of_the_identity() -> None:
    a, b = step(lambda x: x + 1, name="a"), step(lambda x: x + 2, name="b")

    def made(body: Any = a, **options: Any) -> str:
        given: dict[str, Any] = {"until": lambda x: True, "at_most": 3, "name": "loop", **options}
        return Workflow("w", repeat(body, **given)).hash

    different = [
        made(),
        made(b),
        made(at_most=4),
        made(otherwise="last"),
        made(until=lambda x: False),
        made(a >> b),
        made(b >> a),
    ]

    assert made() == made()
    assert len(set(different)) == len(different)


# -- what it takes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        lambda: each(after),
        lambda: [after, after.named("other")],
        lambda: after >> condition(lambda x: True, name="c"),
        lambda: after >> [after.named("b"), after.named("c")],
        lambda: [after, after.named("b")] >> step(lambda x, y: x, name="c"),
        lambda: 5,
    ],
)
def test_a_body_that_is_not_a_chain_of_steps_and_has_no_name_is_refused(body: Callable[[], Any]) -> None:
    with pytest.raises(InvalidComponent):
        repeat(body(), until=lambda x: True, at_most=2)


def test_a_turn_takes_one_value() -> None:
    with pytest.raises(WrongArity, match=r"loop\.turn"):
        Workflow("w", repeat(lambda a, b: a, until=lambda x: True, at_most=2, name="loop"))
    with pytest.raises(WrongArity, match=r"loop\.until"):
        Workflow("w", repeat(lambda a: a, until=lambda x, y: True, at_most=2, name="loop"))
    with pytest.raises(InvalidJoin):
        Workflow("w", [after, after.named("b")] >> halving())


def test_the_type_of_what_arrives_is_checked() -> None:
    def shorten(text: str) -> str:
        return text[1:]

    def size(text: str) -> int:
        return len(text)

    loop = repeat(shorten, until=lambda text: not text, at_most=2)

    assert Workflow("w", loop).outputs == {"shorten": str}
    with pytest.raises(PortMismatch, match=r"'size' produces int, and 'shorten.turn' takes str"):
        Workflow("w", step(size) >> loop)


def test_a_loop_is_drawn_by_calling_it_and_turns_when_it_is_called_outside() -> None:
    flow = workflow(lambda x: after(halving()(x)), name="flow")

    assert flow == Workflow("flow", halving() >> after)
    assert halving()(100) == 6
    assert halving(at_most=1, otherwise="last")(100) == 50
    with pytest.raises(LoopExhausted):
        halving(at_most=1)(100)


def test_an_async_loop_is_not_called_directly() -> None:
    async def grow(x: int) -> int:
        return x

    with pytest.raises(NoRun, match="async def"):
        repeat(grow, until=lambda x: True, at_most=1)(1)


# -- beside policies, hooks and error routes -----------------------------------------------------


def test_a_failing_turn_and_an_exhausted_loop_go_to_the_error_route() -> None:
    told = step(lambda failure: (failure.component, failure.type.rpartition(".")[2], failure.input), name="told")
    fails = repeat(lambda x: x - 1 + 0 // (x - 2), until=lambda x: False, at_most=9, name="loop")
    never = halving(until=lambda x: False, at_most=2)

    broken = Workflow("w", fails.on_error(ZeroDivisionError, then=told) >> after).run(4)
    exhausted = Workflow("w", never.on_error(LoopExhausted, then=told) >> after).run(100)

    assert not broken.failed
    assert broken.results() == {"told": ("loop.turn", "ZeroDivisionError", 2)}
    assert not exhausted.failed
    assert exhausted.results() == {"told": ("halve", "LoopExhausted", 25)}
    assert Run.from_log(exhausted.log()).results() == exhausted.results()


def test_a_batch_goes_on_without_an_element_whose_loop_was_handled(finish: Finish) -> None:
    told = step(lambda failure: "told", name="told")
    loop = halving(at_most=3).on_error(LoopExhausted, then=told)
    run = finish(Workflow("w", each(loop) >> collect).plan([20, 10_000, 40]))

    assert run.value("collect") == [5, 5]


def test_a_turn_that_is_a_dead_letter_can_be_tried_again() -> None:
    broken = [True]

    def climb(x: int) -> int:
        if x == 2 and broken[0]:
            raise ConnectionError("down")
        return x + 1

    loop = repeat(climb, until=lambda x: False, at_most=4, otherwise="last", name="climb")
    flow = Workflow("w", loop >> after).add_policy("climb", Policy(on_failure="dead_letter"))
    run = flow.run(0)
    broken[0] = False

    [letter] = run.dead_letters
    run.retry(letter)
    run.react_until_satisfied()

    assert run.output == ("after", 4)


def test_hooks_of_the_steps_run_at_every_turn_and_a_loop_has_none_of_its_own() -> None:
    seen: list[Any] = []
    grow = step(lambda x: x + 1, name="grow").before(lambda now: seen.append(now.component))

    run = Workflow("w", repeat(grow, until=lambda x: x >= 2, at_most=5, name="loop")).run(0)

    assert run.output == 2
    assert seen == ["loop.turn", "loop.turn"]
    with pytest.raises(InvalidComponent, match="steps of its turn"):
        halving().after(lambda now, value: None)


def test_tags_of_the_steps_are_those_of_the_loop() -> None:
    grow = step(lambda x: x + 1, name="grow").tagged("effect")

    assert repeat(grow, until=lambda x: True, at_most=1).tags == ("effect",)

"""Loops over a graph: a turn is a scope, only the outcome goes on, and what was cut off goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from weft import (
    Policy,
    Run,
    Workflow,
    accumulator,
    condition,
    each,
    fact_count,
    join,
    latest,
    reduce,
    repeat,
    rule,
    state_of,
    step,
    workflow,
)
from weft.core.components.loop import Loop
from weft.errors import (
    DefinitionError,
    InvalidComponent,
    LoopExhausted,
    MixedRegions,
    MutualWait,
    NoRun,
    PortMismatch,
)
from weft.log import decode, encode

Finish = Callable[[Run], Run]


def increment(x: int) -> int:
    return x + 1


def twice(x: int) -> int:
    return x * 2


def added(x: int, y: int) -> int:
    return x + y


def is_large(x: int) -> bool:
    return x > 50


one, two, both = step(increment, name="one"), step(twice, name="two"), step(added, name="both")
after = step(lambda x: ("after", x), name="after")
collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")


def growing(body: Any = None, **options: Any) -> Loop:
    """Of 1 it makes 4, 13, 40 and 121."""
    given: dict[str, Any] = {"until": is_large, "at_most": 8, "name": "grow", **options}
    made = repeat(body or [one, two] >> both, **given)
    assert isinstance(made, Loop)
    return made


# -- turning -------------------------------------------------------------------------------------


def test_a_join_inside_a_loop_pairs_what_belongs_to_one_turn(finish: Finish) -> None:
    run = finish(Workflow("w", growing() >> after).plan(1))

    assert run.results() == {"after": ("after", 121)}
    assert run.values("grow") == [121]
    assert (run.values("grow.one"), run.values("grow.both")) == ([2, 5, 14, 41], [4, 13, 40, 121])


def test_every_turn_came_from_the_one_before() -> None:
    run = Workflow("w", growing()).run(1)

    first, second, *_ = run.facts("grow.both")
    assert first in [parent for side in second.parents for parent in side.parents]


def test_one_of_several_branches_can_end_a_turn(finish: Finish) -> None:
    is_even = condition(lambda n: n % 2 == 0, name="is_even")
    half = rule(when=is_even, then=lambda n: n // 2, name="half")
    more = rule(when=~is_even, then=lambda n: 3 * n + 1, name="more")
    loop = repeat(join(half, more, wait="any"), until=lambda n: n == 1, at_most=99, name="collatz")

    run = finish(Workflow("w", loop >> after).plan(6))

    assert run.output == ("after", 1)
    assert run.values("collatz.more") == [10, 16]


def test_a_map_inside_a_loop_is_closed_in_every_turn(finish: Finish) -> None:
    total = reduce(lambda acc, x: acc + x, init=0, name="total")
    body = step(lambda x: list(range(x)), name="below") >> each(one) >> total

    run = finish(Workflow("w", growing(body) >> after).plan(3))

    assert run.values("grow.total") == [6, 21, 231]
    assert run.output == ("after", 231)


def test_loops_nest_in_loops_and_maps(finish: Finish) -> None:
    inner = growing(until=lambda x: x > 10, name="inner")
    outer = repeat(inner >> step(lambda x: x - 5, name="less"), until=lambda x: x > 20, at_most=9, name="outer")

    run = finish(Workflow("w", each(outer) >> collect).plan([1, 2, 3]))

    assert run.output == [56, 47, 26]
    assert not run.memory.blocked


def test_a_turn_that_ends_more_than_once_goes_on_from_each_end(finish: Finish) -> None:
    end = step(lambda x: x, name="end")
    body = Workflow("fork", one >> end, two >> end)

    run = finish(Workflow("w", repeat(body, until=lambda x: x > 4, at_most=9) >> after).plan(2))

    assert sorted(value for _, value in run.values("after")) == [5, 5, 6, 8, 8]


def test_a_loop_that_gets_several_facts_turns_for_each_of_them() -> None:
    start = growing()

    run = Workflow("w", one.named("a") >> start, two.named("b") >> start).run(1)

    assert run.values("grow") == [67, 67]


def test_a_workflow_gives_a_loop_its_name_and_its_policies() -> None:
    calls: list[int] = []

    def unsteady(x: int) -> int:
        calls.append(x)
        if len(calls) % 2:
            raise ConnectionError
        return x + 30

    body = Workflow("climb", [step(unsteady), two] >> both).add_policy("unsteady", Policy(max_retries=1))

    run = Workflow("w", repeat(body, until=is_large, at_most=5)).run(1)

    assert run.value("climb") == 129
    assert calls == [1, 1, 33, 33]
    assert set(run.workflow.components) == {"climb", "climb.turn", "climb.unsteady", "climb.two", "climb.both"}


def test_a_state_inside_a_loop_is_kept_from_turn_to_turn() -> None:
    total = accumulator(lambda state, x: state + x, init=0, name="total")

    run = Workflow("w", growing([one, total] >> both, name="grow")).run(1)

    assert run.values("grow.total") == [1, 4, 12, 33]
    assert run.state_of("grow.total") == 33


# -- reading -------------------------------------------------------------------------------------


def test_a_reader_inside_a_loop_sees_the_same_turn_or_the_one_before() -> None:
    think = step(lambda x, last=latest("act", default=None): (x, last), name="think")
    act = step(lambda pair: pair[0] + 1, name="act")
    side = step(lambda pair, done=latest("act"): done, name="side")
    body = think >> [act, side] >> step(lambda x, _: x, name="end")

    run = Workflow("w", repeat(body, until=lambda x: x > 2, at_most=9, name="loop")).run(0)

    assert run.values("loop.think") == [(0, None), (1, 1), (2, 2)]
    assert run.values("loop.side") == [1, 2, 3]


def test_a_reader_outside_of_a_loop_waits_for_all_of_it(finish: Finish) -> None:
    last = step(lambda x, seen=latest("grow.one"), count=fact_count("grow.one"): (seen, count), name="last")

    run = finish(Workflow("w", growing(), last).plan(1))

    assert run.value("last") == (41, 4)


def test_a_count_inside_a_loop_is_that_before_the_input() -> None:
    counts = step(lambda x, n=fact_count("one"): n, name="counts")
    flow = Workflow("w", growing([one, counts] >> both, until=lambda x: x > 2))

    run = flow.run(1).run(1)

    assert run.values("grow.counts") == [0, 0, 2]


def test_a_loop_that_waits_for_what_waits_for_the_loop_is_refused() -> None:
    outside = accumulator(lambda state, x, seen=latest("grow.one"): seen, init=0, name="outside")
    reads = step(lambda x, seen=state_of("outside"): x, name="reads")

    with pytest.raises(MutualWait):
        Workflow("w", growing(one >> [two, reads] >> both), outside)


# -- ends ----------------------------------------------------------------------------------------


def test_a_loop_over_a_graph_that_never_ends_fails_or_gives_its_last_value() -> None:
    fails = Workflow("w", growing(at_most=2) >> after).run(1)
    gives = Workflow("w", growing(at_most=2, otherwise="last") >> after).run(1)

    assert isinstance(fails.failures["grow"].__cause__, LoopExhausted)
    assert fails.results() == {}
    assert gives.output == ("after", 13)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ([one, step(lambda x: 1 // (x - 4), name="bad")] >> both, "failed"),
        (condition(lambda x: x < 20, name="small") >> one >> two, "gated"),
    ],
)
def test_a_component_that_waits_hears_how_a_turn_ended_without_a_value(body: Any, reason: str, finish: Finish) -> None:
    told = step(lambda x, _: getattr(x, "reason", x), name="told")

    run = finish(Workflow("w", join(growing(body, until=lambda _: False), two, wait="all_done") >> told).plan(4))

    assert run.value("told") == reason


def test_a_skipped_step_of_a_turn_skips_the_loop() -> None:
    bad = step(lambda x: 1 // 0, name="bad")
    told = step(lambda x, _: getattr(x, "reason", x), name="told")
    flow = Workflow("w", join(growing([one, bad] >> both), two, wait="all_done") >> told)

    run = flow.add_policy("grow.bad", Policy(on_failure="skip")).run(1)

    assert run.value("told") == "skipped"


def test_what_fails_in_a_turn_goes_to_the_route_of_the_loop_unless_it_has_its_own() -> None:
    told = step(lambda failure: (failure.component, failure.type.rpartition(".")[2]), name="told")
    mends = step(lambda failure: 60, name="mends")
    bad = step(lambda x: 1 // (x - 13), name="bad")
    last = step(lambda x: x, name="end")

    breaks = Workflow("w", growing([one, bad] >> both).on_error(ArithmeticError, then=told) >> after).run(13)
    exhausts = Workflow("w", growing(at_most=1).on_error(LoopExhausted, then=told) >> after).run(1)
    body = Workflow("own", bad.on_error(ZeroDivisionError, then=mends >> last) >> last)
    mended = Workflow("w", repeat(body, until=is_large, at_most=3).on_error(then=told) >> after).run(13)

    assert (breaks.results(), breaks.failed) == ({"told": ("grow.bad", "ZeroDivisionError")}, False)
    assert exhausts.results() == {"told": ("grow", "LoopExhausted")}
    assert mended.results() == {"after": ("after", 60)}


def test_failures_of_loops_are_reduced_beside_each_other(finish: Finish) -> None:
    bad = step(lambda x: 1 // (x - 13), name="bad")
    told = step(lambda failure: failure.type, name="told")
    flow = each(growing([one, bad] >> both, until=lambda x: x > 4).on_error(then=told)) >> collect
    loop = growing([one, bad] >> both, until=lambda x: x > 4)

    run = finish(Workflow("w", told >> collect, flow).plan([1, 13, 20]))
    straight = finish(Workflow("w", each(loop), loop.on_error(then=collect)).plan([13, 13]))

    assert not run.failed
    assert sorted(map(str, run.value("collect"))) == ["21", "ZeroDivisionError", "weft.errors.LoopExhausted"]
    assert [failure.component for failure in straight.value("collect")] == ["grow.bad", "grow.bad"]


# -- the log -------------------------------------------------------------------------------------


def test_a_loop_over_a_graph_goes_on_after_any_event() -> None:
    flow = Workflow("w", each(growing()) >> collect >> after)
    whole = flow.run([1, 7], id="r")

    for length in range(2, len(whole.log()) + 1):
        restored = Run.from_log(whole.log()[:length]).react_until_satisfied()
        assert restored.output == whole.output
        assert sorted(restored.values("grow.both")) == sorted(whole.values("grow.both"))


@pytest.mark.parametrize("done", range(12))
def test_a_component_that_is_added_while_a_graph_turns_waits_for_its_end(done: int, finish: Finish) -> None:
    run = Workflow("w", growing(), after).plan(1)
    for _ in range(done):
        for runnable in [ready for ready in run.prepare() if ready.component.startswith("grow")][:1]:
            run.apply(runnable.execute())

    run.add(step(lambda x, grown=latest("grow"), n=fact_count("grow.one"): (grown, n), name="reads"), to=after)

    assert finish(run).value("reads") == (121, 4)
    assert Run.from_log(run.log()) == run


def test_a_loop_over_a_graph_is_written_down_and_read_again() -> None:
    flow = Workflow("outer", Workflow("w", growing() >> one.named("more")))
    run = flow.run(1)

    read = Workflow.from_dict(json.loads(json.dumps(flow.to_dict())))

    assert (read, read.version) == (flow, flow.version)
    assert read.run(1).output == 122
    assert Run.from_log(decode(encode(run.log()))) == run


def test_the_bound_and_the_body_are_part_of_the_identity() -> None:
    made = [
        Workflow("w", growing()).hash,
        Workflow("w", growing(at_most=9)).hash,
        Workflow("w", growing(otherwise="last")).hash,
        Workflow("w", growing([two, one] >> both)).hash,
        Workflow("w", growing(until=lambda x: False)).hash,
    ]

    assert Workflow("w", growing()).hash == made[0]
    assert len(set(made)) == len(made)


# -- what it takes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (lambda: one >> [two, both.named("b").bind(y=1)], "2 values"),
        (lambda: one >> condition(lambda x: True, name="c"), "makes no value"),
        (lambda: [one, step(lambda x: x, name="turn")] >> both, "'turn' or 'until'"),
        (lambda: [one, step(lambda x: x, name="until")] >> both, "'turn' or 'until'"),
    ],
)
def test_a_body_that_ends_in_no_value_is_refused(body: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidComponent, match=said):
        Workflow("w", growing(body()))


def test_a_loop_over_a_fragment_needs_a_name() -> None:
    with pytest.raises(InvalidComponent, match="name='draft'"):
        repeat([one, two] >> both, until=is_large, at_most=3)


def test_a_turn_that_ends_inside_an_each_is_refused() -> None:
    with pytest.raises(MixedRegions, match="close an each"):
        Workflow("w", growing(step(lambda x: [x], name="list") >> each(one)))


def test_the_ends_of_a_loop_are_neither_removed_nor_replaced() -> None:
    flow = Workflow("w", growing() >> after)

    for name in ("grow", "grow.turn"):
        with pytest.raises(DefinitionError, match="loop"):
            flow.remove(name)
        with pytest.raises(DefinitionError, match="loop"):
            flow.replace(name, one)


def test_the_types_of_a_turn_are_checked() -> None:
    def shout(text: str) -> str:
        return text.upper()

    def joined(one: str, other: str) -> str:
        return one + other

    with pytest.raises(PortMismatch, match=r"'grow.turn' produces str, and 'grow.one' takes int"):
        Workflow("w", step(shout) >> growing())
    with pytest.raises(PortMismatch, match=r"'grow.joined' produces str, and 'grow.until' takes int"):
        Workflow("w", growing([step(shout), step(shout, name="again")] >> step(joined)))
    assert Workflow("w", growing()).outputs == {"grow": int}


def test_a_loop_over_a_graph_is_drawn_by_calling_it() -> None:
    flow = workflow(lambda x: after(growing()(x)), name="flow")

    assert flow == Workflow("flow", growing() >> after)
    with pytest.raises(NoRun):
        growing()(1)
    with pytest.raises(InvalidComponent, match="cannot have hooks"):
        flow.components["grow"].before(lambda now: None)


def test_check_finds_nothing_wrong_with_a_loop_over_a_graph() -> None:
    total = reduce(lambda acc, x: acc + x, init=0, name="total")

    assert Workflow("w", growing() >> after).check() == []
    assert Workflow("w", growing(step(lambda x: [x], name="list") >> each(one) >> total)).check() == []


def test_a_thousand_turns_take_as_many_events() -> None:
    body = [one, step(lambda x: 0, name="zero")] >> both

    run = Workflow("w", growing(body, until=lambda x: x >= 1_000, at_most=1_000)).run(0)

    assert run.output == 1_000
    assert len(run.log()) == 2 + 1_000 * 4 + 1


def test_the_picture_has_a_frame_and_a_way_back() -> None:
    run = Workflow("w", growing() >> after).run(1)
    picture = run.picture()

    boxes = {box.id: box for box in picture.boxes}
    assert [(group.kind, group.label) for group in picture.groups] == [("loop", "grow")]
    assert {name for name, box in boxes.items() if box.group} == {
        "grow",
        "grow.turn",
        "grow.one",
        "grow.two",
        "grow.both",
    }
    assert (boxes["grow.one"].label, boxes["grow"].note) == ("one", "until is_large · at most 8 turns")
    assert [(edge.source, edge.target) for edge in picture.edges if edge.is_back] == [("grow", "grow.turn")]
    assert (boxes["grow.turn"].progress.done, boxes["grow"].progress.summary[:1]) == (4, "✓")  # type: ignore[union-attr]

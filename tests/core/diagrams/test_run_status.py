"""A picture of a run says how far each component is."""

from __future__ import annotations

from typing import Any

from sketches import batch, failed_run, live_run, one, two

from weft import (
    FSM,
    Policy,
    ProcessManager,
    Run,
    Runner,
    Workflow,
    condition,
    current,
    each,
    join,
    repeat,
    rule,
    sleep,
    state_machine,
    step,
    wait_for,
)
from weft.core.draw.progress import Progress
from weft.stores import MemoryStore
from weft.testing import VirtualClock


def progress(run: Run, name: str) -> Progress:
    [found] = [box.progress for box in run.picture().boxes if box.id == name]
    assert found is not None
    return found


def states(run: Run) -> dict[str, Any]:
    return {box.id: box.progress.state for box in run.picture().boxes if box.progress is not None}


def broken(x: int) -> int:
    raise ValueError("no price")


def test_before_the_first_input_nothing_is_reached() -> None:
    run = Run(Workflow("w", one("a") >> one("b")))

    assert states(run) == {"a": "unreached", "b": "unreached"}


def test_what_can_run_is_ready_and_what_has_run_is_done() -> None:
    run = Workflow("w", one("a") >> one("b") >> one("c")).react(1)

    assert states(run) == {"a": "done", "b": "ready", "c": "unreached"}


def test_what_was_handed_out_is_running() -> None:
    run = Workflow("w", one("a")).plan(1)

    run.record_dispatch(run.prepare()[0])

    assert states(run) == {"a": "running"}


def test_a_join_that_has_some_of_its_parents_waits() -> None:
    run = Workflow("w", [one("a"), one("b")] >> two("c")).plan(1)
    [first, _] = run.prepare()

    run.apply(first.execute())

    assert states(run) == {"a": "done", "b": "ready", "c": "waiting"}


def test_a_rule_waits_for_the_answer_of_a_condition() -> None:
    positive = condition(lambda x: x > 0, name="positive")

    run = Workflow("w", rule(when=positive, then=id, name="r")).plan(1)

    assert states(run) == {"positive": "ready", "r": "waiting"}


def test_what_runs_often_says_how_often() -> None:
    run = Workflow("w", one("a")).run(1)
    run.run(2)

    assert progress(run, "a").done == 2
    assert progress(run, "a").summary.startswith("✓ 2")


def test_a_condition_that_says_no_gates_a_rule() -> None:
    run = Workflow("w", rule(when=lambda x: x > 1, then=lambda x: x, name="large")).run(1)

    assert progress(run, "large").state == "gated"

    run.run(2)

    assert (progress(run, "large").state, progress(run, "large").done, progress(run, "large").refused) == ("done", 1, 1)


def test_a_failure_says_what_failed_and_how_often_it_was_tried() -> None:
    workflow = Workflow("w", step(broken) >> one("after")).add_policy("broken", Policy(max_retries=2))

    run = workflow.run(1, clock=VirtualClock())

    found = progress(run, "broken")
    assert (found.state, found.failed, found.attempts, found.error) == ("failed", 1, 3, "ValueError: no price")
    assert "×3" in found.summary
    assert progress(run, "after").state == "unreached"


def test_a_failure_that_is_kept_says_that_it_is_a_dead_letter() -> None:
    workflow = Workflow("w", step(broken)).add_policy("broken", Policy(on_failure="dead_letter"))
    run = workflow.run(1)
    run.run(2)

    assert progress(run, "broken").letters == 2
    assert progress(run, "broken").summary.startswith("✗ 2 failed · 2 dead letters")

    run.discard(run.dead_letters[0])

    assert progress(run, "broken").letters == 1
    assert all("· dead letter" in drawn for drawn in (run.to_svg(), run.to_mermaid(), run.to_dot()))
    assert [node["data"].get("dead_letters") for node in run.to_cytoscape()["nodes"]] == [None, 1]


def test_a_step_that_started_other_runs_says_how_many() -> None:
    child = Workflow("child", one("work"))
    ask = step(lambda count: [current().start_child(child, x).result() for x in range(count)], name="ask")

    with Runner(MemoryStore()) as runner:
        one_child, three = (runner.start(Workflow("parent", ask >> one("after")), count).wait() for count in (1, 3))

    assert (progress(one_child, "ask").children, progress(three, "ask").children) == (1, 3)
    assert progress(one_child, "ask").summary.startswith("✓ 1 child run")
    assert progress(three, "ask").summary.startswith("✓ 3 child runs")
    assert progress(three, "after").children == 0


def test_what_was_left_out_is_skipped() -> None:
    workflow = Workflow("w", step(broken)).add_policy("broken", Policy(on_failure="skip"))

    assert states(workflow.run(1)) == {"broken": "skipped"}


def test_a_map_says_how_many_of_its_elements_are_through() -> None:
    run = live_run()

    assert (progress(run, "map_1").done, progress(run, "map_1").of) == (0, 4)
    assert (progress(run, "price").done, progress(run, "price").of) == (2, 4)
    assert states(run) == {
        "lines": "done",
        "map_1": "running",
        "price": "ready",
        "rounded": "ready",
        "total": "waiting",
        "longest": "waiting",
    }


def test_a_map_of_which_all_elements_are_through_is_done() -> None:
    run = batch().run([1, 2, 3])

    assert (progress(run, "map_1").state, progress(run, "map_1").done, progress(run, "map_1").of) == ("done", 3, 3)


def test_a_reduce_whose_batch_failed_has_failed() -> None:
    run = failed_run()

    assert (progress(run, "price").done, progress(run, "price").failed, progress(run, "price").of) == (2, 1, 3)
    assert progress(run, "total").state == "failed"
    assert "BatchFailed" in progress(run, "total").error


def test_the_time_is_that_of_all_activations() -> None:
    run = failed_run()

    assert progress(run, "price").seconds == 0.009


def test_what_was_removed_from_a_run_is_not_shown() -> None:
    run = Workflow("w", one("a") >> one("b")).run(1)

    run.remove("b")

    assert states(run) == {"a": "done"}


def test_a_map_inside_a_map_counts_its_own_elements() -> None:
    inner = each(one("leaf"), name="inner")

    run = Workflow("w", each(inner, name="outer")).run([[1, 2], [3]])

    assert (progress(run, "outer").of, progress(run, "inner").of, progress(run, "leaf").of) == (2, 3, 3)


def test_what_runs_more_than_once_per_element_is_only_counted() -> None:
    often = one("often")
    body = [one("a") >> often, one("b") >> often]

    run = Workflow("w", each(body, name="all")).run([1, 2, 3])

    assert (progress(run, "a").done, progress(run, "a").of) == (3, 3)
    assert (progress(run, "often").done, progress(run, "often").of) == (6, None)


def gates() -> Workflow:
    large = condition(lambda x: x > 10, name="large")
    even = condition(lambda x: x % 2 == 0, name="even")
    both = rule(when=large & even, then=lambda x: x, name="both")
    neither = rule(when=~large & ~even, then=lambda x: x, name="neither")
    return Workflow("w", one("a") >> [both, neither], ~large >> one("small"), one("b") >> one("c"))


def test_a_rule_over_shared_conditions_is_gated_if_these_said_no() -> None:
    assert states(gates().run(12)) == {
        "a": "done",
        "b": "done",
        "c": "done",
        "large": "done",
        "even": "done",
        "both": "done",
        "neither": "gated",
        "~large": "gated",
        "small": "unreached",
    }


def test_a_combined_condition_that_lets_something_through_is_done() -> None:
    run = gates().run(3)
    run.run(12)

    assert (progress(run, "~large").done, progress(run, "~large").refused) == (1, 1)
    assert (progress(run, "neither").done, progress(run, "neither").refused) == (1, 1)


def test_a_condition_that_was_asked_about_something_else_gates_nothing() -> None:
    large = condition(lambda x: x > 10, name="large")
    never = condition(lambda x: False, name="never") >> one("b")
    elsewhere = rule(when=~large, then=lambda x: x, name="elsewhere")
    flow = Workflow("w", one("a") >> rule(when=large, then=lambda x: x, name="here"), never >> elsewhere)

    assert states(flow.run(12))["elsewhere"] == "unreached"


def test_a_rule_that_came_later_is_not_gated_by_what_was_said_before() -> None:
    large = condition(lambda x: x > 10, name="large")
    run = Workflow("w", rule(when=large, then=lambda x: x, name="first")).run(3)

    run.add(rule(when=large, then=lambda x: x, name="second"))

    assert states(run)["second"] == "unreached"


def test_rules_over_shared_conditions_are_gated_behind_joins_conditions_routes_and_in_loops() -> None:
    is_even, is_big = condition(lambda *x: sum(x) % 2 == 0, name="is_even"), condition(lambda *x: False, name="is_big")
    is_odd = condition(lambda failure: False, name="is_odd")
    same, twice = step(lambda x: x, name="same"), step(lambda x: 2 * x, name="twice")
    fails = step(lambda x: 1 // 0, name="fails")
    joined = rule(when=is_even & is_big, then=lambda x, y: x, name="joined")
    behind = rule(when=is_even & ~is_big, then=lambda x: x, name="behind")
    raced = rule(when=is_big | is_big, then=lambda x: x, name="raced")
    handles = rule(when=is_odd & is_odd, then=lambda failure: 0, name="handles")
    grows = rule(when=~is_big & ~is_even, then=lambda x: x + 2, name="grows")
    loop = repeat(Workflow("loop", grows), until=lambda x: x > 5, at_most=9)

    run = Workflow(
        "w",
        [same, twice] >> joined,
        is_even >> behind,
        join(same, twice, wait="any") >> raced,
        fails.on_error(then=handles),
        loop,
    ).run(3)

    assert {name: progress(run, name).state for name in ("joined", "raced", "handles", "loop.grows")} == {
        "joined": "gated",
        "raced": "gated",
        "handles": "gated",
        "loop.grows": "done",
    }
    assert (progress(run, "loop.grows").done, progress(run, "loop.grows").refused) == (2, 0)
    assert progress(run, "behind").state == "unreached"


def test_a_machine_shows_the_state_that_it_is_in() -> None:
    light = FSM("light", initial="red", states={"red": {"timer": "green"}, "green": {"timer": "red"}})
    counter = state_machine("counter", init=0, reducer=lambda state, _: state + 1)
    orders = ProcessManager("orders", init=0, key=lambda event: event)
    orders.on("timer")(lambda state, event: (state + 1, []))
    flow = Workflow("w", light, counter, orders)

    before, after = flow.plan(), flow.run("timer")

    assert (progress(before, "light").at, progress(before, "light").summary) == ("red", "in red")
    assert (progress(after, "light").at, progress(after, "counter").at) == ("green", "1")
    assert progress(after, "orders").at == ""
    assert all("in green" in drawn for drawn in (after.to_svg(), after.to_mermaid(), after.to_dot()))


def test_a_join_that_has_fired_does_not_wait_any_more() -> None:
    one, other = step(lambda x: x, name="one"), step(lambda x: x, name="other")
    both, last = step(lambda x, y: x, name="both"), step(lambda x: x, name="last")

    run = Workflow("w", [one, other] >> both >> last).plan(1).react().react()

    assert states(run) == {"one": "done", "other": "done", "both": "done", "last": "ready"}


def test_a_join_that_closes_late_waits_for_those_that_are_not_done() -> None:
    one, other, tidy = step(lambda x: x, name="one"), step(lambda x: x, name="other"), step(lambda x, y: x, name="tidy")
    run = Workflow("w", join(one, other, wait="all_done") >> tidy).plan(1)

    run.apply(run.prepare()[0].execute())

    assert states(run)["tidy"] == "waiting"


def test_what_waits_for_time_or_a_signal_is_waiting_until_that_comes() -> None:
    flow = Workflow("w", sleep(10, name="nap") >> one("a"), wait_for("approved", timeout=5), wait_for("paid"))
    run = flow.plan(1).fire_timers(100.0)

    before = states(run)
    run.signal("paid", 1).fire_timers(110.0)

    assert before == {"nap": "waiting", "a": "unreached", "approved": "waiting", "paid": "waiting"}
    assert states(run) == {"nap": "done", "a": "ready", "approved": "failed", "paid": "done"}
    assert "SignalTimeout" in progress(run, "approved").error


def test_elements_that_wait_are_counted() -> None:
    run = Workflow("w", each(wait_for("paid"))).react([1, 2, 3])

    run.signal("paid", 1)

    assert progress(run, "paid").summary == "… 1/3"
    assert progress(run, "map_1").summary.startswith("▶ 1/3")

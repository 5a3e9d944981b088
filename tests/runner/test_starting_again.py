"""Starting a run whose id exists, and who did what to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from failing_flows import Switch, halting, positive, switched
from small_flows import chain

from weft import Policy, Runner
from weft.core.events import (
    InputReceived,
    PolicyChanged,
    RunCancelled,
    RunFinished,
    RunnableRetried,
    RunnableSkipped,
)
from weft.errors import (
    NothingProduced,
    RunExists,
)
from weft.ports.store import LogStore

# -- starting what exists ------------------------------------------------------------------------


@pytest.mark.parametrize("is_done", [True, False], ids=["finished", "open"])
def test_the_same_start_is_the_same_run_whatever_the_options(runner: Runner, is_done: bool) -> None:
    runner.start(chain, {"a": 1}.get("a"), id="a", open=not is_done).wait(20)

    again = runner.start(chain, 1, id="a", open=not is_done, max_concurrency=3)

    assert again.result(20) == 3
    assert len([event for event in again.log() if isinstance(event, InputReceived)]) == 1


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (lambda runner: runner.start(chain, 2, id="a"), "exists already, with another input; choose another id"),
        (lambda runner: runner.start(positive, 1, id="a"), "as a run of 'chain', not of 'positive'"),
        (lambda runner: runner.start(chain, 1, id="a", open=True), "and finishes with its input"),
        (lambda runner: runner.start(chain, id="a"), "and was started with an input"),
        (
            lambda runner: runner.start(chain, 1, id="a", if_exists="error"),
            "choose another id, or say .* if_exists=$",
        ),
        (lambda runner: runner.start_many(chain, [3], ids=["a"]), "with another input"),
    ],
)
def test_another_start_with_a_known_id_is_refused_which_says_how_it_differs(
    runner: Runner, start: Callable[[Runner], object], said: str
) -> None:
    runner.start(chain, 1, id="a").wait(20)

    with pytest.raises(RunExists, match=said):
        start(runner)
    assert (runner.result("a", 20), runner.held) == (3, [])


def test_a_start_can_ask_for_whatever_run_has_the_id(runner: Runner) -> None:
    runner.start(chain, 1, id="a").wait(20)
    runner.start(chain, id="empty")

    assert runner.start(positive, 9, id="a", if_exists="return").result(20) == 3
    with pytest.raises(NothingProduced, match="it has had no input"):
        runner.start(chain, 9, id="empty", if_exists="return").result(20)
    assert runner.start(chain, 9, id="empty", if_exists="return").results() == {}


@pytest.mark.parametrize("checkpoint", ["every_cycle", "manual"])
@pytest.mark.parametrize("value", [1, 0], ids=["completed", "failed"])
def test_a_start_can_begin_again_what_has_finished(runner: Runner, value: int, checkpoint: str) -> None:
    old = runner.start(halting, value, id="a", checkpoint=checkpoint)
    old.wait(20)

    new = runner.start(halting, 5, id="a", if_exists="restart")

    assert (new.result(20), runner.result("a", 20), runner.find("a").failures) == (2.0, 2.0, 0)
    assert runner.start(halting, 2, id="b", if_exists="restart").result(20) == 5.0


def test_a_start_does_not_begin_again_what_has_not_finished(runner: Runner) -> None:
    runner.start(chain, 1, id="a", open=True).wait(20)

    with pytest.raises(RunExists, match=r"and has not finished; choose another id, or cancel\(.*\) it first$"):
        runner.start(chain, 1, id="a", if_exists="restart")
    assert runner.status("a") == "idle"


# -- who did it ----------------------------------------------------------------------------------


def test_every_change_says_who_made_it(store: LogStore) -> None:
    switch = Switch()
    with Runner(store) as runner:
        runner.start(switched(switch), id="a", by="ignored")
        runner.send("a", 1, by="ann").wait(20)
        runner.set_policies("a", [("fetch", Policy(on_failure="dead_letter"))], by="bob")
        runner.retry("a", by="cid").wait(20)
        runner.discard("a", by="dan").wait(20)
        runner.finish("a", by="eve")
        runner.start(chain, id="b").cancel(by="fay")
        runner.start(chain, 1, id="c", by="gus").wait(20)
        runner.start_many(chain, [1], ids=["d"], by="hal").gather(20)
        logs = [runner.log(run) for run in ("a", "b", "c", "d")]

    kinds = (InputReceived, PolicyChanged, RunnableRetried, RunnableSkipped, RunFinished, RunCancelled)
    found = [(type(event), event.by) for log in logs for event in log if isinstance(event, kinds)]
    assert found == [
        (InputReceived, "ann"),
        (PolicyChanged, "bob"),
        (RunnableRetried, "cid"),
        (RunnableSkipped, "dan"),
        (RunFinished, "eve"),
        (RunCancelled, "fay"),
        (InputReceived, "gus"),
        (InputReceived, "hal"),
    ]

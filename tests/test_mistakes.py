"""Ordinary mistakes in composing and running: each is reported where it was made, with what to do."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from weft import AsyncRunner, Run, Runner, Workflow, accumulator, context, join, sleep, state_machine, step, workflow
from weft.errors import (
    CyclicWorkflow,
    InvalidArgument,
    InvalidComponent,
    InvalidFragment,
    InvalidJoin,
    InvalidOption,
    InvalidPolicy,
    NothingProduced,
    NotPortable,
    RunnerClosed,
    RunNotFound,
    StepFailed,
    UnencodableValue,
    UnknownComponent,
    UnresolvedFunction,
    WaitTimeout,
)
from weft.log import decode, encode
from weft.policy.policy import Policy
from weft.stores.memory import MemoryStore


def increment(x: int) -> int:
    """Add one."""
    return x + 1


plain: Any = increment
"""A function, where a type checker would see the mistake."""
inc = step(increment, name="inc")
double = step(lambda x: x * 2, name="double")
small = Workflow("small", inc)
keyed = Workflow("keyed", step(lambda x, key=context("key"): (x, key), name="pair"))
wrong: Any = 5
wrong_id: Any = small
wrong_status: Any = ["done"]


# -- composing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("compose", [lambda: inc >> plain, lambda: plain >> inc, lambda: Workflow("w", plain)])
def test_a_function_beside_an_arrow_is_to_be_wrapped(compose: Callable[[], object]) -> None:
    with pytest.raises(InvalidFragment, match=r"wrap a function with step"):
        compose()


def test_a_step_that_was_called_beside_an_arrow_is_to_be_written_without_the_call() -> None:
    called: Any = step(increment)(1)
    with pytest.raises(InvalidFragment, match=r"got 2; if a step was called here, write it without the call"):
        Workflow("w", called >> step(increment))


def test_two_lists_are_joined_with_the_word_for_it() -> None:
    """Python refuses two lists by itself; this is what the documentation tells to write."""
    total = step(lambda x, y: x + y, name="total")
    apart = step(lambda x, y: x - y, name="apart")

    assert Workflow("w", join(inc, double) >> [total, apart]).run(5).results() == {"total": 16, "apart": -4}


def test_a_component_that_stands_twice_in_a_chain_is_named() -> None:
    with pytest.raises(
        CyclicWorkflow, match=r"'inc' appears twice in a chain of workflow 'w': inc -> double -> inc;"
    ) as e:
        Workflow("w", inc >> double >> inc)
    assert "inc.named('other')" in str(e.value)
    assert e.value.cycle == ("inc", "double")


def test_a_workflow_that_stands_twice_in_a_chain_is_to_be_renamed() -> None:
    with pytest.raises(CyclicWorkflow, match=r"'small' appears twice .* small\.renamed\('other'\)"):
        Workflow("w", small >> small)


def test_a_cycle_of_several_chains_is_a_cycle() -> None:
    with pytest.raises(CyclicWorkflow, match="has a cycle"):
        Workflow("w", inc >> double, double >> inc)


def test_a_component_that_stands_in_two_branches_is_none() -> None:
    third = step(lambda x: x, name="third")

    assert Workflow("w", [inc >> double, inc >> third]).edges() == {("inc", "double"), ("inc", "third")}


@pytest.mark.parametrize("reactors", [[increment], increment, 5])
def test_reactors_need_names(reactors: Any) -> None:
    with pytest.raises(InvalidComponent, match=r"reactors=.* of 'level': each has a name"):
        state_machine("level", init=0, reducer=lambda state, x: state + x, reactors=reactors)


def test_a_name_is_given_by_keyword() -> None:
    named: Any = "double"
    with pytest.raises(InvalidComponent, match="name='double'"):
        step(named)
    with pytest.raises(InvalidComponent, match="name is given by keyword"):
        workflow(named)


def test_what_workflow_draws_is_a_function() -> None:
    with pytest.raises(InvalidComponent, match=r"make a workflow of it: Workflow\('inc', ...\)"):
        workflow(inc)


def test_a_tag_is_text() -> None:
    with pytest.raises(InvalidComponent, match="a tag needs a name"):
        inc.tagged(wrong)


@pytest.mark.parametrize("other", [5, inc])
def test_a_workflow_is_merged_with_a_workflow(other: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"merge\(\) takes a workflow, got"):
        small.merge(other)


def test_a_policy_alone_is_not_a_list_of_rules() -> None:
    policies: Any = Policy(timeout=1)
    with pytest.raises(InvalidPolicy, match="policies are a list of rules"):
        small.with_policies(policies)


def test_what_is_not_a_workflow_says_how_to_run_it() -> None:
    flow: Any = inc >> double
    for fragment in (flow, inc):
        with pytest.raises(AttributeError, match=r"Workflow\('name', ...\)\.run"):
            fragment.run(1)
        assert not hasattr(fragment, "run")


def test_a_function_is_not_the_name_of_its_step() -> None:
    with pytest.raises(UnknownComponent, match=r"'increment' .* named by text, or given itself"):
        small.run(1).value(increment)


# -- running -------------------------------------------------------------------------------------


def test_an_outcome_is_what_is_applied() -> None:
    run = small.plan(1)
    [runnable] = run.prepare()

    for given in (5, runnable, runnable.execute().result, [runnable.execute()]):
        with pytest.raises(InvalidArgument, match=r"apply\(\) takes the outcome of a runnable, got"):
            run.apply(given)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


MISUSED: dict[str, Callable[[Run], object]] = {
    "merge": lambda run: run.merge(wrong),
    "lineage": lambda run: run.lineage(wrong),
    "hash_of": lambda run: run.hash_of(wrong),
    "feed_back": lambda run: run.feed_back(wrong),
    "record": lambda run: run.record(wrong),
    "runnable": lambda run: run.runnable(wrong),
    "from_log": Run.from_log,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "a run is of": lambda _: Run(inc),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "deadline": lambda run: run.plan(1, deadline="soon"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "id": lambda _: small.run(1, id=wrong),
}


@pytest.mark.parametrize("call", MISUSED)
def test_a_run_says_what_it_takes(call: str) -> None:
    with pytest.raises(InvalidArgument, match=call):
        MISUSED[call](small.run(1))


@pytest.mark.parametrize("given", [["key"], "key", 5])
def test_a_context_is_a_mapping(given: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"context=.*: use a mapping"):
        keyed.run(1, context=given)


@pytest.mark.parametrize("parallel", ["many", 0, 1.5])
def test_how_many_run_at_once_is_a_number(parallel: Any) -> None:
    with pytest.raises(ValueError, match=r"parallel=.*: use a number of at least 1"):
        small.run(1, parallel=parallel)


def test_a_part_of_a_component_has_results() -> None:
    level = state_machine(
        "level",
        init=0,
        reducer=lambda state, x: state + x,
        reactors={"high": (lambda state: state > 3, lambda state: f"high: {state}")},
    )
    run = Workflow("tank", level).run(2)

    assert run.results("level.high") == {"level.high": None}
    assert run.run(2).run(1).results("level", "level.high") == {"level": 5, "level.high": "high: 5"}
    assert run.results("level.high", all=True) == {"level.high": ["high: 4", "high: 5"]}


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_hook_is_a_function(where: str) -> None:
    with pytest.raises(InvalidComponent, match="expected a function, got 5"):
        small.with_hooks("inc", **{where: wrong})


# -- runners -------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [5, "redis:runs", MemoryStore])
def test_a_store_is_one(store: Any) -> None:
    with pytest.raises(InvalidOption, match=r"Runner\(.*: use the path of a file"):
        AsyncRunner(store)


@pytest.mark.parametrize(
    ("given", "hint"),
    [(inc, r"Workflow\('inc', ...\)"), (inc >> double, "make one of it"), (increment, "step of"), ("small", "name")],
)
def test_what_is_started_is_a_workflow(given: Any, hint: str) -> None:
    with Runner() as runner:
        with pytest.raises(InvalidArgument, match=rf"start\(\) takes a workflow, got .*{hint}"):
            runner.start(given, 1)
        with pytest.raises(InvalidArgument, match=rf"start_many\(\) takes a workflow, got .*{hint}"):
            runner.start_many(given, [1])


def test_a_runner_refuses_a_context_that_is_not_a_mapping() -> None:
    keys: Any = ["key"]
    with pytest.raises(InvalidOption, match=r"context=.*: use a mapping"):
        AsyncRunner(context=keys)
    with Runner() as runner, pytest.raises(InvalidOption, match=r"context=.*: use a mapping"):
        runner.start(keyed, 1, context=keys)


def test_a_callback_is_a_function() -> None:
    with Runner() as runner, pytest.raises(InvalidOption, match="on_complete=5: use a function"):
        runner.start(small, 1, on_complete=wrong)


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ({"hooks": {"on_idle": print}}, r"hooks=.*: use WorkerHooks\(on_idle=...,"),
        ({"on_complete": print, "on_complete_args": "abc"}, "on_complete_args='abc': use a tuple"),
        ({"on_complete_args": (1,)}, "give on_complete= too"),
    ],
)
def test_what_a_run_is_to_call_can_be_called(option: dict[str, Any], hint: str) -> None:
    """Otherwise its worker crashes again and again, or the callback is never called."""
    with Runner() as runner:
        for start in (runner.start, runner.start_many):
            with pytest.raises(InvalidOption, match=hint):
                start(small, [1], **option)
        assert runner.count() == 0


@pytest.mark.parametrize("grace", ["5", -1, float("nan")])
def test_a_grace_time_is_a_number_of_seconds(grace: Any) -> None:
    with pytest.raises(InvalidOption, match=r"grace=.*: use a number of seconds"):
        Runner(grace=grace)
    with Runner() as runner:
        runner.start(small, id="a")
        for end in (runner.close, lambda grace: runner.stop("a", grace=grace)):
            with pytest.raises(InvalidOption, match=r"grace=.*: use a number of seconds"):
                end(grace=grace)
        assert runner.send("a", 1).result(20) == 2


def test_a_runner_that_was_closed_says_so() -> None:
    """It cannot be opened again, so the error must not say to open it."""
    with pytest.raises(RunnerClosed, match=r"is not open; use `with Runner"):
        Runner().start(small, 1)
    with Runner() as runner:
        pass
    with pytest.raises(RunnerClosed, match="was closed and stays closed; create a new one"):
        runner.start(small, 1)


def test_a_runner_that_was_not_opened_says_how_to_open_it() -> None:
    """With `async with` if it is an asynchronous one."""
    with pytest.raises(RunnerClosed, match=r"use `with Runner\("):
        Runner().start(small, 1)
    with pytest.raises(RunnerClosed, match=r"use `async with AsyncRunner\("):
        asyncio.run(started_unopened())


async def started_unopened() -> None:
    """Start a run in a runner that nothing has opened."""
    await AsyncRunner().start(small, 1)


def test_a_handle_is_not_an_id() -> None:
    with Runner() as runner:
        handle: Any = runner.start(small, id="a")
        with pytest.raises(RunNotFound, match=r"pass handle\.id"):
            runner.find(handle)


@pytest.mark.parametrize("timeout", ["1", True, float("nan")])
@pytest.mark.parametrize(
    "call",
    [
        lambda runner, timeout: runner.wait("a", timeout),
        lambda runner, timeout: runner.result("a", timeout),
        lambda runner, timeout: runner.wait_until("a", lambda run: True, timeout),
        lambda runner, timeout: runner.gather(["a"], timeout),
    ],
    ids=["wait", "result", "wait_until", "gather"],
)
def test_a_timeout_is_a_number_of_seconds(call: Callable[[Runner, Any], object], timeout: Any) -> None:
    with Runner() as runner:
        runner.start(small, 1, id="a").wait(20)
        with pytest.raises(InvalidOption, match=r"timeout=.*: use a number of seconds"):
            call(runner, timeout)


def test_several_runs_are_started_and_waited_for_by_a_list() -> None:
    not_a_list: Any = 5
    with Runner() as runner:
        with pytest.raises(InvalidArgument, match=r"start_many\(\) takes a list of inputs, got 5"):
            runner.start_many(small, not_a_list)
        with pytest.raises(InvalidOption, match="use a list of ids or handles"):
            runner.gather(not_a_list)


def test_a_predicate_is_a_function() -> None:
    not_a_function: Any = 5
    with Runner() as runner:
        runner.start(small, id="a")
        with pytest.raises(InvalidArgument, match=r"wait_until\(\) takes a function of the run, got 5"):
            runner.wait_until("a", not_a_function)


def test_a_mode_of_policies_is_refused_without_policies_too() -> None:
    mode: Any = "instead"
    with Runner() as runner:
        for start in (runner.start, lambda workflow, value, **how: runner.start_many(workflow, [value], **how)):
            with pytest.raises(InvalidPolicy, match="policies_mode='instead'"):
                start(small, 1, policies_mode=mode)


def test_a_mode_is_called_what_the_call_calls_it() -> None:
    mode: Any = "instead"
    with Runner() as runner:
        runner.start(small, id="a")
        for call in (runner.set_policies, runner.preview):
            with pytest.raises(InvalidPolicy, match=r"^mode='instead': use"):
                call("a", [], mode=mode)


def test_the_result_of_a_run_without_input_is_asked_in_vain() -> None:
    with Runner() as runner:
        runner.start(small, id="a")
        with pytest.raises(NothingProduced, match=r"^the run has produced nothing: it has had no input"):
            runner.result("a")


def test_a_long_wait_is_said_in_words() -> None:
    with Runner() as runner:
        handle = runner.start(Workflow("w", sleep(days=2) >> inc), 1)
        with pytest.raises(WaitTimeout, match=r"'sleep_1' sleeps, (2 d|1 d 23 h) more"):
            handle.result(0.01)


def test_a_store_that_lacks_something_is_told_what() -> None:
    class Whole:
        async def open(self) -> None: ...
        async def close(self) -> None: ...
        async def save(self, record: Any, body: bytes) -> None: ...
        async def load(self, run: str) -> Any: ...

    incomplete: Any = Whole()
    with pytest.raises(InvalidOption, match="it has no is_open, and a store needs open, close, is_open, save, load"):
        Runner(incomplete)


def test_several_runs_can_be_required_to_be_portable() -> None:
    with Runner() as runner:
        with pytest.raises(NotPortable):
            runner.start_many(Workflow("w", step(lambda x: x, name="local")), [1, 2], portable=True)
        assert runner.count() == 0


def test_an_input_that_is_not_data_is_called_the_input() -> None:
    with Runner() as runner, pytest.raises(UnencodableValue, match="the input cannot be written: a lock at value"):
        runner.start(small, threading.Lock())


def test_waiting_for_an_idle_run_that_no_process_drives_says_what_to_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Runner(tmp_path / "runs.db") as runner:
        runner.start(small, id="a")

    with Runner(tmp_path / "runs.db") as runner:
        sent = runner.send("a", 1)
        for _ in range(2):
            with pytest.raises(
                WaitTimeout, match=r"is still idle after 0.1 s: no process drives it, and resume\('a'\)"
            ):
                sent.result(0.1)
        assert [said for said in caplog.messages if "no process drives it" in said] == [
            "run 'a' is idle and no process drives it, so waiting for it may take for ever; resume('a') it"
        ]
        runner.resume("a", workflow=small)
        sent.result(20)


failing = Workflow("failing", step(lambda x: 1 // x, name="share")).add_policy(
    "share", Policy(on_failure="dead_letter")
)


@pytest.mark.parametrize("by", [5, b"ann", "\ud800"])
@pytest.mark.parametrize(
    "call",
    [
        lambda runner, by: runner.start(small, 1, id="b", by=by),
        lambda runner, by: runner.start_many(small, [1], ids=["b"], by=by),
        lambda runner, by: runner.send("a", 1, by=by),
        lambda runner, by: runner.finish("a", by=by),
        lambda runner, by: runner.cancel("a", by=by),
        lambda runner, by: runner.cancel("a", by),
        lambda runner, by: runner.set_policies("a", [], by=by),
        lambda runner, by: runner.add("a", double, by=by),
        lambda runner, by: runner.remove("a", "share", by=by),
        lambda runner, by: runner.retry("a", by=by),
        lambda runner, by: runner.discard("a", by=by),
        lambda runner, by: runner.retry("failed", by=by),
    ],
)
def test_a_caller_names_itself_with_text(call: Callable[[Runner, Any], object], by: Any) -> None:
    """Something else, such as the number of a user, would be written to a log that could not be read any more."""
    with Runner() as runner:
        runner.start(failing, 0, id="a", open=True).wait(20)
        runner.start(failing, 0, id="failed").wait(20)
        before = runner.log("a"), runner.log("failed"), runner.held
        with pytest.raises(InvalidArgument, match=r"(by|reason)=.*: use text"):
            call(runner, by)
        assert (runner.log("a"), runner.log("failed"), runner.held) == before
        with pytest.raises(RunNotFound):
            runner.find("b")


@pytest.mark.parametrize("option", [{"by": 5}, {"key": 5}])
def test_what_is_said_with_an_input_can_be_read_again(option: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="=5: use text"):
        Run(small).plan(1, **option)


LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["memory:", "runs.db"])
def lately(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runner]:
    """A runner whose store, in memory or on a file, has one run that has just completed."""
    where = request.param if request.param == "memory:" else tmp_path / request.param
    with Runner(where) as runner:
        runner.start(small, 1, id="a").wait(20)
        yield runner


def test_a_time_can_be_a_datetime(lately: Runner) -> None:
    """SQLite would take any date for later than every number, and purge what was written a moment ago."""
    assert lately.purge(before=LONG_AGO) == 0
    assert lately.count(since=LONG_AGO) == len(lately.runs(since=LONG_AGO)) == 1
    soon = datetime.now(timezone(timedelta(hours=5))) + timedelta(days=1)
    assert lately.count(since=soon) == len(lately.runs(since=soon)) == 0
    assert lately.purge(before=soon) == 1


@pytest.mark.parametrize("moment", [datetime(2001, 1, 1), "2001-01-01", True, float("nan")])  # noqa: DTZ001
def test_a_time_is_a_number_or_has_a_time_zone(lately: Runner, moment: Any) -> None:
    for ask in (lately.runs, lately.count):
        with pytest.raises(InvalidOption, match=r"since=.*: use "):
            ask(since=moment)
    with pytest.raises(InvalidOption, match=r"before=.*: use "):
        lately.purge(before=moment)
    assert lately.count() == 1


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ({"workflow": small}, "use the name of a workflow"),
        ({"failed": "yes"}, "use True or False"),
        ({"after": "a"}, "use the last record of the page before"),
        ({"limit": "a"}, "use a whole number"),
        ({"limit": -1}, "use a whole number"),
    ],
)
def test_runs_are_listed_by_what_they_can_be_chosen_by(lately: Runner, asked: dict[str, Any], hint: str) -> None:
    with pytest.raises(InvalidOption, match=hint):
        lately.runs(**asked)


def test_runs_are_purged_by_one_status_or_several(lately: Runner) -> None:
    lately.start(small, id="b").finish()
    assert lately.purge(before=time.time() + 60, statuses="failed") == 0
    with pytest.raises(InvalidOption, match="status='done': use"):
        lately.purge(before=0, statuses=wrong_status)
    with pytest.raises(InvalidOption, match="use a whole number"):
        lately.purge(before=0, limit=-1)
    assert lately.purge(before=time.time() + 60, statuses="completed") == 2


def test_something_else_than_an_id_is_not_found(lately: Runner) -> None:
    """A file is not damaged because it cannot look for something that is not text."""
    for ask in (lately.get, lately.find, lately.status, lately.result, lately.wait, lately.resume, lately.delete):
        with pytest.raises(RunNotFound, match=r"an id is text: pass handle\.id"):
            ask(wrong_id)


# -- stored definitions --------------------------------------------------------------------------


def test_a_function_that_is_missing_in_memory_is_asked_of_the_call_that_read_it() -> None:
    """Not of ``resume``, which has nothing to do with it."""
    made = Workflow("w", step(lambda x: x, name="local"))

    for read in (Workflow.from_dict(made.to_dict()), Run.from_log(decode(encode(made.run(1).log()))).workflow):
        with pytest.raises(StepFailed) as failed:
            read.run(1, raise_on_failure=True)
        cause = failed.value.__cause__
        assert isinstance(cause, UnresolvedFunction)
        assert "Workflow.from_dict(data, workflow=the_workflow)" in str(cause)
        assert "decode(data, workflow=the_workflow)" in str(cause)
        assert "resume(" not in str(cause)


class Odd:
    """Not data."""


def test_messages_have_the_right_article() -> None:
    total = accumulator(lambda state, x: state + x, init=0, name="total")
    with pytest.raises(InvalidJoin, match="'total' is an accumulator and takes no join"):
        Workflow("sum", [inc, inc.named("other")] >> total)
    with pytest.raises(UnencodableValue, match="an Odd at"):
        encode(Run(small).run(Odd()).log())

"""Chains that go out together: nothing but the number of hand-overs tells them from chains that do not."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft import AsyncRunner, Policy, Run, Runner, Workflow, condition, current, each, reduce, step, telemetry
from weft.core.events import ReactionOccurred, RunnableFailed
from weft.errors import InvalidOption
from weft.policy import Value
from weft.runner import WorkerHooks, every_cycle, every_n, manual, on_complete, pipelined
from weft.runner.execution import chains
from weft.runner.execution.chains import most_links
from weft.schedulers import ChainBatching, Default

BATCHES = ("weft.runner.batch.start", "weft.runner.batch.stop")


@pytest.fixture(scope="module", autouse=True)
def patient() -> Iterator[None]:
    """Let a chain go on however long it takes, so that nothing here depends on how busy the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "MOMENT_NS", 600 * 10**9)
        yield


@pytest.fixture
def batches() -> Iterator[list[tuple[str, int]]]:
    """Return a list of the batches that begin and end, with their sizes."""
    seen: list[tuple[str, int]] = []

    def note(event: str, measured: dict[str, Any], _: dict[str, Any]) -> None:
        seen.append((event.rpartition(".")[2], measured["runnables"]))

    telemetry.attach("batches", BATCHES, note)
    yield seen
    telemetry.detach("batches")


def chain(*functions: Callable[[Any], Any]) -> Workflow:
    """Return a workflow of steps ``s0``, ``s1``, … of these functions."""
    flow: Any = step(functions[0], name="s0")
    for number, function in enumerate(functions[1:], start=1):
        flow = flow >> step(function, name=f"s{number}")
    return Workflow("chain", flow)


def add_one(x: int) -> int:
    return x + 1


def told(run: Run) -> list[tuple[Any, ...]]:
    """Return what the log says of what ran: all of it but times."""
    return [
        (event.seq, event.component, event.inputs, event.attempt, event.value)
        if isinstance(event, ReactionOccurred)
        else (event.seq, event.component, event.inputs, event.error.type, event.error.message)
        for event in run.log()
        if isinstance(event, ReactionOccurred | RunnableFailed)
    ]


class Blocked:
    """A step that waits until it is let go; it says when it has begun."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, x: Any) -> Any:
        self.begun.set()
        assert self.go_on.wait(60)
        return x


@pytest.fixture
def blocked() -> Iterator[Blocked]:
    gate = Blocked()
    yield gate
    gate.go_on.set()


# -- what may go out together --------------------------------------------------------------------


@given(
    depth=st.integers(1, 100),
    unacknowledged=st.integers(0, 100),
    units=st.integers(0, 100),
    in_flight=st.integers(1, 16),
)
def test_no_more_is_at_risk_than_the_strategy_allows(
    depth: int, unacknowledged: int, units: int, in_flight: int
) -> None:
    def most(strategy: Any, *, is_volatile: bool = False) -> int | None:
        return most_links(
            strategy, is_volatile=is_volatile, unacknowledged=unacknowledged, units=units, in_flight=in_flight
        )

    assert most(every_cycle) == 1
    assert most(every_cycle, is_volatile=True) is most(on_complete) is most(manual) is None

    ahead, counted = most(pipelined(depth)), most(every_n(depth))
    assert ahead is not None
    assert counted is not None
    # The last link of each chain depends on what was there before, and on the links before it.
    assert ahead == 1 or unacknowledged + in_flight * (ahead - 1) <= depth
    assert counted == 1 or units + in_flight * counted <= depth


@pytest.mark.parametrize(
    ("checkpoint", "expected"),
    [
        (every_cycle, []),
        (on_complete, [12]),
        (manual, [12]),
        (every_n(12), [12]),
        (every_n(1), []),
    ],
    ids=str,
)
def test_on_a_durable_store_the_strategy_says_how_much_goes_out_together(
    batches: list[tuple[str, int]], tmp_path: Path, checkpoint: Any, expected: list[int]
) -> None:
    with Runner(tmp_path / "runs.db", scheduler=ChainBatching(), checkpoint=checkpoint) as runner:
        assert runner.start(chain(*[add_one] * 12), 0).result(timeout=60) == 12

    assert [size for event, size in batches if event == "start"] == expected


def test_a_batch_is_never_larger_than_what_may_run_again(batches: list[tuple[str, int]], tmp_path: Path) -> None:
    with Runner(tmp_path / "runs.db", scheduler=ChainBatching(), checkpoint=every_n(5)) as runner:
        assert runner.start(chain(*[add_one] * 20), 0).result(timeout=60) == 20

    sizes = [size for event, size in batches if event == "start"]
    assert sizes[0] == 5
    assert max(sizes) == 5


def test_a_pipelined_run_is_never_further_ahead_than_its_depth(batches: list[tuple[str, int]], tmp_path: Path) -> None:
    with Runner(tmp_path / "runs.db", scheduler=ChainBatching(), checkpoint=pipelined(4)) as runner:
        assert runner.start(chain(*[add_one] * 20), 0).result(timeout=60) == 20

    sizes = [size for event, size in batches if event == "start"]
    assert sizes
    assert max(sizes) <= 5


def test_in_memory_a_chain_is_one_hand_over(batches: list[tuple[str, int]]) -> None:
    with Runner(scheduler=ChainBatching()) as runner:
        assert runner.start(chain(*[add_one] * 10), 0).result(timeout=60) == 10

    assert batches == [("start", 10), ("stop", 10)]


@pytest.mark.parametrize(
    "options",
    [
        {"executor": "inline"},
        {"check_arguments": True},
        {"scheduler": Default()},
        {"scheduler": None},
    ],
    ids=str,
)
def test_these_runners_hand_over_one_by_one(batches: list[tuple[str, int]], options: dict[str, Any]) -> None:
    with Runner(**{"scheduler": ChainBatching(), **options}) as runner:
        assert runner.start(chain(*[add_one] * 5), 0).result(timeout=60) == 5

    assert batches == []


@pytest.mark.parametrize(
    "options",
    [{"policies": [("s1", Policy(max_retries=1))]}, {"deadline": 60.0}, {"hooks": WorkerHooks()}],
    ids=["a policy", "a deadline", "hooks"],
)
def test_these_runs_hand_over_one_by_one(batches: list[tuple[str, int]], options: dict[str, Any]) -> None:
    with Runner(scheduler=ChainBatching()) as runner:
        assert runner.start(chain(*[add_one] * 5), 0, **options).result(timeout=60) == 5

    assert batches == []


def test_attempts_that_are_observed_are_handed_over_one_by_one(batches: list[tuple[str, int]]) -> None:
    seen: list[str] = []
    telemetry.attach("attempts", "weft.runner.runnable.stop", lambda _, __, about: seen.append(about["component"]))
    try:
        with Runner(scheduler=ChainBatching()) as runner:
            assert runner.start(chain(*[add_one] * 5), 0).result(timeout=60) == 5
    finally:
        telemetry.detach("attempts")

    assert (seen, batches) == (["s0", "s1", "s2", "s3", "s4"], [])


# -- the same run --------------------------------------------------------------------------------


def fail(x: Any) -> Any:
    raise ValueError(f"no {x!r:.20}")


def items(x: Any) -> Iterator[Any]:
    yield x
    yield "more"


FUNCTIONS: list[Callable[[Any], Any]] = [
    str,
    lambda x: [x, {"of": x}],
    lambda _: None,
    lambda _: "long" * 30_000,
    lambda _: list(range(20_000)),
    lambda _: object(),
    items,
    fail,
    lambda x: (x, current().idempotency_key, current().runnable_id, len(current().inputs)),
]
"""Values that are short, nested, large, unencodable or read once, failures, and what a function reads of itself."""


@settings(deadline=None, max_examples=60)
@given(
    functions=st.lists(st.sampled_from(FUNCTIONS), min_size=2, max_size=8),
    longest=st.integers(1, 8),
    checkpoint=st.sampled_from([every_cycle, on_complete, every_n(3), pipelined(3)]),
)
def test_a_run_has_the_same_events_as_without_a_scheduler(
    functions: list[Callable[[Any], Any]], longest: int, checkpoint: Any
) -> None:
    flow = chain(*functions)

    def logged(scheduler: Any) -> tuple[list[tuple[Any, ...]], str]:
        with Runner(scheduler=scheduler, checkpoint=checkpoint, threads=2) as runner:
            run = runner.start(flow, "x", id="it").wait(timeout=60)
            return told(run), run.status

    assert logged(ChainBatching(longest)) == logged(None)


@pytest.mark.parametrize("answer", [0, -7, 1, 2, 3, 10**9, True, "3", None, 2.9])
def test_no_answer_drops_a_component_or_runs_it_twice(answer: Any) -> None:
    class Odd:
        def group(self, components: Sequence[str]) -> int:
            assert len(components) >= 2
            return answer

    ran: list[int] = []
    functions = [lambda x, n=n: ran.append(n) or x for n in range(6)]

    with Runner(scheduler=Odd()) as runner:
        assert runner.start(chain(*functions), "x").result(timeout=60) == "x"

    assert ran == [0, 1, 2, 3, 4, 5]


def test_a_scheduler_that_raises_is_logged_once_and_runnables_go_out_one_by_one(
    batches: list[tuple[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    class Failing:
        def group(self, components: Sequence[str]) -> int:
            raise LookupError(components[0])

    with Runner(scheduler=Failing()) as runner:
        assert runner.start(chain(*[add_one] * 4), 0).result(timeout=60) == 4

    assert batches == []
    assert [record.name for record in caplog.records].count("weft.runner") == 1


@pytest.mark.parametrize("scheduler", [5, "chain", ChainBatching, object()])
def test_something_else_is_refused(scheduler: Any) -> None:
    with pytest.raises(InvalidOption, match="scheduler="):
        Runner(scheduler=scheduler)


def test_no_link_sees_the_context_variables_of_another(batches: list[tuple[str, int]]) -> None:
    mark: ContextVar[str] = ContextVar("mark", default="none")

    def look(seen: list[str]) -> list[str]:
        found = mark.get()
        mark.set("set by a link")
        return [*seen, found]

    with Runner(scheduler=ChainBatching()) as runner:
        assert runner.start(chain(look, look, look), []).result(timeout=60) == ["none"] * 3

    assert batches[0] == ("start", 3)


def test_an_error_route_takes_the_failure_of_a_link() -> None:
    rescue = step(lambda failure: (failure.component, failure.message, failure.input), name="rescue")
    bad = step(fail, name="bad")
    flow = Workflow("w", step(add_one, name="a") >> bad.on_error(ValueError, then=rescue))

    with Runner(scheduler=ChainBatching()) as runner:
        run = runner.start(flow, 1).wait(timeout=60)

    assert (run.status, run.value("rescue")) == ("completed", ("bad", "no 2", 2))


def test_what_comes_after_a_chain_runs_as_always(batches: list[tuple[str, int]]) -> None:
    one, two = step(add_one, name="one"), step(add_one, name="two")
    left, right = step(lambda x: x * 10, name="left"), condition(lambda x: x > 1, name="right")
    both = step(lambda x, y: x + y, name="both")
    flow = Workflow("w", one >> two, two >> left, two >> right, [left, right] >> both)

    with Runner(scheduler=ChainBatching()) as runner:
        assert runner.start(flow, 0).result(timeout=60) == 22

    assert batches[0] == ("start", 2)


def test_the_chains_of_elements_go_out_together(batches: list[tuple[str, int]]) -> None:
    body = step(add_one, name="a") >> step(add_one, name="b") >> step(add_one, name="c")
    flow = Workflow("w", each(body) >> reduce(lambda total, x: total + x, init=0, name="total"))

    with Runner(scheduler=ChainBatching()) as runner:
        assert runner.start(flow, range(20)).result(timeout=60) == 250

    assert [size for event, size in batches if event == "start"].count(3) == 20


def test_many_runs_of_several_inputs_are_all_right() -> None:
    flow = chain(*[add_one] * 9)

    with Runner(scheduler=ChainBatching(), checkpoint="on_complete", max_concurrency=2) as runner:
        handles = runner.start_many(flow, range(50), open=True)
        more = [handle.send(100 + number) for number, handle in enumerate(handles)]

        assert handles.gather(timeout=60) == [number + 9 for number in range(50)]
        assert [handle.result(timeout=60) for handle in more] == [109 + number for number in range(50)]


# -- what comes up while a link runs ---------------------------------------------------------------------


def test_what_has_ended_is_seen_although_a_later_link_still_runs(blocked: Blocked) -> None:
    with Runner(scheduler=ChainBatching()) as runner:
        handle = runner.start(chain(add_one, add_one, blocked, add_one), 0)
        assert blocked.begun.wait(60)

        seen = runner.wait_until(handle, lambda run: run.values("s1") == [2], timeout=60)

        assert seen.values("s2") == []
        blocked.go_on.set()
        assert handle.result(timeout=60) == 3


def test_a_cancelled_run_keeps_what_has_ended_and_starts_no_further_link(blocked: Blocked) -> None:
    ran: list[str] = []
    flow = chain(add_one, add_one, blocked, lambda x: ran.append("later") or x)
    left: list[threading.Thread] = []

    with Runner(scheduler=ChainBatching()) as runner:
        handle = runner.start(flow, 0)
        assert blocked.begun.wait(60)
        left = [thread for thread in threading.enumerate() if thread.name.startswith("weft-worker")]
        handle.cancel("enough")
        run = runner.get(handle)
        blocked.go_on.set()

    assert (run.status, run.values("s1"), run.values("s2")) == ("cancelled", [2], [])
    for thread in left:
        thread.join(60)
    assert ran == []


def test_a_stopped_run_keeps_what_has_ended_and_resumes_with_the_rest(tmp_path: Path, blocked: Blocked) -> None:
    ran: Counter[str] = Counter()

    def count(name: str, then: Callable[[Any], Any] = add_one) -> Callable[[Any], Any]:
        def counted(x: Any) -> Any:
            ran[name] += 1
            return then(x)

        return counted

    flow = chain(count("s0"), count("s1"), count("s2", blocked), count("s3"))

    with Runner(tmp_path / "runs.db", scheduler=ChainBatching(), checkpoint="on_complete") as runner:
        runner.register(flow)
        handle = runner.start(flow, 0, id="it")
        assert blocked.begun.wait(60)
        stop = threading.Thread(target=runner.stop, args=("it",))
        stop.start()
        runner.wait_until(handle, lambda run: run.values("s1") == [2], timeout=60)
        blocked.go_on.set()
        stop.join(60)
        assert ran == Counter(s0=1, s1=1, s2=1)

        assert runner.resume("it", workflow=flow).wait(timeout=60).output == 3
        assert ran == Counter(s0=1, s1=1, s2=1, s3=1)


def test_a_policy_that_is_set_meanwhile_holds_for_the_links_that_have_not_started(blocked: Blocked) -> None:
    with Runner(scheduler=ChainBatching()) as runner:
        handle = runner.start(chain(add_one, blocked, fail, add_one), 0, id="it")
        assert blocked.begun.wait(60)
        runner.set_policies("it", [("s2", Policy(fallback=lambda runnable, _: Value(runnable.args[0] * 100)))])
        blocked.go_on.set()

        assert handle.result(timeout=60) == 101


def test_a_link_can_start_a_child_and_wait_for_it() -> None:
    child = Workflow("child", step(lambda x: x * 10, name="ten"))

    def ask(x: int) -> int:
        return int(current().start_child(child, x).result())

    flow = chain(add_one, add_one, ask, add_one, ask)

    def run_with(scheduler: Any) -> tuple[Any, list[str], list[tuple[Any, ...]]]:
        with Runner(scheduler=scheduler) as runner:
            run = runner.start(flow, 0, id="it").wait(timeout=60)
            return run.output, sorted(run.children), [what[1:2] + what[3:] for what in told(run)]

    assert run_with(ChainBatching()) == run_with(None)
    assert run_with(ChainBatching())[0] == 210


def test_a_link_can_add_to_the_workflow_of_its_run() -> None:
    def grow(x: int) -> int:
        current().add(step(lambda y: y * 10, name="grown"), to="s1")
        return x + 1

    with Runner(scheduler=ChainBatching()) as runner:
        run = runner.start(chain(add_one, grow, add_one), 0).wait(timeout=60)

    assert (run.value("s2"), run.value("grown")) == (3, 20)


def test_a_component_that_is_added_meanwhile_gets_what_is_folded_from_then_on(blocked: Blocked) -> None:
    with Runner(scheduler=ChainBatching()) as runner:
        handle = runner.start(chain(add_one, blocked, add_one), 0, id="it")
        assert blocked.begun.wait(60)
        runner.add("it", step(lambda y: y * 10, name="extra"), to="s1")
        blocked.go_on.set()
        run = handle.wait(timeout=60)

    assert (run.value("s2"), run.value("extra")) == (2, 10)


def test_a_chain_that_takes_long_goes_out_step_by_step(
    batches: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chains, "MOMENT_NS", -1)  # every step takes longer

    with Runner(scheduler=ChainBatching()) as runner:
        assert runner.start(chain(*[add_one] * 4), 0).result(timeout=60) == 4

    assert batches == [("start", 4), ("stop", 1), ("start", 3), ("stop", 1), ("start", 2), ("stop", 1)]


def test_a_chain_holds_one_slot(blocked: Blocked) -> None:
    async def main() -> None:
        async with AsyncRunner(scheduler=ChainBatching(), max_concurrency=1) as runner:
            first = await runner.start(chain(add_one, blocked, add_one), 0, open=True)
            await asyncio.to_thread(blocked.begun.wait, 60)
            second = await first.send(10)
            worker = runner._runtime.registry.get(first.id)
            assert worker is not None
            assert worker.queue.slots_used == 1
            blocked.go_on.set()
            assert (await first.result(), await second.result()) == (2, 12)

    asyncio.run(main())


def test_the_end_of_a_batch_is_told_also_if_it_is_given_up(batches: list[tuple[str, int]], blocked: Blocked) -> None:
    with Runner(scheduler=ChainBatching()) as runner:
        handle = runner.start(chain(add_one, add_one, blocked, add_one), 0)
        assert blocked.begun.wait(60)
        handle.cancel()

    assert batches == [("start", 4), ("stop", 2)]


LENGTH = 5


class Counted:
    """A chain that counts how often each link runs; one of them waits until it is let go, the first time."""

    def __init__(self, held: int) -> None:
        self.gate, self.ran, self.keys = Blocked(), Counter[int](), dict[int, set[str]]()
        self.flow = chain(*[self._link(number, is_held=number == held) for number in range(LENGTH)])

    def _link(self, number: int, *, is_held: bool) -> Callable[[int], int]:
        def link(x: int) -> int:
            self.ran[number] += 1
            self.keys.setdefault(number, set()).add(current().idempotency_key)
            if is_held and self.ran[number] == 1:
                self.gate(x)
            return x + 1

        return link


def stop_and_resume(runner: Runner, chain: Counted) -> None:
    stop = threading.Thread(target=runner.stop, args=("it",))
    stop.start()
    chain.gate.go_on.set()
    stop.join(60)
    runner.resume("it", workflow=chain.flow)


def abandon_and_resume(runner: Runner, chain: Counted) -> None:
    runner.stop("it", grace=0.0)
    runner.resume("it", workflow=chain.flow)


def set_a_policy(runner: Runner, _: Counted) -> None:
    runner.set_policies("it", [("s4", Policy(max_retries=1))])


def add_a_component(runner: Runner, _: Counted) -> None:
    runner.add("it", step(add_one, name="extra"), to="s4")


def look_at_it(runner: Runner, chain: Counted) -> None:
    before = sum(chain.ran.values()) - 1
    runner.wait_until("it", lambda run: len(told(run)) == before, timeout=60)


def send_another_input(runner: Runner, _: Counted) -> None:
    runner.send("it", 100)


@pytest.mark.parametrize("held", range(LENGTH))
@pytest.mark.parametrize(
    "act", [stop_and_resume, abandon_and_resume, set_a_policy, add_a_component, look_at_it, send_another_input]
)
def test_every_link_runs_once_whatever_comes_up_while_one_runs(
    held: int, act: Callable[[Runner, Counted], None], batches: list[tuple[str, int]]
) -> None:
    links, alone = Counted(held), Counted(held)
    alone.gate.go_on.set()
    expected = alone.flow.run(0, id="it")

    with Runner(scheduler=ChainBatching()) as runner:
        handle = runner.start(links.flow, 0, id="it", open=True)
        try:
            assert links.gate.begun.wait(60)
            act(runner, links)
        finally:
            links.gate.go_on.set()
        run = runner.wait(handle, timeout=60)

    inputs = 1 + int(act is send_another_input)
    again = int(act is abandon_and_resume)  # the link that was abandoned
    assert links.ran == Counter({number: inputs + again * (number == held) for number in range(LENGTH)})
    for number in range(LENGTH):
        assert links.keys[number] >= alone.keys[number]
        assert len(links.keys[number]) == inputs
        assert expected.value(f"s{number}") in run.values(f"s{number}")
        assert len(run.values(f"s{number}")) == inputs
    assert batches[0] == ("start", LENGTH)

"""
The contract of schedulers.

    class TestMyScheduler(SchedulerContract):
        @pytest.fixture
        def scheduler(self):
            return MyScheduler()

A scheduler cannot break a run, whatever it answers; the contract shows that on threads, and asks it for answers that
make sense and do not change.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from weft import Runner, Workflow, each, reduce, step
from weft.core.events import AnyEvent, ReactionOccurred, RunnableFailed
from weft.core.functions.current import current
from weft.errors import RunFailed
from weft.ports.scheduler import Scheduler

NAMES = [f"step_{number}" for number in range(40)]


class SchedulerContract:
    """The contract of every scheduler."""

    @pytest.fixture
    def scheduler(self) -> Scheduler:
        """Return a scheduler."""
        raise NotImplementedError("override the fixture `scheduler`")

    def test_it_is_a_scheduler(self, scheduler: Scheduler) -> None:
        assert isinstance(scheduler, Scheduler)

    @pytest.mark.parametrize("length", [2, 3, 40])
    def test_it_answers_with_a_number_of_the_components(self, scheduler: Scheduler, length: int) -> None:
        answer = scheduler.group(NAMES[:length])

        assert type(answer) is int
        assert 1 <= answer <= length

    def test_the_same_question_has_the_same_answer(self, scheduler: Scheduler) -> None:
        assert len({scheduler.group(NAMES) for _ in range(5)} | {scheduler.group(tuple(NAMES))}) == 1

    def test_a_chain_has_the_same_events_as_without_it(self, scheduler: Scheduler) -> None:
        flow = chain([partial(operator.add, number) for number in range(12)])

        with Runner(scheduler=scheduler) as runner:
            handle = runner.start(flow, 1, id="it")

            assert handle.result(timeout=30) == 67
            assert told(handle.log()) == told(flow.run(1, id="it").log())

    def test_functions_read_the_same_ids_as_without_it(self, scheduler: Scheduler) -> None:
        def look(seen: list[Any]) -> list[Any]:
            me = current()
            return [*seen, (me.component, me.attempt, me.idempotency_key, me.runnable_id)]

        flow, nothing = chain([look] * 6), list[Any]()

        with Runner(scheduler=scheduler) as runner:
            assert runner.start(flow, nothing, id="it").result(timeout=30) == flow.run(nothing, id="it").output

    def test_what_follows_a_failure_does_not_run(self, scheduler: Scheduler) -> None:
        ran: list[str] = []

        def note(x: int) -> int:
            ran.append(current().component)
            return x

        def fail(x: int) -> int:
            raise ValueError(note(x))

        flow = chain([note, fail, note])

        with Runner(scheduler=scheduler) as runner:
            handle = runner.start(flow, 1, id="it")
            with pytest.raises(RunFailed):
                handle.result(timeout=30)
            happened = told(handle.log())

        assert ran == NAMES[:2]
        assert happened == told(flow.run(1, id="it").log())

    def test_every_component_runs_once_for_each_element(self, scheduler: Scheduler) -> None:
        ran: Counter[tuple[str, int]] = Counter()

        def count(name: str) -> Any:
            def counted(x: int) -> int:
                ran[name, x] += 1
                return x

            return step(counted, name=name)

        body = count("a") >> count("b") >> count("c")
        total = reduce(operator.add, init=0, name="total")

        with Runner(scheduler=scheduler) as runner:
            assert runner.start(Workflow("each", each(body) >> total), range(30)).result(timeout=30) == 435

        assert ran == Counter({(name, x): 1 for name in "abc" for x in range(30)})


def chain(functions: Sequence[Any]) -> Workflow:
    """Return a workflow that runs *functions* one after the other."""
    flow: Any = step(functions[0], name=NAMES[0])
    for name, function in zip(NAMES[1:], functions[1:], strict=False):
        flow = flow >> step(function, name=name)
    return Workflow("chain", flow)


def told(log: Sequence[AnyEvent]) -> list[tuple[object, ...]]:
    """Return what the *log* says of what ran, without times."""
    return [
        (type(event), event.seq, event.component, event.inputs)
        + ((event.value, event.attempt) if isinstance(event, ReactionOccurred) else (event.error.message,))
        for event in log
        if isinstance(event, ReactionOccurred | RunnableFailed)
    ]

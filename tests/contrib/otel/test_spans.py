"""The spans of runs and attempts: where they belong, what they say, and that each of them ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from eventful import fails
from kept_spans import Kept
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import SpanKind, StatusCode, TraceFlags

from weft import Policy, Runner, Workflow, current, each, reduce, step, telemetry
from weft.contrib import otel
from weft.contrib.otel import spans as spans_module
from weft.errors import RunFailed
from weft.policy import Value
from weft.stores import SQLiteStore

first, second = step(lambda x: x + 1, name="first"), step(lambda x: x * 2, name="second")
chain = Workflow("orders", first >> second)


def parent(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def own(span: ReadableSpan) -> int:
    return span.get_span_context().span_id


def trace_of(span: ReadableSpan) -> int:
    return span.get_span_context().trace_id


def links(span: ReadableSpan, kind: str = "cause") -> list[int]:
    return [link.context.span_id for link in span.links if (link.attributes or {}).get("weft.link") == kind]


def says(span: ReadableSpan, *names: str) -> tuple[Any, ...]:
    return tuple((span.attributes or {}).get(f"weft.{name}") for name in names)


# -- a run ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_a_run_is_a_short_span_at_its_start_one_at_its_end_and_one_for_each_attempt(spans: Kept, executor: str) -> None:
    with Runner(executor=executor) as runner:
        runner.start(chain, 1, id="a").result(20)

    assert [span.name for span in spans.all()] == ["start orders", "first", "second", "stop orders"]
    start, one, two, stop = spans.all()
    assert start.parent is None
    assert [parent(span) for span in (one, two, stop)] == [own(start)] * 3
    assert {trace_of(span) for span in spans.all()} == {trace_of(start)}
    assert [span.kind for span in spans.all()] == [
        *(SpanKind.PRODUCER, SpanKind.CONSUMER, SpanKind.CONSUMER, SpanKind.INTERNAL),
    ]
    assert {span.status.status_code for span in spans.all()} == {StatusCode.UNSET}


def test_the_span_of_an_attempt_says_what_ran(spans: Kept) -> None:
    with Runner() as runner:
        flow = Workflow("orders", step(lambda _: current().idempotency_key, name="key"))
        key = runner.start(flow, 1, id="a", policies=[("key", Policy(metadata={"team": "shop", "odd": [1]}))]).result(
            20
        )

    span = spans.one("key")
    assert says(span, "run_id", "workflow", "component", "attempt", "input", "executor", "outcome") == (
        *("a", "orders", "key", 1, 1, "thread", "completed"),
    )
    assert says(span, "idempotency_key", "metadata.team", "metadata.odd") == (key, "shop", None)
    assert says(spans.one("stop orders"), "run_id", "status") == ("a", "completed")


def test_no_span_is_open_while_a_run_waits(spans: Kept) -> None:
    with Runner() as runner:
        handle = runner.start(chain, id="a")
        handle.send(1).wait(20)

        assert [span.name for span in spans.all()] == [
            *("start orders", "send orders", "first", "second", "stop orders"),
        ]
        assert says(spans.one("stop orders"), "status") == ("idle",)


def test_every_input_of_an_open_run_has_its_own_trace(spans: Kept) -> None:
    with Runner() as runner:
        handle = runner.start(chain, 1, open=True)
        handle.wait(20)
        handle.send(2).wait(20)

    begins = [spans.one("start orders"), spans.one("send orders")]
    assert len({trace_of(span) for span in begins}) == 2
    assert [says(span, "input") for span in begins] == [(1,), (2,)]
    assert [parent(span) for span in spans.named("second")] == [own(span) for span in begins]
    assert [parent(span) for span in spans.named("stop orders")] == [own(span) for span in begins]


def test_a_failed_run_stops_with_an_error(spans: Kept) -> None:
    with Runner() as runner, pytest.raises(RunFailed):
        runner.start(Workflow("orders", step(fails)), 1).result(20)

    stop = spans.one("stop orders")
    assert says(stop, "status") == ("failed",)
    assert stop.status.status_code is StatusCode.ERROR
    assert stop.status.description is not None
    assert "RunFailed" in stop.status.description
    assert [event.name for event in stop.events] == ["exception"]


def test_the_error_of_one_run_is_not_told_of_the_next(spans: Kept) -> None:
    with Runner() as runner:
        runner.start(Workflow("broken", step(fails)), 1).wait(20)
        runner.start(chain, 1, id="a")
        runner.wait("a", 20)

    assert spans.one("stop orders").status.status_code is StatusCode.UNSET
    assert spans.one("stop orders").events == ()


def test_a_cancelled_run_is_not_an_error(spans: Kept) -> None:
    with Runner() as runner:
        runner.start(chain, id="a")
        runner.cancel("a")

    assert says(spans.one("stop orders"), "status") == ("cancelled",)
    assert spans.one("stop orders").status.status_code is StatusCode.UNSET


def test_many_runs_that_are_started_together_have_a_trace_each(spans: Kept) -> None:
    with Runner() as runner:
        runner.gather(runner.start_many(chain, range(5)), 20)

    starts, ends = spans.named("start orders"), spans.named("second")
    assert len({trace_of(span) for span in starts}) == 5
    assert {parent(span) for span in ends} == {own(span) for span in starts}


# -- attempts ------------------------------------------------------------------------------------


def test_an_attempt_is_linked_to_those_that_made_its_inputs(spans: Kept) -> None:
    a, b = step(lambda x: x, name="a"), step(lambda x: x, name="b")
    with Runner() as runner:
        runner.start(Workflow("w", [a, b] >> step(lambda x, y: x + y, name="sum") >> second), 1).result(20)

    assert links(spans.one("a")) == []
    assert links(spans.one("sum")) == [own(spans.one("a")), own(spans.one("b"))]
    assert links(spans.one("second")) == [own(spans.one("sum"))]


def test_a_reduce_is_linked_to_its_elements_up_to_a_limit(spans: Kept) -> None:
    total = reduce(lambda acc, x: acc + x, init=0, name="total")
    with Runner() as runner:
        runner.start(Workflow("w", each(second, name="items") >> total), list(range(200))).result(20)

    linked = links(spans.one("total"))
    assert len(linked) == len(set(linked)) == spans_module.MOST_LINKS
    assert set(linked) <= {own(span) for span in spans.named("second")}
    assert {tuple(links(span)) for span in spans.named("second")} == {(own(spans.one("items")),)}


def test_the_handler_of_an_error_is_linked_to_the_attempt_that_failed(spans: Kept) -> None:
    handled = step(fails).on_error(OSError, then=step(lambda failure: failure.message, name="handler"))
    with Runner() as runner:
        runner.start(Workflow("w", handled), 1).result(20)

    assert links(spans.one("handler")) == [own(spans.one("fails"))]


def test_runs_of_the_same_id_in_two_runners_are_not_linked(spans: Kept) -> None:
    reached, gate = threading.Event(), threading.Event()

    def hangs(x: int) -> int:
        reached.set()
        gate.wait(20)
        return x

    with Runner() as one, Runner() as other:
        one.start(Workflow("orders", first >> step(hangs, name="second")), 1, id="a")
        assert reached.wait(20)
        other.start(chain, 1, id="a").result(20)
        gate.set()
        one.wait("a", 20)

    made = {own(span): trace_of(span) for span in spans.named("first")}
    assert [[made[cause] for cause in links(span)] for span in spans.named("second")] == [
        [trace_of(span)] for span in spans.named("second")
    ]
    assert len({trace_of(span) for span in spans.named("second")}) == 2


def test_an_attempt_that_is_retried_is_not_an_error_and_the_next_one_is_linked_to_it(spans: Kept) -> None:
    tries: list[int] = []

    def flaky(x: int) -> int:
        tries.append(x)
        if len(tries) < 3:
            raise OSError("not yet")
        return x

    with Runner() as runner:
        runner.start(Workflow("w", step(flaky)), 1, policies=[("flaky", Policy(max_retries=2))]).result(20)

    one, two, three = spans.named("flaky")
    assert [says(span, "attempt", "outcome") for span in (one, two, three)] == [
        *((1, "retried"), (2, "retried"), (3, "completed")),
    ]
    assert {span.status.status_code for span in (one, two, three)} == {StatusCode.UNSET}
    assert [links(span, "previous attempt") for span in (one, two, three)] == [[], [own(one)], [own(two)]]
    assert [[event.name for event in span.events] for span in (one, two, three)] == [["exception"], ["exception"], []]
    assert len({(span.attributes or {})["weft.idempotency_key"] for span in (one, two, three)}) == 1


def test_the_last_failure_is_an_error_with_type_and_message(spans: Kept) -> None:
    with Runner() as runner:
        runner.start(Workflow("w", step(fails)), 1, policies=[("fails", Policy(max_retries=1))]).wait(20)

    again, last = spans.named("fails")
    assert says(again, "outcome") == ("retried",)
    assert says(last, "outcome") == ("failed",)
    assert last.status.status_code is StatusCode.ERROR
    assert last.status.description == "OSError: no"
    [raised] = last.events
    told = raised.attributes or {}
    assert (told["exception.type"], told["exception.message"]) == ("OSError", "no")
    assert "in fails" in str(told["exception.stacktrace"])
    assert (last.attributes or {})["error.type"] == "OSError"


@pytest.mark.parametrize(
    ("policy", "outcome"),
    [
        (Policy(fallback=lambda runnable, error: Value(5)), "fell_back"),
        (Policy(on_failure="skip"), "skipped"),
    ],
)
def test_a_failure_that_is_made_up_for_is_not_an_error(spans: Kept, policy: Policy, outcome: str) -> None:
    with Runner() as runner:
        runner.start(Workflow("w", step(fails)), 1, policies=[("fails", policy)]).wait(20)

    span = spans.one("fails")
    assert says(span, "outcome") == (outcome,)
    assert span.status.status_code is StatusCode.UNSET
    assert [event.name for event in span.events] == ["exception"]


def test_a_fallback_that_fails_has_a_span_with_its_error(spans: Kept) -> None:
    def falls(runnable: object, error: object) -> Value:
        raise KeyError("worse")

    with Runner() as runner:
        runner.start(Workflow("w", step(fails)), 1, policies=[("fails", Policy(fallback=falls))]).wait(20)

    attempt, fallback = spans.named("fails")
    assert says(attempt, "outcome") == ("fell_back",)
    assert says(fallback, "outcome") == ("failed",)
    assert (fallback.attributes or {})["error.type"] == "KeyError"
    assert fallback.status.status_code is StatusCode.ERROR


def test_an_attempt_that_is_stopped_at_its_timeout_says_so(spans: Kept) -> None:
    gate = threading.Event()
    with Runner() as runner:
        hangs = step(lambda _: gate.wait(20), name="hangs")
        runner.start(Workflow("w", hangs), 1, policies=[("hangs", Policy(timeout=0.01))]).wait(20)
        gate.set()

    span = spans.one("hangs")
    assert says(span, "timeout", "outcome") == (0.01, "failed")
    assert (span.attributes or {})["error.type"] == "weft.errors.StepTimeout"


def test_an_exception_whose_own_code_fails_is_recorded(spans: Kept) -> None:
    class OddError(Exception):
        def __str__(self) -> str:
            raise SystemExit("from the text of an exception")

    def odd(_: object) -> None:
        raise OddError

    with Runner() as runner:
        runner.start(Workflow("w", step(odd)), 1).wait(20)

    assert spans.one("odd").status.status_code is StatusCode.ERROR
    assert [handler.failures for handler in telemetry.handlers()] == [0]


def stop(runner: Runner) -> None:
    runner.stop("a", grace=0)


def cancel(runner: Runner) -> None:
    runner.cancel("a")


def close(runner: Runner) -> None:
    runner.close(grace=0)


def end_observing(_runner: Runner) -> None:
    otel.uninstrument()


@pytest.mark.parametrize(
    ("leave", "outcome"),
    [(stop, "abandoned"), (cancel, "abandoned"), (close, "abandoned"), (end_observing, "unobserved")],
)
def test_the_span_of_an_attempt_that_is_left_ends(spans: Kept, leave: Callable[[Runner], None], outcome: str) -> None:
    reached, gate = threading.Event(), threading.Event()

    def hangs(_: object) -> None:
        reached.set()
        gate.wait(20)

    with Runner() as runner:
        runner.start(Workflow("w", step(hangs)), 1, id="a")
        assert reached.wait(20)
        leave(runner)
        gate.set()

    assert says(spans.one("hangs"), "outcome") == (outcome,)
    assert spans.one("hangs").status.status_code is StatusCode.UNSET


def test_an_attempt_that_began_before_it_was_observed_has_no_span_and_harms_nothing(kept: Kept) -> None:
    reached, gate = threading.Event(), threading.Event()

    def hangs(x: int) -> int:
        reached.set()
        gate.wait(20)
        return x

    with Runner() as runner:
        handle = runner.start(Workflow("w", step(hangs) >> second), 1)
        assert reached.wait(20)
        with otel.instrument(tracer_provider=kept.provider, metrics=False):
            gate.set()
            handle.result(20)
            failures = [handler.failures for handler in telemetry.handlers()]

    assert kept.named("hangs") == []
    assert says(kept.one("second"), "outcome") == ("completed",)
    assert failures == [0]


# -- the caller ----------------------------------------------------------------------------------


def test_what_follows_from_an_input_is_in_the_trace_of_its_caller(spans: Kept) -> None:
    with Runner() as runner:
        with spans.tracer.start_as_current_span("request"):
            handle = runner.start(chain, 1)
        handle.result(20)

    request = spans.one("request")
    assert parent(spans.one("start orders")) == own(request)
    assert {trace_of(span) for span in spans.all()} == {trace_of(request)}


def test_a_run_that_is_opened_without_input_is_in_the_trace_of_its_caller(spans: Kept) -> None:
    with Runner() as runner:
        with spans.tracer.start_as_current_span("open"):
            handle = runner.start(chain)
        with spans.tracer.start_as_current_span("first input"):
            handle.send(1)
        handle.wait(20)

    assert parent(spans.one("start orders")) == own(spans.one("open"))
    assert parent(spans.one("send orders")) == own(spans.one("first input"))
    assert trace_of(spans.one("second")) == trace_of(spans.one("first input"))


def test_a_run_can_have_its_own_trace_with_a_link_to_the_caller(kept: Kept) -> None:
    with otel.instrument(tracer_provider=kept.provider, metrics=False, caller="link"), Runner() as runner:
        with kept.tracer.start_as_current_span("request"):
            runner.start(chain, 1).result(20)
        runner.start(chain, 1).result(20)

    request, (start, alone) = kept.one("request"), kept.named("start orders")
    assert start.parent is None
    assert [link.context.span_id for link in start.links] == [own(request)]
    assert trace_of(start) != trace_of(request)
    assert trace_of(kept.named("second")[0]) == trace_of(start)
    assert alone.links == ()


def test_a_child_run_is_in_the_trace_of_its_parent(spans: Kept) -> None:
    starts = step(lambda x: current().start_child(chain, x).result(20), name="starts")
    with Runner() as runner:
        runner.start(Workflow("parent", starts), 1).result(20)

    assert parent(spans.one("start orders")) == own(spans.one("starts"))
    assert len({trace_of(span) for span in spans.all()}) == 1


def test_a_run_that_a_caller_chose_not_to_trace_is_not_traced() -> None:
    kept = Kept(sampler=ParentBased(root=ALWAYS_OFF))
    with otel.instrument(tracer_provider=kept.provider, metrics=False), Runner() as runner:
        handle = runner.start(chain, 1)
        handle.result(20)
        carrier = handle.log()[1].carrier

    assert kept.all() == []
    assert int(carrier["traceparent"].rpartition("-")[2], 16) & TraceFlags.SAMPLED == 0


# -- after a resume ------------------------------------------------------------------------------


class Held:
    """A step that waits until it is let go."""

    def __init__(self) -> None:
        self.reached, self.gate = threading.Event(), threading.Event()
        self.flow = Workflow("orders", first >> step(self, name="held") >> second)

    def __call__(self, x: int) -> int:
        self.reached.set()
        self.gate.wait(20)
        return x

    def interrupted(self, path: Path) -> None:
        """Start a run, and close its runner in the middle."""
        with Runner(SQLiteStore(path), grace=0) as runner:
            runner.start(self.flow, 1, id="a")
            assert self.reached.wait(20)
        self.gate.set()

    def resumed(self, path: Path) -> None:
        with Runner(SQLiteStore(path)) as runner:
            runner.resume("a", workflow=self.flow).wait(20)


def test_a_resumed_run_continues_the_trace_of_its_input(spans: Kept, tmp_path: Path) -> None:
    held = Held()
    held.interrupted(tmp_path / "runs.db")
    otel.uninstrument()
    deploy = spans.tracer.start_span("deploy")
    observed = otel.instrument(tracer_provider=spans.provider, metrics=False)  # nothing is remembered of the spans
    with observed, trace.use_span(deploy, end_on_exit=True):
        held.resumed(tmp_path / "runs.db")

    start = spans.one("start orders")
    lost, again = spans.named("held")
    assert (says(lost, "outcome"), says(again, "outcome")) == (("abandoned",), ("completed",))
    for span in (again, spans.one("second"), spans.one("resume orders"), spans.one("stop orders")):
        assert (trace_of(span), parent(span)) == (trace_of(start), own(start))
    assert links(again) == []
    assert links(spans.one("second")) == [own(again)]
    [link] = spans.one("resume orders").links
    assert link.context.span_id == deploy.get_span_context().span_id


def test_a_run_that_was_started_unobserved_has_one_trace_after_its_resume(spans: Kept, tmp_path: Path) -> None:
    held = Held()
    otel.uninstrument()
    held.interrupted(tmp_path / "runs.db")
    with otel.instrument(tracer_provider=spans.provider, metrics=False):
        held.resumed(tmp_path / "runs.db")

    resume = spans.one("resume orders")
    assert resume.parent is None
    assert [(trace_of(span), parent(span)) for span in (spans.one("held"), spans.one("second"))] == [
        (trace_of(resume), own(resume))
    ] * 2


def test_a_run_that_is_resumed_unobserved_is_not_harmed_by_its_carrier(spans: Kept, tmp_path: Path) -> None:
    held = Held()
    held.interrupted(tmp_path / "runs.db")
    otel.uninstrument()
    held.resumed(tmp_path / "runs.db")

    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner:
        assert runner.result("a", 20) == 4


def test_a_carrier_that_cannot_be_read_starts_a_new_trace(spans: Kept) -> None:
    def note(_event: str, _measured: object, told: dict[str, Any]) -> None:
        told["carrier"]["traceparent"] = "odd"

    telemetry.attach("odd", "weft.runner.input.receive", note)  # after the handler that it spoils
    try:
        with Runner() as runner:
            assert runner.start(chain, 1).result(20) == 4
    finally:
        telemetry.detach("odd")

    resume = spans.one("resume orders")
    assert [parent(span) for span in (spans.one("first"), spans.one("second"))] == [own(resume)] * 2


# -- what is kept --------------------------------------------------------------------------------


def test_the_spans_that_are_remembered_are_bounded(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans_module, "REMEMBERED", 10)
    spans = spans_module.Spans(kept.provider, "", caller="parent", baggage=True)
    telemetry.attach("test", spans_module.HANDLED, spans.handle)
    try:
        with Runner() as runner:
            runner.gather(runner.start_many(chain, range(30)), 20)
    finally:
        telemetry.detach("test")

    assert len(kept.named("second")) == 30
    assert len(spans._known._spans) == 10
    assert spans._open == {}


def test_without_a_provider_nothing_is_made_and_nothing_fails() -> None:
    with otel.instrument(metrics=False), Runner() as runner:
        handle = runner.start(chain, 1)
        assert handle.result(20) == 4
        assert handle.log()[1].carrier is None
        assert [handler.failures for handler in telemetry.handlers()] == [0]
    assert not trace.get_current_span().get_span_context().is_valid

"""The context of a caller is known where its steps run: in the loop, on threads, in processes, and after a resume."""

from __future__ import annotations

import asyncio
import pickle
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from kept_spans import Kept
from opentelemetry import baggage, trace
from opentelemetry.context import Context, attach, detach

from weft import AsyncRunner, Policy, Runner, Workflow, condition, current, step
from weft.contrib import otel
from weft.contrib.otel.carriers import Enter, EnterElsewhere, extract, inject
from weft.policy import Value
from weft.stores import SQLiteStore

Seen = tuple[int, int]


def seen(_: object = None) -> Seen:
    """The trace and the span that are current."""
    found = trace.get_current_span().get_span_context()
    return found.trace_id, found.span_id


async def seen_later(_: object) -> Seen:
    before = seen()
    await asyncio.sleep(0)
    assert seen() == before
    return before


def of(span: Any) -> Seen:
    found = span.get_span_context()
    return found.trace_id, found.span_id


@pytest.fixture
def tenant() -> Iterator[None]:
    """A caller with baggage."""
    token = attach(baggage.set_baggage("tenant", "blue shop"))
    yield
    detach(token)


# -- in this process -----------------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_the_span_of_the_attempt_is_current_in_a_plain_step(spans: Kept, executor: str) -> None:
    with Runner(executor=executor) as runner:
        found = runner.start(Workflow("w", step(seen)), 1).result(20)

    assert found == of(spans.one("seen"))


def test_the_span_of_the_attempt_is_current_in_a_coroutine(spans: Kept) -> None:
    with Runner() as runner:
        found = runner.start(Workflow("w", step(seen_later)), 1).result(20)

    assert found == of(spans.one("seen_later"))


def test_coroutines_that_run_together_have_a_span_each(spans: Kept) -> None:
    async def main() -> list[Seen]:
        async with AsyncRunner() as runner:
            handles = await runner.start_many(Workflow("w", step(seen_later)), range(20))
            return await handles.gather()

    assert sorted(asyncio.run(main())) == sorted(of(span) for span in spans.named("seen_later"))


def test_the_span_of_the_attempt_is_current_in_a_condition_and_in_a_fallback(spans: Kept) -> None:
    asked: list[Seen] = []

    def asks(_: object) -> bool:
        asked.append(seen())
        return True

    def fails(_: object) -> None:
        raise OSError

    flow = Workflow("w", condition(asks) >> step(fails))
    with Runner() as runner:
        policies = [("fails", Policy(fallback=lambda runnable, error: Value(seen())))]
        fell_back = runner.start(flow, 1, policies=policies).result(20)

    assert asked == [of(spans.one("asks"))]
    assert fell_back == of(spans.one("fails"))


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_the_spans_of_a_step_are_children_of_its_attempt(spans: Kept, executor: str) -> None:
    def works(x: int) -> int:
        trace.get_current_span().set_attribute("shop.order", 17)
        with spans.tracer.start_as_current_span("query"):
            return x

    with Runner(executor=executor) as runner:
        runner.start(Workflow("w", step(works)), 1).result(20)

    query, attempt = spans.one("query"), spans.one("works")
    assert query.parent is not None
    assert query.parent.span_id == attempt.get_span_context().span_id
    assert (attempt.attributes or {})["shop.order"] == 17


def test_a_fallback_can_make_spans_although_its_attempt_has_ended(
    spans: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: object) -> None:
        raise OSError

    def falls(runnable: object, error: object) -> Value:
        trace.get_current_span().set_attribute("too", "late")
        with spans.tracer.start_as_current_span("cached"):
            return Value(1)

    with Runner() as runner:
        runner.start(Workflow("w", step(fails)), 1, policies=[("fails", Policy(fallback=falls))]).result(20)

    cached = spans.one("cached")
    assert cached.parent is not None
    assert cached.parent.span_id == spans.one("fails").get_span_context().span_id
    assert "ended span" not in caplog.text


def test_nothing_is_current_after_a_step_or_around_a_runner(spans: Kept) -> None:
    async def main() -> Seen:
        async with AsyncRunner(executor="inline") as runner:
            await (await runner.start(Workflow("w", step(lambda x: x, name="s")), 1)).result()
            return seen()

    assert asyncio.run(main()) == (0, 0)


@pytest.mark.usefixtures("spans")
def test_a_span_that_was_current_when_the_runner_opened_is_not_the_parent_of_later_steps(kept: Kept) -> None:
    with kept.tracer.start_as_current_span("boot") as boot, Runner() as runner:
        token = attach(Context())
        runner.start(Workflow("w", step(seen)), 1).result(20)
        detach(token)

    assert kept.one("seen").get_span_context().trace_id != boot.get_span_context().trace_id


# -- baggage -------------------------------------------------------------------------------------


def tenant_of(_: object) -> object:
    return baggage.get_baggage("tenant")


@pytest.mark.usefixtures("spans", "tenant")
def test_the_baggage_of_the_caller_is_known_to_steps_and_children() -> None:
    inner = Workflow("inner", step(tenant_of))
    outer = Workflow("outer", step(lambda x: current().start_child(inner, x).result(20), name="outer"))
    with Runner() as runner:
        assert runner.start(outer, 1).result(20) == "blue shop"


@pytest.mark.usefixtures("spans", "tenant")
def test_baggage_survives_a_resume(tmp_path: Path) -> None:
    flow = Workflow("w", step(tenant_of))
    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner:
        runner.start(flow, 1, id="a", policies=[("tenant_of", Policy(delay=1000))])
    attach(Context())
    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner:
        handle = runner.resume("a", workflow=flow)
        runner.set_policies("a", [])
        assert handle.wait(20).value("tenant_of") == "blue shop"


@pytest.mark.usefixtures("tenant")
def test_baggage_can_be_left_out(kept: Kept) -> None:
    with otel.instrument(tracer_provider=kept.provider, metrics=False, baggage=False), Runner() as runner:
        handle = runner.start(Workflow("w", step(tenant_of)), 1, open=True)

        assert handle.wait(20).value("tenant_of") is None
        assert list(handle.log()[1].carrier) == ["traceparent"]


# -- in worker processes -------------------------------------------------------------------------

WORK = dedent("""
    from opentelemetry import baggage, trace
    from opentelemetry.sdk.trace import TracerProvider
    from weft import step

    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("worker")

    @step
    def far(x):
        found = trace.get_current_span().get_span_context()
        with tracer.start_as_current_span("inside") as inside:
            made = inside.get_span_context().trace_id, inside.parent and inside.parent.span_id
        return (found.trace_id, found.span_id), made, baggage.get_baggage("tenant")
""")


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A step in a module that worker processes can import."""
    main = sys.modules["__main__"]  # a worker would import it: in a test run that is pytest, and takes half a second
    monkeypatch.setattr(main, "__spec__", None, raising=False)
    monkeypatch.delattr(main, "__file__", raising=False)
    (tmp_path / "weft_far.py").write_text(WORK, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("weft_far").far
    del sys.modules["weft_far"]


@pytest.mark.usefixtures("tenant")
def test_the_span_of_the_attempt_is_current_in_a_worker_process(spans: Kept, far: Any) -> None:
    with Runner(executor="process", processes=1) as runner:
        found, made, tenant = runner.start(Workflow("w", far), 1).result(60)

    assert tuple(found) == of(spans.one("far"))
    assert tuple(made) == of(spans.one("far"))
    assert tenant == "blue shop"


def test_a_worker_process_that_is_not_observed_has_no_span(far: Any) -> None:
    with Runner(executor="process", processes=1) as runner:
        found, (_, parent), _ = runner.start(Workflow("w", far), 1).result(60)

    assert (tuple(found), parent) == ((0, 0), None)


# -- as text -------------------------------------------------------------------------------------


def test_a_context_is_the_same_after_it_was_text(kept: Kept) -> None:
    span = kept.tracer.start_span("one")
    carrier: dict[str, str] = {}

    inject(carrier, trace.set_span_in_context(span, baggage.set_baggage("a", "b=c;d, é")))
    context = extract(carrier)

    assert of(trace.get_current_span(context)) == of(span)
    assert baggage.get_all(context) == {"a": "b=c;d, é"}


@pytest.mark.parametrize(
    "carrier", [{}, {"traceparent": "odd"}, {"traceparent": f"00-{'0' * 32}-{'0' * 16}-01"}, {"baggage": "=;,%"}]
)
def test_text_without_a_context_is_an_empty_one(carrier: dict[str, str]) -> None:
    assert not trace.get_current_span(extract(carrier)).get_span_context().is_valid


def test_what_is_current_does_not_leak_into_what_is_read(kept: Kept) -> None:
    with kept.tracer.start_as_current_span("here"):
        assert not trace.get_current_span(extract({})).get_span_context().is_valid


def test_an_entry_that_is_sent_elsewhere_makes_the_same_span_current(kept: Kept) -> None:
    span = kept.tracer.start_span("one")

    there = pickle.loads(pickle.dumps(Enter(span, Context())))  # noqa: S301
    token = attach(Context())
    there()
    found = seen()
    detach(token)

    assert isinstance(there, EnterElsewhere)
    assert found == of(span)

"""Spans and metrics are turned on once, and off without a trace of them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from kept_spans import Kept
from opentelemetry.sdk.metrics import MeterProvider

from weft import Runner, Workflow, step, telemetry
from weft.contrib import otel
from weft.errors import AlreadyInstrumented, DuplicateHandler, InvalidOption

chain = Workflow("orders", step(lambda x: x, name="first"))


def test_a_second_call_is_refused_and_the_first_stays_in_use(spans: Kept) -> None:
    with pytest.raises(AlreadyInstrumented, match=r"weft\.contrib\.otel .* call uninstrument\(\) first"):
        otel.instrument(tracer_provider=Kept().provider)
    with Runner() as runner:
        runner.start(chain, 1).result(20)

    assert len(spans.named("first")) == 1


def test_the_end_can_be_asked_for_twice(kept: Kept) -> None:
    with otel.instrument(tracer_provider=kept.provider, metrics=False):
        ended = otel.uninstrument()
        again = otel.uninstrument()

    assert (ended, again) == (True, False)
    assert telemetry.handlers() == []


def test_leaving_an_old_context_does_not_end_a_new_one(kept: Kept) -> None:
    old = otel.instrument(tracer_provider=kept.provider, metrics=False)
    otel.uninstrument()
    with otel.instrument(tracer_provider=kept.provider, metrics=False):
        with old:
            pass
        with Runner() as runner:
            runner.start(chain, 1).result(20)

    assert len(kept.named("first")) == 1


def test_an_option_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidOption, match="use 'parent' or 'link'"):
        otel.instrument(caller="friend")  # type: ignore[arg-type]

    assert telemetry.handlers() == []


def test_spans_are_not_left_on_if_metrics_cannot_be(kept: Kept) -> None:
    telemetry.attach("weft.contrib.otel.meters", "weft.runner.store.stop", lambda *_: None)
    provider = MeterProvider(shutdown_on_exit=False)
    try:
        with pytest.raises(DuplicateHandler):
            otel.instrument(tracer_provider=kept.provider, meter_provider=provider)
        left = [handler.id for handler in telemetry.handlers()]
    finally:
        telemetry.detach("weft.contrib.otel.meters")

    assert left == ["weft.contrib.otel.meters"]
    with otel.instrument(tracer_provider=kept.provider, meter_provider=provider):
        assert len(telemetry.handlers()) == 2


def test_spans_name_the_library_and_its_version(spans: Kept) -> None:
    with Runner() as runner:
        runner.start(chain, 1).result(20)

    scope = spans.one("first").instrumentation_scope
    assert scope is not None
    assert scope.name == "weft"
    assert scope.version


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_weft_does_not_import_the_libraries_that_it_can_be_observed_with() -> None:
    shown = run(
        "import sys, weft, weft.cli, weft.telemetry\n"
        "with weft.Runner() as runner: runner.start(weft.Workflow('w', weft.step(abs)), 1).result()\n"
        "print(*{name.partition('.')[0] for name in sys.modules}, *(n for n in sys.modules if 'contrib' in n))"
    )

    assert {"opentelemetry", "prometheus_client", "weft.contrib"}.isdisjoint(shown.split())


@pytest.mark.parametrize(
    ("module", "library", "extra"),
    [("weft.contrib.otel", "opentelemetry", "otel"), ("weft.contrib.prometheus", "prometheus_client", "prometheus")],
)
def test_an_extra_that_is_not_installed_is_named(module: str, library: str, extra: str) -> None:
    shown = run(
        f"import sys; sys.modules[{library!r}] = None\n"
        f"try:\n    import {module}\nexcept ModuleNotFoundError as error:\n    print(error)"
    )

    assert f"pip install 'weft[{extra}]'" in shown

"""The telemetry and the log of a runner: busy periods, the last failure, every operation of the store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from small_flows import chain, double

from weft import Policy, Runner, Saga, Workflow, step, telemetry
from weft import events as ev
from weft.events import InputReceived
from weft.policy import Value
from weft.runner import WorkerHooks
from weft.stores import SQLiteStore

PREFIX = "weft.runner."
Heard = list[tuple[str, dict[str, Any], dict[str, Any]]]


@pytest.fixture
def heard() -> Iterator[Heard]:
    found: Heard = []

    def handler(event: str, measured: dict[str, Any], told: dict[str, Any]) -> None:
        found.append((event.removeprefix(PREFIX), measured, told))

    telemetry.attach("test", telemetry.EVENTS, handler)
    yield found
    telemetry.detach("test")


def fails(x: int) -> int:
    raise OSError("no")


broken = step(fails, name="broken")


def of(heard: Heard, *names: str) -> list[str]:
    return [name for name, _, _ in heard if name in names]


# -- busy periods --------------------------------------------------------------------------------


def test_a_run_stops_once_for_each_busy_period(heard: Heard) -> None:
    idle: list[str] = []
    with Runner() as runner:
        handle = runner.start(chain, id="a", hooks=WorkerHooks(on_idle=lambda run: idle.append(run.id)))
        handle.wait(20)
        assert (of(heard, "workflow.stop"), idle) == ([], [])
        for value in (1, 2):
            handle.send(value)
            handle.wait(20)
        runner.set_policies("a", [("double", Policy(max_retries=1))])
        handle.wait(20)

    assert len(of(heard, "workflow.stop")) == len(idle) == 2


def test_the_duration_of_a_busy_period_does_not_count_the_time_before(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("weft.runner.execution.reporting.monotonic", lambda: now[0])
    with Runner() as runner:
        handle = runner.start(chain, 1, open=True)
        handle.wait(20)
        now[0] = 500.0
        handle.send(2)
        handle.wait(20)

    assert [measured["duration"] for name, measured, _ in heard if name == "workflow.stop"] == [0.0, 0.0]


def test_a_run_that_fails_is_an_exception_and_then_a_stop(heard: Heard) -> None:
    with Runner() as runner:
        runner.start(Workflow("w", step(lambda x: 1 // x, name="invert")), 0, id="a").wait(20)

    told = [(name, metadata) for name, _, metadata in heard if name in ("workflow.exception", "workflow.stop")]
    assert [name for name, _ in told] == ["workflow.exception", "workflow.stop"]
    assert list(told[0][1]["error"].failures) == ["invert"]
    assert told[1][1]["status"] == "failed"


def test_resuming_a_run_that_has_nothing_to_do_is_not_a_busy_period(heard: Heard, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path)) as runner:
        runner.start(chain, id="a").wait(20)
    with Runner(SQLiteStore(path)) as runner:
        runner.resume("a", workflow=chain)
        runner.wait("a", 20)

    assert of(heard, "workflow.start", "workflow.stop") == ["workflow.start", "workflow.start"]


def test_starting_a_run_that_exists_is_neither_a_start_nor_a_stop(heard: Heard, tmp_path: Path) -> None:
    path, idle = tmp_path / "runs.db", list[str]()
    with Runner(SQLiteStore(path)) as runner:
        runner.start(chain, 1, id="a").wait(20)
    heard.clear()
    with Runner(SQLiteStore(path)) as runner:
        again = runner.start(chain, 1, id="a", hooks=WorkerHooks(on_idle=lambda run: idle.append(run.id)))
        assert again.result(20) == 3

    assert of(heard, "workflow.start", "workflow.stop", "workflow.exception") == []
    assert idle == []


def test_a_start_is_told_in_the_context_of_its_caller_and_before_the_first_step() -> None:
    caller: ContextVar[str] = ContextVar("caller", default="")
    told: list[tuple[str, str]] = []
    names = ("weft.runner.workflow.start", "weft.runner.runnable.start")
    telemetry.attach("test", names, lambda event, _measured, _told: told.append((event, caller.get())))
    try:
        with Runner() as runner:
            caller.set("ann")
            runner.start(chain, 1).wait(20)
    finally:
        telemetry.detach("test")

    assert told[0] == ("weft.runner.workflow.start", "ann")
    assert [event for event, _ in told[1:]] == ["weft.runner.runnable.start"] * 2


def test_closing_a_run_that_has_nothing_to_do_is_told(heard: Heard) -> None:
    idle: list[str] = []
    with Runner() as runner:
        runner.start(chain, id="a", hooks=WorkerHooks(on_idle=lambda run: idle.append(run.id)))
        runner.cancel("a")
        runner.wait("a", 20)

    assert [told["status"] for name, _, told in heard if name == "workflow.stop"] == ["cancelled"]
    assert idle == []


# -- the caller of an input ----------------------------------------------------------------------


@pytest.fixture
def noting() -> Iterator[dict[Any, Any]]:
    """The text that a handler notes about the caller of each input."""
    note: dict[Any, Any] = {}
    name = "weft.runner.input.receive"
    telemetry.attach("noting", name, lambda _event, _measured, told: told["carrier"].update(note))
    yield note
    telemetry.detach("noting")


def carriers(heard: Heard, name: str) -> list[dict[str, str]]:
    return [told["carrier"] for event, _, told in heard if event == name]


def test_what_a_handler_notes_about_an_input_is_stored_with_it(heard: Heard, noting: dict[Any, Any]) -> None:
    with Runner() as runner:
        noting["from"] = "web"
        handle = runner.start(chain, 1, open=True)
        noting["from"] = "phone"
        handle.send(2)
        handle.wait(20)
        noting.clear()
        handle.send(3)
        inputs = [event for event in handle.log() if isinstance(event, InputReceived)]

    assert [event.carrier for event in inputs] == [{"from": "web"}, {"from": "phone"}, None]
    assert carriers(heard, "workflow.start") == [{"from": "web"}]


def test_an_input_says_whether_the_run_is_started_with_it(heard: Heard) -> None:
    with Runner() as runner:
        runner.start(chain, 1, open=True).send(2)
        runner.start(chain).send(3)

    told = [(told["ordinal"], told["is_new"]) for name, _, told in heard if name == "input.receive"]
    assert told == [(1, True), (2, False), (1, False)]


def test_an_input_that_was_sent_before_is_not_told_again(heard: Heard) -> None:
    with Runner() as runner:
        handle = runner.start(chain)
        handle.send(1, key="k")
        handle.send(1, key="k")

    assert of(heard, "input.receive") == ["input.receive"]


def test_what_was_noted_about_an_input_is_known_after_a_resume(
    heard: Heard, noting: dict[Any, Any], tmp_path: Path
) -> None:
    path, gate, reached = tmp_path / "runs.db", threading.Event(), threading.Event()

    def waits(x: int) -> int:
        reached.set()
        gate.wait(20)
        return x

    held = Workflow("held", step(waits))
    noting["from"] = "web"
    with Runner(SQLiteStore(path)) as runner:
        runner.start(held, 1, id="a")
        assert reached.wait(20)
        runner.stop("a", grace=0)
        gate.set()
    heard.clear()
    with Runner(SQLiteStore(path)) as runner:
        runner.resume("a", workflow=held).wait(20)

    assert carriers(heard, "workflow.start") == carriers(heard, "workflow.stop") == [{"from": "web"}]


def test_a_note_that_is_not_text_is_left_out_and_logged(
    noting: dict[Any, Any], caplog: pytest.LogCaptureFixture
) -> None:
    noting.update({"from": "web", "when": 5})
    with Runner() as runner:
        assert runner.start(chain, 1).log()[1].carrier == {"from": "web"}

    assert "only text is stored" in caplog.text


# -- failures ------------------------------------------------------------------------------------


def exceptions(heard: Heard) -> list[tuple[Any, ...]]:
    """The attempts that failed: number, error, and whether it was for good."""
    return [
        (told["attempt"], type(told["error"]).__name__, told["is_final"])
        for name, _, told in heard
        if name == "runnable.exception"
    ]


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_the_last_failure_can_be_told_from_others(heard: Heard, executor: str) -> None:
    with Runner(executor=executor) as runner:
        policies = [("broken", Policy(max_retries=2))]
        runner.start(Workflow("w", double >> broken), 1, policies=policies).wait(20)

    assert exceptions(heard) == [(1, "OSError", False), (2, "OSError", False), (3, "OSError", True)]
    assert of(heard, "runnable.exception", "runnable.retry") == [
        *("runnable.exception", "runnable.retry", "runnable.exception", "runnable.retry"),
        "runnable.exception",
    ]


def test_a_failure_without_a_policy_is_the_last(heard: Heard) -> None:
    with Runner(executor="inline") as runner:
        runner.start(Workflow("w", broken), 1).wait(20)

    assert exceptions(heard) == [(1, "OSError", True)]


def test_a_failure_is_not_the_last_if_a_fallback_or_a_skip_follows(heard: Heard) -> None:
    with Runner() as runner:
        runner.start(Workflow("w", broken), 1, policies=[("broken", Policy(fallback=lambda r, e: Value(5)))]).wait(20)
        runner.start(Workflow("w", broken), 1, policies=[("broken", Policy(on_failure="skip"))]).wait(20)

    assert exceptions(heard) == [(1, "OSError", False), (1, "OSError", False)]
    assert of(heard, "runnable.exception", "runnable.fallback", "runnable.skip") == [
        *("runnable.exception", "runnable.fallback"),
        *("runnable.exception", "runnable.skip"),
    ]


def test_a_fallback_that_fails_is_the_last_failure(heard: Heard) -> None:
    def falls(runnable: object, error: object) -> Value:
        raise KeyError("worse")

    with Runner() as runner:
        runner.start(Workflow("w", broken), 1, policies=[("broken", Policy(fallback=falls))]).wait(20)

    assert exceptions(heard) == [(1, "OSError", False), (1, "KeyError", True)]


def test_a_retry_carries_the_exception(heard: Heard) -> None:
    with Runner() as runner:
        runner.start(Workflow("w", broken), 1, policies=[("broken", Policy(max_retries=1, metadata={"k": 1}))]).wait(20)

    [retry] = [told for name, _, told in heard if name == "runnable.retry"]
    assert isinstance(retry["error"], OSError)
    assert (retry["attempt"], retry["component"], retry["metadata"]) == (1, "broken", {"k": 1})


# -- the log -------------------------------------------------------------------------------------


def test_a_failing_step_is_logged_once_with_its_error(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="weft.runner"), Runner() as runner:
        runner.start(Workflow("w", broken), 1, id="a", policies=[("broken", Policy(max_retries=2))]).wait(20)

    [record] = [record for record in caplog.records if record.name == "weft.runner"]
    assert record.getMessage() == "'broken' of run 'a' has failed after 3 attempts: OSError: no"
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], OSError)


def test_an_exception_whose_own_code_fails_is_logged_and_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class OddError(Exception):
        def __str__(self) -> str:
            raise SystemExit("from the text of an exception")

    def odd(x: int) -> int:
        raise OddError

    with Runner() as runner:
        assert runner.start(Workflow("w", step(odd)), 1, id="a").wait(20).failed
        assert runner.start(chain, 1).result(20) == 3

    assert "'odd' of run 'a' has failed" in caplog.text
    assert "crashed" not in caplog.text


def test_a_failure_that_the_workflow_handles_is_one_line_that_says_where_it_goes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def breaks(x: int) -> int:
        raise OSError(f"no,\n\n  it is {'long ' * 100}")

    breaking = step(breaks).on_error(OSError, then=step(lambda failure: failure.message, name="told"))
    trip = Saga("trip")
    trip.transaction(lambda request, results: fails(1), name="book", compensate=None)
    with caplog.at_level(logging.WARNING, logger="weft.runner"), Runner() as runner:
        handled = runner.start(Workflow("w", breaking), 1, id="a").wait(20)
        runner.start(Workflow("t", trip), 1, id="b").wait(20)

    handling, undoing = (record for record in caplog.records if "has failed" in record.message)
    assert [handling.levelno, undoing.levelno] == [logging.WARNING] * 2
    assert handling.message.startswith("'breaks' of run 'a' has failed: OSError: no, it is long long")
    assert handling.message.endswith("…; 'told' handles it")
    assert undoing.message == "'trip.book' of run 'b' has failed: OSError: no; 'trip' handles it"
    assert not any(record.exc_info or record.exc_text for record in (handling, undoing))
    assert (handling.run_id, handling.component, handling.attempt) == ("a", "breaks", 1)  # type: ignore[attr-defined]
    [failed] = [event for event in handled.log() if isinstance(event, ev.RunnableFailed)]
    assert "raise OSError(" in failed.error.traceback  # where it can always be read


def test_a_step_that_is_skipped_or_falls_back_is_a_line_for_those_who_ask(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="weft.runner"), Runner() as runner:
        falls = Policy(max_retries=1, fallback=lambda runnable, error: Value(5))
        runner.start(Workflow("w", broken), 1, id="a", policies=[("broken", falls)]).wait(20)
        runner.start(Workflow("w", broken), 1, id="b", policies=[("broken", Policy(on_failure="skip"))]).wait(20)

    found = [record for record in caplog.records if "has failed" in record.message]
    assert [(record.levelno, record.message) for record in found] == [
        (logging.INFO, "'broken' of run 'a' has failed after 2 attempts: OSError: no; its fallback is asked"),
        (logging.INFO, "'broken' of run 'b' has failed: OSError: no; it is skipped"),
    ]
    assert not any(record.exc_info for record in found)


# -- the store -----------------------------------------------------------------------------------


def test_every_operation_of_the_store_has_a_span(heard: Heard, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path)) as runner:
        runner.start(chain, 1, id="a", open=True).wait(20)
        runner.find("a")
        runner.count()
        runner.runs()
    heard.clear()
    with Runner(SQLiteStore(path)) as runner:
        runner.resume("a", workflow=chain)
        runner.stop("a")
        runner.delete("a")

    stops = {told["operation"]: (measured, told) for name, measured, told in heard if name == "store.stop"}
    starts = [told["operation"] for name, _, told in heard if name == "store.start"]
    assert {"open", "acquire", "load_since", "load_definitions", "release", "delete", "close"} <= stops.keys()
    assert sorted(starts) == sorted(told["operation"] for name, _, told in heard if name == "store.stop")
    assert stops["load_since"][0]["events"] == 4
    assert stops["load_since"][1]["workflow_ids"] == ["a"]


def test_an_operation_that_fails_is_told(heard: Heard, tmp_path: Path) -> None:
    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner, pytest.raises(LookupError):
        runner.find("nowhere")

    [(measured, told)] = [(measured, told) for name, measured, told in heard if name == "store.exception"]
    assert (told["operation"], told["workflow_ids"]) == ("find", ["nowhere"])
    assert measured["duration"] >= 0

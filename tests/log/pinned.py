"""
The wire format as it was: bytes that must be read for ever.

Run as a program it adds what is missing in ``wire/``, and changes nothing that is there:

    python tests/log/pinned.py
"""

from __future__ import annotations

import json
import operator
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from flows import WORKFLOWS
from kept import VALUES

from weft import Run, Saga, Workflow, accumulator, each, reduce, sleep, step, wait_for
from weft.core import events as ev
from weft.log import definition_of, encode, encode_segment
from weft.log.snapshot import SnapshotWriter
from weft.log.value_encoder import encode_value
from weft.policy import DEFAULT, Policy

FOLDER = Path(__file__).parent / "wire"

# Of functions that have no code in Python, whose hash is the same in every version of it.
WORKFLOW = Workflow("pinned", step(operator.neg, name="negate") >> step(abs, name="absolute"))
GROWN = WORKFLOW.add(reduce(max, init=0, name="largest"), to="negate")

EVENTS: dict[str, Any] = {
    "workflow_defined": ev.WorkflowDefined(1, "run-1", WORKFLOW),
    "component_added": ev.ComponentAdded(2, ("largest",), GROWN),
    "component_removed": ev.ComponentRemoved(3, "largest", WORKFLOW),
    "input_received": ev.InputReceived(4, [1, 2], 1, 1700000000.5, "key", 1700000060.0),
    "input_received_plainly": ev.InputReceived(4, 5, 1),
    "reaction_occurred": ev.ReactionOccurred(5, "negate", (4,), -5, 2, 1234),
    "reaction_occurred_with_large_value": ev.ReactionOccurred(5, "negate", (4,), ("x" * 2000, 1)),
    "reaction_occurred_with_large_number": ev.ReactionOccurred(5, "negate", (4,), 2**80),
    "fanned_out": ev.FannedOut(6, "map_1", (5,), (1, 2, 3)),
    "state_changed": ev.StateChanged(7, "account", (4,), 70, (("withdrawn", 30),), ("on_complete",), True, 7, 2, 99),
    "state_changed_plainly": ev.StateChanged(7, "light", (4,), "green"),
    "condition_evaluated": ev.ConditionEvaluated(7, "is_even", ((6, 0),), holds=False),
    "runnable_dispatched": ev.RunnableDispatched(8, "absolute", (5, (6, 1)), 3),
    "runnable_delayed": ev.RunnableDelayed(8, "absolute", (5,), 1700000001.25),
    "runnable_completed": ev.RunnableCompleted(9, "absolute", (5,), {"a": 1}),
    "runnable_failed": ev.RunnableFailed(
        10, "absolute", (5,), ev.ErrorDetail("ValueError", ("Exception",), "no", "Traceback"), 3, 5, "dead_letter"
    ),
    "attempt_failed": ev.AttemptFailed(
        9, "absolute", (5,), ev.ErrorDetail("OSError", ("Exception",), "not yet"), 2, 1700000003.5
    ),
    "attempt_failed_since": ev.AttemptFailed(
        9, "absolute", (5,), ev.ErrorDetail("OSError", ("Exception",), "not yet"), 2, 1700000003.5, 1700000001.25
    ),
    "runnable_retried": ev.RunnableRetried(12, "absolute", (5,), (7,), Policy(max_retries=2, timeout=1.5)),
    "runnable_retried_as_it_was": ev.RunnableRetried(12, "absolute", (5,)),
    "policy_changed": ev.PolicyChanged(
        13, (("absolute", Policy(backoff="linear", non_retryable=(ValueError,))), (DEFAULT, Policy.io()))
    ),
    "notified": ev.Notified(14),
    "child_started": ev.ChildStarted(13, "absolute", (5,), "run-1/absolute/0a1b2c3d/other", with_parent=False),
    "run_cancelled": ev.RunCancelled(15, "not wanted"),
    "run_cancelled by": ev.RunCancelled(15, "not wanted", "ann"),
    "run_cancelled to be undone": ev.RunCancelled(15, "not wanted", "ann", undo=True),
    "run_cancelled to be undone with work in flight": ev.RunCancelled(
        15, "not wanted", "ann", undo=True, stopped=(("trip.pay", (5, (6, 1)), 2), ("absolute", (4,), 1))
    ),
    "run_finished": ev.RunFinished(14),
    "run_taken_over": ev.RunTakenOver(14, 2, 7, "absolute", 1700000000.5),
    "continued_as_new": ev.ContinuedAsNew(14, "run-1~2", "ann"),
    "continued_from": ev.ContinuedFrom(2, "run-1", ("a", "b")),
    "continued_from with signals": ev.ContinuedFrom(2, "run-1", ("a",), (("go", "k"),)),
    "log_truncated": ev.LogTruncated(500),
    "state_carried": ev.StateCarried(3, "account", 70, 7, done=True),
    "input_received last": ev.InputReceived(2, 5, 1, 1.5, last=True, by="ann"),
    "input_received carried": ev.InputReceived(2, 5, 1, 1.5, carrier={"traceparent": "00-0a-0b-01"}),
    "runnable_skipped": ev.RunnableSkipped(11, "absolute", (5,), "open", 2),
    "signal_received": ev.SignalReceived(8, "approved", {"by": "Ada"}, 1700000000.5, "key", "ann"),
    "signal_received plainly": ev.SignalReceived(8, "approved", True),
    "signal_refused": ev.SignalRefused(8, "approved", "Expected `str`, got `int` - at `$.by`", 1.5, "key", "ann"),
    "signal_taken": ev.SignalTaken(9, "approval", (4,), {"by": "Ada"}, 8, 1700000000.5),
    "signal_taken of an element": ev.SignalTaken(9, "approval", ((6, 1),), "x" * 2000, 8),
    "timer_started": ev.TimerStarted(8, "nap", (4,), 1700000060.5, 1700000000.5),
    "timer_started until": ev.TimerStarted(8, "nap", (4,), 1700000060.0, 1700000000.5, is_relative=False),
    "timer_fired": ev.TimerFired(9, "nap", (4,), [1, 2], 1700000060.75),
    "token_issued": ev.TokenIssued(8, "ask", (4,), "s3cret", 1700000000.5),
    "completion_awaited": ev.CompletionAwaited(9, "ask", (4,), 2, 1700000000.5, 1700000060.5, 1700000000.25, 99),
    "completion_awaited for ever": ev.CompletionAwaited(9, "ask", ((6, 1),)),
    "completion_received": ev.CompletionReceived(10, "ask", (4,), {"ok": True}, 2, 0, 1700000030.5, "ann"),
    "completion_received as a message": ev.CompletionReceived(0, "", (), "x" * 2000, 1, 0, None, None, "s3cret"),
    "failure_received": ev.FailureReceived(
        10, "ask", (4,), ev.ErrorDetail("ValueError", ("Exception",), "no"), 2, 1700000030.5, "ann"
    ),
    "runnable_cancelled": ev.RunnableCancelled(10, "ask", (4,), "too slow", 2, 1700000030.5, "ann"),
    "failure_received as a message": ev.FailureReceived(
        0, "", (), ev.ErrorDetail("ValueError", ("Exception",), "no"), 1, None, None, "s3cret"
    ),
    "run_retried": ev.RunRetried(16, (10, 12), ((13, 15),), "ann"),
    "run_forked": ev.RunForked(16, "run-0", 15, (5,), (-6,), ((8, 9), (11, 11))),
    "run_upgraded": ev.RunUpgraded(16, GROWN, (4,), ((8, 8),)),
    "run_imported": ev.RunImported(16, "run-0", b"head", ("INPUT",), "ann"),
    "code_changed": ev.CodeChanged(16, ("negate",), WORKFLOW),
}
"""One event of each kind; the names begin with the tag."""


OPEN = Workflow(
    "open",
    [step(operator.neg, name="negate"), step(abs, name="absolute")] >> step(operator.add, name="sum"),
    step(operator.index, name="index") >> accumulator(operator.add, init=0, name="total"),
    step(range, name="count") >> each(step(operator.pos, name="same")) >> reduce(max, init=0, name="largest"),
)


def open_log() -> list[Any]:
    """Return the log of a run with a waiting join, a state, an open batch and a failure."""
    run = Run(OPEN, id="run-1").plan(3, at=1700000000.0)
    events: list[Any] = [
        ev.ReactionOccurred(3, "negate", (2,), -3),
        ev.ReactionOccurred(4, "index", (2,), 3),
        ev.ReactionOccurred(5, "total", (4,), 3),
        ev.ReactionOccurred(6, "count", (2,), range(3)),
        ev.FannedOut(7, next(name for name in OPEN.components if name.startswith("map")), (6,), range(3)),
        ev.ReactionOccurred(8, "same", ((7, 1),), 1),
        ev.InputReceived(9, -1, 2, 1700000001.5, "key", 1700000060.0),
        ev.RunnableFailed(10, "index", (9,), ev.ErrorDetail("ValueError", ("Exception",), "no")),
        ev.AttemptFailed(11, "same", ((7, 0),), ev.ErrorDetail("OSError", ("Exception",), "not yet"), 1, 1700000003.5),
    ]
    return run.record(events).log()


WAITING = Workflow("waiting", sleep(60, name="nap"), wait_for("go", name="go"), step(operator.neg, name="negate"))


def waiting_log() -> list[Any]:
    """Return the log of a run that waits for time and a signal, keeps a signal, and whose owners have died."""
    run = Run(WAITING, id="run-2").plan(3, at=1700000000.0, carrier={"traceparent": "00-0a-0b-01"})
    events: list[Any] = [
        ev.TimerStarted(3, "nap", (2,), 1700000060.0, 1700000000.0),
        ev.SignalReceived(4, "go", "first", 1700000001.0, "key"),
        ev.SignalTaken(5, "go", (2,), "first", 4, 1700000001.0),
        ev.SignalReceived(6, "go", "early", 1700000002.0),
        ev.SignalRefused(7, "go", "no", 1700000002.0, "other"),
        ev.RunTakenOver(8, 1, 2, "negate", 1700000003.0),
        ev.InputReceived(9, 4, 2, 1700000004.0),
    ]
    return run.record(events).log()


BOOKING = Saga("trip")
BOOKING.transaction(operator.ne, name="book", compensate=operator.eq)
BOOKING.transaction(operator.is_, name="pay", compensate=None)
TRIP = Workflow("travel", BOOKING)


def cancelled_log(*, undo: bool) -> list[Any]:
    """Return the log of a run that was cancelled after the first transaction of its saga."""
    stopped = (("trip.pay", (2, 3), 1),) if undo else ()
    events: list[Any] = [
        ev.ReactionOccurred(3, "trip.book", (2,), True),
        ev.RunCancelled(4, "no time", "ann", undo, stopped),
    ]
    return Run(TRIP, id="run-4").plan("Rome", at=1700000000.0).record(events).log()


def forked_log() -> list[Any]:
    """Return the log of a fork, with two edited values, one of them a state, and void events."""
    run = Run.from_log(open_log()).fork(at=3, value=-30, id="run-3")
    return run.fork(at=5, value=300, id="run-3").log()


def pinned(name: str) -> dict[str, Any]:
    """Return the fixtures of one file."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def current() -> dict[str, dict[str, Any]]:
    """Return what would be written now."""
    segments = {name: encode_segment([event]) for name, event in EVENTS.items()}
    return {
        "values": {name: encode_value(value).hex() for name, value in VALUES.items()},
        "events": {
            name: {
                "body": segment.body.hex(),
                "definitions": {key.hex(): body.hex() for key, body in segment.definitions.items()},
                "facts": {key.hex(): body.hex() for key, body in segment.facts.items()},
            }
            for name, segment in segments.items()
        },
        "definitions": {name: workflow.to_dict() for name, (workflow, _) in WORKFLOWS.items()},
        "logs": {
            "finished": encode(WORKFLOW.run(5, id="run-1").log()).hex(),
            "cancelled": encode(cancelled_log(undo=False)).hex(),
            "undoing": encode(cancelled_log(undo=True)).hex(),
        },
        "snapshots": {
            "open": {
                "body": SnapshotWriter().write(Run.from_log(open_log()).memory, b"link").body.hex(),
                "log": encode(open_log()).hex(),
                "definition": definition_of(OPEN).body.hex(),
            },
            "waiting": {
                "body": SnapshotWriter().write(Run.from_log(waiting_log()).memory, b"link").body.hex(),
                "log": encode(waiting_log()).hex(),
                "definition": definition_of(WAITING).body.hex(),
            },
            "forked": {
                "body": SnapshotWriter().write(Run.from_log(forked_log()).memory, b"link").body.hex(),
                "log": encode(forked_log()).hex(),
                "definition": definition_of(OPEN).body.hex(),
            },
            "undoing": {
                "body": SnapshotWriter().write(Run.from_log(cancelled_log(undo=True)).memory, b"link").body.hex(),
                "log": encode(cancelled_log(undo=True)).hex(),
                "definition": definition_of(TRIP).body.hex(),
            },
        },
    }


def main() -> None:
    """Add what is missing."""
    for name, made in current().items():
        kept = made | pinned(name)
        (FOLDER / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

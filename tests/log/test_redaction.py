"""Values of a log that are not to be seen, those of signals and sleeps included."""

from __future__ import annotations

import pytest

from weft import Policy, Run, Runner, Workflow, accumulator, current, events, join, sleep, step, wait_for
from weft.core.run.waits import begin_waits, fire_timer, receive_signal, timers
from weft.errors import InvalidArgument
from weft.log.redaction import Redacted, Redaction

nap, payment = sleep(5, name="nap"), wait_for("paid", name="payment")
FLOW = Workflow(
    "w",
    step(lambda x: f"card {x}", name="card") >> nap >> payment,
    join(nap, payment) >> step(lambda x, y: x, name="both"),
)


def paid() -> Run:
    run = FLOW.plan(4711)
    run.apply(run.prepare()[0].execute())
    begin_waits(run, 0.0)
    fire_timer(run, timers(run.memory)[0][0], 5.0)
    begin_waits(run, 5.0)
    receive_signal(run, "paid", "with card 4711", at=6.0)
    record_refusal(run)
    return run


def record_refusal(run: Run) -> None:
    run.record([events.SignalRefused(len(run.log()) + 1, "paid", "'card 4711' is not wanted")])


def redacted(run: Run, *names: str) -> list[events.AnyEvent]:
    return Redaction(names, b"key").events(run.log())


def test_the_value_of_a_signal_is_hidden_with_the_wait_for_it_or_by_its_name() -> None:
    for name in ("payment", "paid"):
        log = redacted(paid(), name)
        received = next(event for event in log if isinstance(event, events.SignalReceived))
        refused = next(event for event in log if isinstance(event, events.SignalRefused))

        assert isinstance(received.value, Redacted)
        assert refused.reason == "(redacted)"
    taken = next(event for event in redacted(paid(), "payment") if isinstance(event, events.SignalTaken))
    assert isinstance(taken.value, Redacted)


def test_a_sleep_does_not_show_what_it_passes_on() -> None:
    for name in ("card", "nap"):
        fired = next(event for event in redacted(paid(), name) if isinstance(event, events.TimerFired))
        assert isinstance(fired.value, Redacted)
    shown = next(event for event in redacted(paid(), "payment") if isinstance(event, events.TimerFired))
    assert shown.value == "card 4711"


def test_nothing_is_left_if_everything_is_hidden() -> None:
    assert "4711" not in repr(Redaction(True, b"key").events(paid().log())[1:])


def test_the_reason_of_a_skip_is_hidden_too() -> None:
    def fail(x: int) -> int:
        raise ValueError(f"no {x}")

    run = Workflow("w", step(fail)).with_policies([("fail", Policy(on_failure="skip"))]).run(4711)

    log = Redaction(["fail", "INPUT"], b"key").events(run.log())

    assert run.skipped
    assert "4711" not in repr(log[1:])


def test_a_redacted_log_that_waits_folds_as_before() -> None:
    run = paid()

    twin = Run.from_log(Redaction(True, b"key").events(run.log()))

    assert (twin.status, twin.waiting_for) == (run.status, run.waiting_for)


def asked(*, is_cancelled: bool = False) -> tuple[Run, str]:
    """Return a run with an external step that is open, or was cancelled, and the secret part of its token."""
    ask = step(lambda _: current().token, name="ask")
    run = Workflow("w", ask, policies=[("ask", Policy(execution_mode="external"))]).run(1)
    [token] = run.tokens
    if is_cancelled:
        [key] = run.memory.waiting or {}
        run.record([events.RunnableCancelled(len(run.log()) + 1, *key, "card 4711 was stolen", 1, 1.0, "ann")])
        run.react_until_satisfied()
    return run, token.partition(".")[2]


def test_tokens_are_hidden_whatever_is_redacted() -> None:
    run, secret = asked()

    for redact in (["INPUT"], True, lambda name, value: value):
        log = Redaction(redact, b"key").events(run.log())
        twin = Run.from_log(log)

        assert secret not in repr(log[1:])
        assert (twin.status, twin.waiting_for, len(twin.tokens)) == ("waiting", ["ask"], 1)


def test_what_came_from_outside_is_hidden_with_its_step() -> None:
    run, _ = asked()
    run.complete(next(iter(run.tokens)), "card 4711")
    failed, _ = asked()
    failed.fail(next(iter(failed.tokens)), "card 4711 was declined").react_until_satisfied()
    cancelled, _ = asked(is_cancelled=True)

    for each in (run, failed, cancelled):
        assert "card 4711" in repr(each.log()[1:])
        assert "card 4711" not in repr(redacted(each, "ask")[1:])
        assert "card 4711" in repr(redacted(each, "INPUT")[1:])


def test_a_name_that_the_run_does_not_have_is_refused_since_it_would_hide_nothing() -> None:
    for names, hint in ((["Input"], "INPUT"), (["card", "paied"], "paid"), (["payments"], "payment"), (["zz"], "card")):
        with pytest.raises(InvalidArgument, match=f"nothing would be hidden; did you mean .*'{hint}'"):
            redacted(paid(), *names)


def test_a_state_that_was_carried_into_a_new_run_is_hidden() -> None:
    total = accumulator(lambda state, x: state + x, init="", name="total")
    with Runner(executor="inline") as runner:
        runner.start(Workflow("sums", total), "card 4711", id="r", open=True).result()
        carried = runner.log(runner.continue_as_new("r").id)

    assert "4711" in repr(carried)
    assert "4711" not in repr(Redaction(["total"], b"key").events(carried))

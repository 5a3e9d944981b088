"""The runner on virtual time: calls return when nothing more can happen, and time passes when a test says so."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path

import pytest

from weft import Policy, Workflow, sleep, step, wait_for
from weft.errors import InvalidOption, RunFailed, RunnerClosed, SignalTimeout, Stuck
from weft.policy import RateLimit
from weft.stores import MemoryStore, SQLiteStore
from weft.testing import TestRunner

ask = step(lambda order: order, name="ask")
nag = step(lambda order: "reminded", name="nag")


def test_time_stands_still_until_it_is_advanced() -> None:
    with TestRunner() as runner:
        handle = runner.start(Workflow("w", ask >> sleep(days=30) >> nag), 1)
        assert handle.status() == "waiting"

        runner.advance(days=29, hours=23)
        assert handle.status() == "waiting"
        runner.advance(hours=1)

        assert handle.result() == "reminded"
        assert handle.status() == "completed"


def test_things_happen_in_their_order_and_at_their_time() -> None:
    seen: list[tuple[str, float]] = []
    with TestRunner() as runner:
        began = runner.now
        note = step(lambda name: seen.append((name, runner.now - began)), name="note")
        naps = Workflow("w", step(lambda n: n, name="n") >> sleep(seconds=lambda n: 100 * int(n)) >> note)
        for n in "312":
            runner.start(naps, n)

        runner.advance(minutes=10)

    assert seen == [("1", pytest.approx(100)), ("2", pytest.approx(200)), ("3", pytest.approx(300))]


def test_a_wait_that_could_only_end_with_time_says_what_it_waits_for() -> None:
    with TestRunner() as runner:
        handle = runner.start(Workflow("w", ask >> wait_for("approved", timeout=60) >> nag), 1, id="o")

        with pytest.raises(Stuck, match=r"run 'o' is waiting: 'approved' waits for the signal 'approved', 1 min more"):
            handle.result()
        runner.signal("o", "approved", "yes")

        assert handle.result() == "reminded"


def test_the_turns_of_a_rate_limit_are_those_of_one_runner() -> None:
    seldom = Policy(rate_limit=RateLimit("seldom", 1, per=60))
    limited = Workflow("w", ask >> nag, policies=[(ask, seldom)])
    for _ in range(2):  # the time of the second begins where that of the first began
        with TestRunner() as runner:
            assert runner.start(limited, 1).result() == "reminded"

            with pytest.raises(
                Stuck, match=r"the rate limit 'seldom', the next one in 1 min; call advance\(\)"
            ) as stuck:
                runner.start(limited, 2).result()
            assert str(stuck.value).endswith("call advance() or signal()")


def test_a_signal_that_never_comes_times_out_and_an_error_route_takes_it() -> None:
    late = step(lambda failure: f"late: {failure.component}", name="late")
    waits = wait_for("approved", timeout=60).on_error(SignalTimeout, then=late)
    with TestRunner() as runner:
        plain = runner.start(Workflow("plain", ask >> wait_for("approved", timeout=60) >> nag), 1)
        routed = runner.start(Workflow("routed", ask >> waits), 1)
        runner.advance(seconds=61)

        with pytest.raises(RunFailed) as failed:
            plain.result()
        assert isinstance(failed.value.failures["approved"].__cause__, SignalTimeout)
        assert routed.results() == {"late": "late: approved"}


def test_delays_retries_and_coroutines_follow_virtual_time() -> None:
    tries: list[float] = []

    async def unsteady(order: int) -> str:
        await asyncio.sleep(5)
        tries.append(runner.now)
        if len(tries) < 3:
            raise ConnectionError
        return "at last"

    rules = [("unsteady", Policy(max_retries=2, backoff=lambda _: 10.0, delay=100.0))]
    with TestRunner() as runner:
        began = runner.now
        handle = runner.start(Workflow("w", step(unsteady)).with_policies(rules), 1)
        runner.advance(minutes=5)

        assert handle.result() == "at last"
        assert [at - began for at in tries] == [pytest.approx(105), pytest.approx(120), pytest.approx(135)]


def test_a_time_of_day_is_waited_for_without_a_look_at_the_clock_every_second() -> None:
    noon = dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC)
    with TestRunner() as runner:
        handle = runner.start(Workflow("w", ask >> sleep(until=noon) >> nag), 1)

        runner.advance(days=365)

        assert handle.result() == "reminded"


def test_a_store_can_be_used_again_and_one_with_threads_is_refused() -> None:
    store = MemoryStore()
    flow = Workflow("w", ask >> sleep(hours=1) >> nag)
    with TestRunner(store) as runner:
        runner.start(flow, 1, id="o")
    with TestRunner(store, start=runner.now + 7200) as runner:
        runner.register(flow)
        runner.resume_all()

        assert runner.result("o") == "reminded"
    with pytest.raises(InvalidOption, match="virtual time"):
        TestRunner(SQLiteStore("runs.db"))
    with pytest.raises(RunnerClosed):
        runner.status("o")


PRICE = step(lambda x: x * 10, name="price")
APPROVAL = wait_for("approved", timeout=60, name="approval")
SHIP = step(lambda x: f"shipped {x}", name="ship")
ORDER = Workflow("order", PRICE >> APPROVAL >> SHIP)


def test_a_fork_a_retry_and_an_upgrade_wait_on_virtual_time() -> None:
    with TestRunner() as runner:
        original = runner.start(ORDER, 5, id="a")
        runner.advance(seconds=30)
        fork = runner.fork("a", "b", at="price", value=7)
        as_it_was = runner.fork("a", "c")
        runner.advance(seconds=31)

        assert [runner.status(run) for run in "abc"] == ["failed", "waiting", "failed"], "of a and c the time is up"
        with pytest.raises(RunFailed):
            as_it_was.result()
        runner.signal("b", "approved", "in time")
        assert fork.result() == "shipped in time"

        runner.retry("a")
        patient = Workflow("order", PRICE >> wait_for("approved", timeout=600, name="approval") >> SHIP)
        runner.upgrade("a", patient)
        runner.advance(seconds=599)
        assert runner.status("a") == "waiting"
        runner.signal("a", "approved", "at last")
        assert original.result() == "shipped at last"


def test_a_run_is_exported_and_imported_and_two_are_compared(tmp_path: Path) -> None:
    with TestRunner() as runner, TestRunner() as other:
        runner.start(ORDER, 5, id="a")
        runner.export("a", tmp_path / "a.weft", redact=["price"])
        runner.export("a", tmp_path / "whole.weft")
        imported = other.import_run(tmp_path / "whole.weft", "copy")

        assert (imported.id, other.status("copy")) == ("copy", "parked")
        other.resume("copy", workflow=ORDER)
        other.advance(seconds=61)
        assert other.status("copy") == "failed"
        assert not runner.diff("a", "a")


def test_a_file_that_is_not_there_is_said() -> None:
    with TestRunner() as runner, pytest.raises(FileNotFoundError):
        runner.import_run("nowhere.weft")

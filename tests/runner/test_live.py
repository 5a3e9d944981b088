"""Following a run: its events, the streams of its steps, and how far they have come."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from small_flows import Gate, chain, write_numbers

from weft import AsyncRunner, Policy, Runner, Workflow, current, each, step
from weft.core import events as ev
from weft.errors import CorruptLog, InvalidOption, RunFailed, RunNotFound
from weft.ports.store import LoadedRun, LogStore
from weft.runner.checkpoints import every_cycle, manual, on_complete, pipelined
from weft.stores import MemoryStore, SQLiteStore
from weft.testing import Fault, FaultyStore, TestRunner


def asynchronously(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 120))


class Speaker:
    """A step that writes to a stream, and waits in between until it may go on."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()

    def __call__(self, count: int) -> int:
        stream = current().stream("tokens")
        for number in range(count):
            current().progress(number + 1, count, "numbers")
            stream.write(number)
        assert self.goes_on.wait(60)
        stream.write("last")
        return count

    @property
    def workflow(self) -> Workflow:
        return Workflow("speaker", step(self, name="speak") >> step(str, name="end"))


# -- streams -------------------------------------------------------------------------------------


def test_items_are_read_while_the_step_runs(runner: Runner) -> None:
    speaker = Speaker()
    handle = runner.start(speaker.workflow, 3)
    stream = handle.stream("tokens")

    assert [next(stream).value for _ in range(3)] == [0, 1, 2]
    speaker.goes_on.set()

    assert [(item.offset, item.value, item.component, item.attempt) for item in stream] == [(3, "last", "speak", 1)]
    assert handle.result() == "3"


def test_a_stream_is_read_again_from_any_offset(runner: Runner) -> None:
    speaker = Speaker()
    speaker.goes_on.set()
    handle = runner.start(speaker.workflow, 5)
    handle.wait()

    assert [item.value for item in handle.stream("tokens")] == [0, 1, 2, 3, 4, "last"]
    assert [item.value for item in runner.stream(handle.id, "tokens", 4)] == [4, "last"]
    assert list(handle.stream("tokens", 99)) == list(handle.stream("nothing")) == []


@pytest.mark.parametrize("strategy", [every_cycle, on_complete, manual, pipelined()], ids=str)
def test_what_a_step_has_written_is_durable_when_its_result_is(strategy: Any, tmp_path: Path) -> None:
    speaker = Speaker()
    speaker.goes_on.set()
    with Runner(SQLiteStore(tmp_path / "runs.db"), checkpoint=strategy) as runner:
        runner.start(speaker.workflow, 1000, id="s").wait()
    with Runner(SQLiteStore(tmp_path / "runs.db")) as other:
        assert [item.value for item in other.stream("s", "tokens")] == [*range(1000), "last"]


def test_what_a_failed_attempt_has_written_stays_and_the_next_one_writes_its_own(runner: Runner) -> None:
    def flaky(x: int) -> int:
        current().stream("tokens").write(f"attempt {current().attempt}")
        if current().attempt == 1:
            raise ValueError("no")
        return x

    policies = [("flaky", Policy(max_retries=1))]
    handle = runner.start(Workflow("w", step(flaky, name="flaky"), policies=policies), 1)
    handle.wait()

    one, two = handle.stream("tokens")
    assert (one.value, one.attempt, two.value, two.attempt) == ("attempt 1", 1, "attempt 2", 2)
    assert one.execution != two.execution


def test_several_steps_write_to_one_stream_and_the_offsets_have_no_gaps(runner: Runner) -> None:
    def speak(x: int) -> int:
        for number in range(50):
            current().stream("all").write((x, number))
        return x

    handle = runner.start(Workflow("w", each(step(speak, name="speak"))), list(range(8)))
    handle.wait()

    items = list(handle.stream("all"))
    assert [item.offset for item in items] == list(range(400))
    for x in range(8):
        assert [item.value for item in items if item.value[0] == x] == [(x, number) for number in range(50)]


def test_a_thread_that_is_faster_than_the_store_waits_and_nothing_is_lost(tmp_path: Path) -> None:
    def flood(count: int) -> int:
        stream = current().stream("bytes")
        for _ in range(count):
            stream.write(b"x" * 10_000)
        return count

    with Runner(tmp_path / "runs.db") as runner:
        handle = runner.start(Workflow("w", step(flood, name="flood")), 300)
        handle.wait()

        assert sum(len(item.value) for item in handle.stream("bytes")) == 3_000_000


def test_a_coroutine_drains(runner: Runner) -> None:
    async def flood(count: int) -> int:
        stream = current().stream("bytes")
        for _ in range(count):
            stream.write(b"x" * 10_000)
            await stream.drain()
        return count

    handle = runner.start(Workflow("w", step(flood, name="flood")), 300)

    assert handle.result() == 300
    assert len(list(handle.stream("bytes"))) == 300


def test_a_coroutine_that_does_not_drain_is_told(runner: Runner) -> None:
    async def flood(count: int) -> None:
        while True:
            current().stream("bytes").write(b"x" * 1_000_000)

    handle = runner.start(Workflow("w", step(flood, name="flood")), 1)

    with pytest.raises(RunFailed, match=r"await stream\.drain"):
        handle.result()


def test_an_item_that_cannot_be_stored_fails_its_step(runner: Runner) -> None:
    handle = runner.start(Workflow("w", step(lambda x: current().stream("s").write(object()), name="speak")), 1)

    with pytest.raises(RunFailed, match="UnencodableValue"):
        handle.result()


def test_a_worker_process_writes_and_reports(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with Runner(tmp_path / "runs.db", executor="process", processes=1) as runner:
        handle = runner.start(Workflow("w", step(write_numbers, name="speak")), (20, str(gate)))
        stream = handle.stream("numbers")
        assert [next(stream).value for _ in range(20)] == list(range(20))
        while [each.done for each in handle.progress()] != [20]:  # it is sent a moment later
            pass
        (told,) = handle.progress()
        gate.touch()

        assert [item.value for item in stream] == ["last"]
        assert (told.component, told.done, told.total) == ("speak", 20, 20)


def test_another_process_reads_a_stream_and_asks_for_progress(tmp_path: Path) -> None:
    async def main() -> None:
        speaker = Speaker()
        mine, theirs = SQLiteStore(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")
        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            handle = await owner.start(speaker.workflow, 3, id="s")
            found = []
            async for item in other.stream("s", "tokens"):
                found.append(item.value)
                if len(found) == 3:
                    (told,) = await other.progress("s")
                    assert (told.component, told.done, told.total, told.note) == ("speak", 3, 3, "numbers")
                    assert told.share == 1.0
                    speaker.goes_on.set()

            assert found == [0, 1, 2, "last"]
            assert await handle.result() == "3"
            assert list(await theirs.messages(["s"])) == []

    asynchronously(main)


def test_streams_go_on_when_the_store_was_unavailable() -> None:
    for fault in (Fault.fail(), Fault.fail_after()):
        store = FaultyStore(MemoryStore(), {("write_chunks", 1): fault, ("write_chunks", 2): fault})
        with Runner(store) as runner:
            speaker = Speaker()
            speaker.goes_on.set()
            handle = runner.start(speaker.workflow, 3)
            handle.wait()

            assert [item.value for item in handle.stream("tokens")] == [0, 1, 2, "last"]


def test_a_reader_of_a_stream_waits_while_the_store_is_unavailable() -> None:
    def say(count: int) -> None:
        for number in range(count):
            current().stream("said").write(number)

    async def main() -> None:
        store = FaultyStore(MemoryStore(), {("read_chunks", 1): Fault.fail(), ("read_chunks", 2): Fault.fail()})
        async with AsyncRunner(store) as runner:
            handle = await runner.start(Workflow("w", step(say)), 3)
            assert [item.value async for item in handle.stream("said")] == [0, 1, 2]

    asyncio.run(main())


def test_streams_are_gone_with_their_run(runner: Runner) -> None:
    speaker = Speaker()
    speaker.goes_on.set()
    runner.start(speaker.workflow, 3, id="s").wait()
    runner.delete("s")

    with pytest.raises(RunNotFound):
        list(runner.stream("s", "tokens"))


def test_in_memory_items_are_dropped_and_nothing_is_reported() -> None:
    def speak(x: int) -> int:
        current().stream("s").write(object())
        current().progress(1)
        return x

    assert Workflow("w", step(speak, name="speak")).run(1).results() == {"speak": 1}


def test_virtual_time_knows_streams() -> None:
    async def speak(x: int) -> int:
        for number in range(3):
            current().stream("s").write(number)
            await asyncio.sleep(60)
        return x

    with TestRunner() as runner:
        handle = runner.start(Workflow("w", step(speak, name="speak")), 1)
        runner.advance(minutes=5)

        assert [item.value for item in handle.stream("s")] == [0, 1, 2]


# -- progress ------------------------------------------------------------------------------------


def test_only_steps_in_flight_have_progress(runner: Runner) -> None:
    speaker = Speaker()
    handle = runner.start(speaker.workflow, 3)
    next(handle.stream("tokens"))
    runner.wait_until(handle.id, lambda run: True)
    stream = handle.stream("tokens", 2)
    next(stream)

    (told,) = handle.progress()
    assert (told.component, told.attempt) == ("speak", 1)
    speaker.goes_on.set()
    handle.wait()
    assert handle.progress() == []


def test_a_run_that_no_process_drives_has_no_progress(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, 1, id="c").wait()
        assert runner.progress("c") == []
        with pytest.raises(RunNotFound):
            runner.progress("nothing")


# -- events --------------------------------------------------------------------------------------


def test_events_are_followed_until_the_run_has_finished(runner: Runner) -> None:
    gate = Gate()
    handle = runner.start(Workflow("w", step(gate, name="wait") >> step(str, name="end")), 1)
    events = handle.events()

    assert [type(next(events)).__name__ for _ in range(2)] == ["WorkflowDefined", "InputReceived"]
    gate.opened.set()

    assert [(event.seq, type(event).__name__) for event in events] == [
        (3, "ReactionOccurred"),
        (4, "ReactionOccurred"),
    ]
    assert [event.seq for event in handle.events(3)] == [3, 4]
    assert list(handle.events(99)) == []


def test_events_of_a_run_of_another_process_are_followed(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate()
        workflow = Workflow("w", step(gate, name="wait") >> step(str, name="end"))
        async with AsyncRunner(tmp_path / "runs.db") as owner, AsyncRunner(tmp_path / "runs.db") as other:
            await owner.start(workflow, 1, id="r")
            found = []
            async for event in other.events("r"):
                found.append(event.seq)
                gate.opened.set()

            assert found == [1, 2, 3, 4]

    asynchronously(main)


class Counting(SQLiteStore):
    """Notes which segments of a log were loaded."""

    loaded: list[int]

    async def load_since(self, run: str, position: int) -> LoadedRun:
        found = await super().load_since(run, position)
        self.loaded += [segment.first for segment in found.segments]
        return found


def test_a_log_that_another_process_writes_is_read_once_however_often_it_grows(tmp_path: Path) -> None:
    async def main() -> None:
        mine, theirs = SQLiteStore(tmp_path / "runs.db"), Counting(tmp_path / "runs.db")
        theirs.loaded = []
        workflow = Workflow("w", step(lambda x: {"at": x}, name="note"))
        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            handle = await owner.start(workflow, id="r")
            found = []
            async for event in other.events("r"):
                found.append(event)
                if not isinstance(event, ev.InputReceived) and len(found) < 20:
                    await handle.send(len(found))
                elif len(found) == 20:
                    await handle.finish()

            assert [event.seq for event in found] == list(range(1, len(found) + 1))
            assert found == (await owner.get("r")).log()
            assert len(theirs.loaded) > 5, "it was read as it grew"
            assert theirs.loaded == sorted(set(theirs.loaded)), "no segment was read twice"

    asynchronously(main)


def test_a_run_that_was_deleted_and_started_again_is_not_taken_for_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate()
        workflow = Workflow("w", step(gate, name="wait"))
        async with AsyncRunner(tmp_path / "runs.db") as owner, AsyncRunner(tmp_path / "runs.db") as other:
            await owner.start(workflow, id="r")
            events = other.events("r")
            await anext(events)
            await owner.cancel("r")
            await owner.delete("r")
            gate.opened.set()
            await (await owner.start(workflow, 2, id="r")).result()

            with pytest.raises(CorruptLog, match="does not continue what was read"):
                await anext(events)

    asynchronously(main)


def test_a_caller_that_stops_following_leaves_nothing_behind(runner: Runner) -> None:
    gate = Gate()
    handle = runner.start(Workflow("w", step(gate, name="wait")), 1)
    events = handle.events()
    next(events)
    events.close()
    gate.opened.set()

    assert handle.result() == 1


@pytest.mark.parametrize("given", [-1, 0.5, "x", None])
def test_a_position_is_a_whole_number(runner: Runner, given: Any) -> None:
    handle = runner.start(chain, 1)

    with pytest.raises(InvalidOption):
        list(handle.events(given))
    with pytest.raises(InvalidOption):
        list(handle.stream("s", given))

"""
The protocol of leases on virtual time: processes that freeze, answers that are late or lost, clocks that drift.

The database is a model of four columns; when a process is sure of its lease is what the store computes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from weft.stores.postgres.lease import sure_until

LEASE = 10.0
RUNS, PROCESSES = 2, 2


@dataclass
class Database:
    """The rows that decide who owns what, and the clock that measures leases."""

    now: float = 0.0
    expires: dict[int, float] = field(default_factory=dict)
    owner: dict[int, int] = field(default_factory=dict)
    epoch: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(RUNS), 1))
    log: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: {run: [] for run in range(RUNS)})
    """Of each run: the process and the epoch of every append."""

    def is_free(self, run: int) -> bool:
        return run not in self.owner or self.expires[self.owner[run]] <= self.now

    def claim(self, process: int, run: int) -> int | None:
        if self.owner.get(run) != process and not self.is_free(run):
            return None
        self.owner[run] = process
        self.epoch[run] += 1
        return self.epoch[run]

    def append(self, process: int, run: int, epoch: int, head: int) -> bool:
        if self.epoch[run] != epoch or len(self.log[run]) != head:
            return False
        self.log[run].append((process, epoch))
        return True


@dataclass
class Process:
    """A process, with a clock that runs a little too fast or too slow."""

    number: int
    drift: float
    sure_until: float = -1.0
    held: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The epoch and the head of each run that it believes to have."""
    pending: list[tuple[float, float, bool]] = field(default_factory=list)
    """Renewals on their way: when each was sent, how long until it is executed, and whether its answer comes."""

    def clock(self, now: float) -> float:
        return now * self.drift

    def is_sure(self, now: float) -> bool:
        return self.clock(now) < self.sure_until


moments = st.integers(0, 30).map(lambda twentieth: twentieth * LEASE / 20)  # so that some fall between two limits

actions = st.one_of(
    st.tuples(st.just("pass"), moments, st.none()),
    st.tuples(st.just("renew"), st.integers(0, PROCESSES - 1), st.tuples(moments, st.booleans())),
    st.tuples(st.just("renew"), st.integers(0, PROCESSES - 1), st.just((0.0, True))),
    st.tuples(st.just("claim"), st.integers(0, PROCESSES - 1), st.integers(0, RUNS - 1)),
    st.tuples(st.just("late append"), st.integers(0, PROCESSES - 1), st.integers(0, RUNS - 1)),
    st.tuples(st.just("append"), st.integers(0, PROCESSES - 1), st.integers(0, RUNS - 1)),
)


def deliver(database: Database, process: Process) -> None:
    """Execute the renewals of *process* that have reached the database."""
    for sent, delay, is_answered in [each for each in process.pending if each[0] + each[1] <= database.now]:
        process.pending.remove((sent, delay, is_answered))
        executed = sent + delay
        database.expires[process.number] = max(database.expires.get(process.number, 0.0), executed + LEASE)
        if is_answered:
            process.sure_until = max(process.sure_until, sure_until(process.clock(sent), LEASE))


def step(database: Database, processes: list[Process], action: tuple[str, float | int, object]) -> None:
    """Do what was drawn."""
    match action:
        case ("pass", float(seconds), _):
            database.now += seconds
            for process in processes:
                deliver(database, process)
        case ("renew", int(number), (float(delay), bool(is_answered))):
            processes[number].pending.append((database.now, delay, is_answered))
            deliver(database, processes[number])
        case ("claim", int(number), int(run)) if processes[number].is_sure(database.now):
            epoch = database.claim(number, run)
            if epoch is not None:
                processes[number].held[run] = (epoch, len(database.log[run]))
        case (("append" | "late append") as name, int(number), int(run)) if run in processes[number].held:
            process = processes[number]
            epoch, head = process.held[run]
            if name == "late append" or process.is_sure(database.now):  # the late one was sent when it was sure
                if database.append(number, run, epoch, head):
                    process.held[run] = (epoch, head + 1)
                else:
                    assert epoch != database.epoch[run], "the owner of a run was refused"
                    del process.held[run]
        case _:
            pass


TAKEN_OVER: list[tuple[str, float | int, object]] = [
    *(("renew", 0, (0.0, True)), ("claim", 0, 0), ("pass", 1.2 * LEASE, None)),
    *(("renew", 1, (0.0, True)), ("claim", 1, 0), ("late append", 0, 0), ("append", 1, 0)),
]


@example(script=TAKEN_OVER, drifts=[1.0, 1.0])
@settings(max_examples=400)
@given(
    script=st.lists(actions, max_size=60),
    drifts=st.lists(st.floats(0.999, 1.001), min_size=PROCESSES, max_size=PROCESSES),
)
def test_while_a_process_is_sure_no_other_has_its_runs_and_in_an_epoch_one_process_writes(
    script: list[tuple[str, float | int, object]], drifts: list[float]
) -> None:
    database, processes = Database(), [Process(number, drift) for number, drift in enumerate(drifts)]
    for action in script:
        step(database, processes, action)

        for process in processes:
            if process.is_sure(database.now):
                assert database.expires[process.number] > database.now
        for run, log in database.log.items():
            writers = {epoch: number for number, epoch in log}
            assert log == [(writers[epoch], epoch) for epoch in sorted(epoch for _, epoch in log)]
            holders = [
                each.number
                for each in processes
                if each.is_sure(database.now) and each.held.get(run, (0, 0))[0] == database.epoch[run]
            ]
            assert len(holders) <= 1

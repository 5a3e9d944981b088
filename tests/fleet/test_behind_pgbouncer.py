"""A fleet of real processes behind a real PgBouncer in transaction mode: a few sessions for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fault_flows
import fleet_flows as flows
import pytest
import spread_flows
from fault_trial import RUNS, Expected, chained, squared, trial
from pgbouncer import PgBouncer, keeps_prepared_statements, needed, pgbouncer
from processes import workers
from servers import asked
from test_faults import BOOKED, stop

from weft import Client

pytestmark = needed
SESSIONS = 4
"""For two workers, each of which would have four connections."""


@pytest.fixture(params=["no statement is kept", "statements are kept"])
def is_prepared(request: pytest.FixtureRequest) -> bool:
    """Whether the pooler keeps prepared statements."""
    if request.param == "statements are kept" and not keeps_prepared_statements():
        pytest.skip("PgBouncer keeps prepared statements from 1.21 on")
    return request.param == "statements are kept"


@pytest.fixture
def pooler(dsn: str, is_prepared: bool) -> Iterator[PgBouncer]:
    with pgbouncer(dsn, sessions=SESSIONS, prepared=200 if is_prepared else 0) as found:
        yield found


def options(dsn: str, *, is_prepared: bool, is_direct: bool) -> list[str]:
    """Return the options of a worker behind the pooler."""
    return [*([] if is_prepared else ["--unprepared"]), *(["--listen-dsn", dsn] if is_direct else [])]


@pytest.mark.parametrize("is_direct", [True, False], ids=["with a direct address", "without one"])
def test_workers_that_are_killed_lose_nothing(
    dsn: str, pooler: PgBouncer, is_prepared: bool, is_direct: bool, tmp_path: Path
) -> None:
    asked(dsn, lambda db: db.execute(fault_flows.TABLE))
    named = ["--concurrency", "16", *options(dsn, is_prepared=is_prepared, is_direct=is_direct)]
    with (
        Client(pooler.address, prepared=is_prepared) as client,
        workers(pooler.address, tmp_path, Path(fault_flows.__file__)) as fleet,
        trial("kill -9 behind PgBouncer", dsn, tmp_path) as faults,
    ):
        books = max(2, RUNS // 10)
        ids = client.start_many(fault_flows.booked, range(books)).ids
        chains = client.start_many(flows.chain, range(RUNS)).ids
        waiting = client.start_many(flows.approval, [1] * 4).ids
        living = [fleet.start(*named) for _ in range(2)]
        for share in faults.shares(2):
            faults.until(lambda share=share: len(fleet.noted("end")) >= share)
            living.pop(faults.random.randrange(len(living))).kill()
            faults.faults["kills"] += 1
            living.append(fleet.start(*named))
        for run in waiting:
            client.signal(run, "go", "yes")

        approved = dict.fromkeys(waiting, Expected("yes", ("begin", "forward")))
        faults.check(chained(ids, BOOKED) | chained(chains) | approved)
        assert asked(dsn, lambda db: db.fetchval("select count(*) from booked")) == books
        stop(*living)


def test_a_map_is_spread(dsn: str, pooler: PgBouncer, is_prepared: bool, tmp_path: Path) -> None:
    named = options(dsn, is_prepared=is_prepared, is_direct=True)
    with (
        Client(pooler.address, prepared=is_prepared) as client,
        workers(pooler.address, tmp_path, Path(spread_flows.__file__)) as fleet,
        trial("a map behind PgBouncer", dsn, tmp_path) as faults,
    ):
        ids = client.start_many(spread_flows.squares, [20] * 4).ids
        living = [fleet.start("--queues", queue, *named) for queue in ("default", spread_flows.QUEUE)]

        faults.check(squared(ids, 20))
        stop(*living)

"""Log records that carry the run, the component and the attempt that wrote them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from weft import Policy, Runner, Workflow, step
from weft.contrib.logs import RunFilter, add_run

log = logging.getLogger("shop")


class Kept(logging.Handler):
    """Keeps the records that reach it."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Any] = []
        self.addFilter(RunFilter())

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def fields(self, logger: str) -> list[tuple[Any, ...]]:
        return [(each.run_id, each.component, each.attempt) for each in self.records if each.name == logger]


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


def charge(amount: int) -> int:
    log.warning("the bank is slow")
    return amount // 0


async def acharge(amount: int) -> int:
    log.warning("the bank is slow")
    return amount


retry = [("charge", Policy(max_retries=1, base_delay=0.001))]


def test_a_record_of_a_step_carries_its_run_and_its_attempt(kept: Kept) -> None:
    with Runner() as runner:
        runner.start(Workflow("orders", step(charge)), 5, id="r", policies=retry).wait()

    assert kept.fields("shop") == [("r", "charge", 1), ("r", "charge", 2)]


def test_coroutines_at_once_do_not_mix_their_runs(kept: Kept) -> None:
    with Runner() as runner:
        runner.start_many(Workflow("orders", step(acharge)), range(20), ids=[f"r{i}" for i in range(20)]).gather()

    assert sorted(kept.fields("shop")) == sorted((f"r{i}", "acharge", 1) for i in range(20))


def test_a_failure_that_weft_logs_carries_them_too(kept: Kept) -> None:
    with Runner() as runner:
        runner.start(Workflow("orders", step(charge)), 5, id="r").wait()

    assert kept.fields("weft.runner") == [("r", "charge", 1)]


def test_a_record_from_elsewhere_has_empty_fields_so_that_every_format_works(kept: Kept) -> None:
    log.warning("no run here")

    assert kept.fields("shop") == [("", "", "")]
    assert logging.Formatter("%(run_id)s|%(message)s").format(kept.records[0]) == "|no run here"


def test_structlog_takes_them_from_a_processor() -> None:
    kept = structlog.testing.CapturingLogger()
    logger = structlog.wrap_logger(kept, processors=[add_run, structlog.processors.KeyValueRenderer(sort_keys=True)])

    def ship(order: int) -> int:
        logger.info("ready")
        return order

    logger.info("before")
    with Runner() as runner:
        runner.start(Workflow("orders", step(ship)), 5, id="r").wait()

    assert [call.args[0] for call in kept.calls] == [
        "event='before'",
        "attempt=1 component='ship' event='ready' run_id='r'",
    ]

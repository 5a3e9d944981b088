"""A shop whose runs the browser looks at."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from weft import Runner, Workflow, each, reduce, step, wait_for


class CardDeclined(Exception):
    """The bank said no."""


@step
def lines(order: dict[str, int]) -> list[int]:
    return list(range(order["lines"]))


@step
def price(line: int) -> float:
    return line * 12.5


total = reduce(lambda acc, x: acc + x, init=0.0, name="total")


@step
def charge(amount: float) -> dict[str, float]:
    if amount > 100:
        raise CardDeclined("do_not_honor")
    return {"charged": amount}


@step
def ship(charged: dict[str, float], approval: object) -> str:
    return "shipped"


@dataclass
class Approval:
    """The answer of a person."""

    ok: bool
    note: str = ""


approved = wait_for("approved", schema=Approval, timeout=3_600)
orders = Workflow("orders", lines >> each(price) >> total >> [charge, approved], [charge, approved] >> ship)


@step
def sync(sku: str) -> str:
    raise ConnectionError("warehouse refused the connection")


stock = Workflow("stock", sync)


def fill(path: Path) -> None:
    """Make runs: one waits for a person, one has also failed, one is done, one is cancelled, and one has failed."""
    logging.getLogger("weft").setLevel(logging.CRITICAL)
    with Runner(path) as runner:
        for id, size in (("waits", 3), ("declined", 30), ("done", 4), ("stopped", 2)):
            runner.start(orders, {"lines": size}, id=id, by="api")
            runner.wait_until(id, lambda run: "approved" in run.waiting_for)
        runner.wait_until("declined", lambda run: "charge" in run.failures)
        runner.signal("done", "approved", {"ok": True}, by="grace")
        runner.wait("done")
        runner.cancel("stopped", "wrong file", by="alan")
        runner.start(stock, "SKU-1", id="failed")
        runner.wait("failed")
        runner.schedule("nightly", orders, cron="0 3 * * *", timezone="Europe/Berlin")
        runner.schedule("hourly", orders, every=3_600)
        runner.pause("hourly", by="ada")

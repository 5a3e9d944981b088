"""
The workflow of the demonstration: an order is priced, reserved, invoiced and shipped.

Its steps are ordinary functions.  Their effects on the outside world are a few lines in files of one folder, which
they get as context, which is never logged and is passed again when the run is resumed.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from weft.cli.demo.world import Call, World
from weft.core.components.join import join
from weft.core.components.map import each
from weft.core.components.reduce import reduce
from weft.core.components.step import step
from weft.core.functions.current import current
from weft.core.functions.references import context
from weft.core.workflow import Workflow
from weft.policy.policy import Policy

ORDER = {"customer": "Ada", "basket": {"cups": 4, "milk": 1, "sugar": 1, "tea": 2, "teapot": 1}}
PRICES = {"cups": 3.5, "milk": 1.2, "sugar": 0.9, "tea": 4.5, "teapot": 32.0}
UNSTEADY = "sugar"
"""The item that the supplier cannot price at the first attempt."""
STUCK = "teapot"
"""The item for which the supplier does not answer while the line is down."""
RUN = "order-1"


def _call(folder: str, subject: str = "") -> Call:
    here = current()
    return World(Path(folder)).call(here.component, subject, here.attempt, here.idempotency_key)


@step
def lines(order: dict[str, Any], folder: str = context("folder")) -> list[tuple[str, int]]:
    """Take the basket apart."""
    with _call(folder):
        return sorted(order["basket"].items())


@step
def price(line: tuple[str, int], folder: str = context("folder")) -> float:
    """Ask the supplier for a price."""
    name, count = line
    with _call(folder, name):
        time.sleep(0.1)
        if name == UNSTEADY and current().attempt == 1:
            raise ConnectionError("the supplier is busy")
        if name == STUCK:
            World(Path(folder)).wait_for_the_line()
        return PRICES[name] * count


def add(total: float, amount: float) -> float:
    """Sum up."""
    return round(total + amount, 2)


@step
def reserve(order: dict[str, Any], folder: str = context("folder")) -> str:
    """Reserve the goods: the warehouse recognises a repeated request by its key."""
    with _call(folder):
        world = World(Path(folder))
        number = world.reserve(current().idempotency_key, order["customer"])
        world.wait_for_the_line()
        return f"reservation {number}"


@step
def invoice(total: float, reservation: str, folder: str = context("folder")) -> str:
    """Write the invoice."""
    with _call(folder):
        return f"{total} EUR, {reservation}"


@step
def ship(invoice: str, folder: str = context("folder")) -> str:
    """Ship the order."""
    with _call(folder):
        return f"shipped: {invoice}"


total = reduce(add, init=0.0, name="total")

orders = (
    Workflow("orders", lines >> each(price) >> total, reserve, join(total, reserve) >> invoice >> ship)
    .add_policy("price", Policy(max_retries=3, backoff="exponential", base_delay=0.05))
    .add_policy("reserve", Policy(execution_mode="durable"))
)

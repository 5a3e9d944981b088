"""Orders with a fraud rule, an approval and a saga that undoes what it did."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft import Policy, Runner, Saga, Workflow, condition, current, rule, step, wait_for

STOCK = {"tea": 10, "pot": 1}
LARGE = 100.0


@dataclass
class Order:
    id: str
    customer: str
    item: str
    amount: float
    is_new: bool = False


@dataclass
class Approval:
    ok: bool
    by: str


class CardDeclined(Exception):
    """The bank refuses the card for good."""


is_large = condition(lambda order: order.amount > LARGE, name="is_large")


@rule(given=Order, when=lambda amount, is_new: is_new and amount > LARGE)
def suspicious(order: Order) -> str:
    return f"{order.customer} is new and wants to spend {order.amount:.0f}"


@step
def ask(order: Order) -> Order:
    print(f"  {order.id}: a person is asked about {order.amount:.0f} EUR")
    return order


approved = wait_for("approved", schema=Approval, timeout=3 * 86_400)


@step
def decide(order: Order, approval: Approval) -> Order:
    if not approval.ok:
        raise PermissionError(f"{approval.by} said no")
    return order


small = rule(when=~is_large, then=lambda order: order, name="small")

fulfil = Saga("fulfil")


@fulfil.transaction
def reserve(order: Order, results: dict[str, Any]) -> str:
    STOCK[order.item] -= 1
    return f"one {order.item}"


@reserve.compensate
def release(order: Order, results: dict[str, Any]) -> None:
    STOCK[order.item] += 1


@fulfil.transaction
def charge(order: Order, results: dict[str, Any]) -> str:
    if order.customer == "mallory":
        raise CardDeclined("do_not_honor")
    return f"{order.amount:.0f} EUR, key {current().idempotency_key[:6]}"


@charge.compensate
def refund(order: Order, results: dict[str, Any]) -> str:
    return f"refunded {results['charge']}"


@fulfil.transaction(compensate=None)
def ship(order: Order, results: dict[str, Any]) -> str:
    return f"{results['reserve']} for {order.customer}"


orders = Workflow(
    "orders",
    suspicious,
    small,
    is_large >> ask >> approved,
    [ask, approved] >> decide,
    small >> fulfil,
    decide >> fulfil,
    policies=[("fulfil.charge", Policy(max_retries=2, backoff="exponential", non_retryable=(CardDeclined,)))],
)


def main(path: Path) -> None:
    """Run three orders."""
    with Runner(path) as runner:
        runner.register(Order, Approval)
        runner.start(orders, Order("o-1", "ada", "tea", 9.0), id="o-1")
        runner.start(orders, Order("o-2", "mallory", "tea", 50.0), id="o-2")
        runner.start(orders, Order("o-3", "grace", "pot", 320.0, is_new=True), id="o-3")
        runner.wait_until("o-3", lambda run: run.waiting_for == ["approved"])
        runner.signal("o-3", "approved", Approval(ok=True, by="linus"), by="linus")
        for id in ("o-1", "o-2", "o-3"):
            run = runner.wait(id)
            saga = run.state_of("fulfil")
            undone = f", undone: {', '.join(saga.compensated)}" if saga.compensated else ""
            print(f"  {id}: {run.status}, the saga is {saga.status}{undone}")
        print(f"  warning: {runner.get('o-3').value('suspicious')}")
        print(f"  stock: {STOCK}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "orders.db")

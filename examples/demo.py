"""
An order, from the basket to the door: what Weft does in memory, in one screen.

A basket is priced line by line (a map within the graph), checked for fraud and stock in parallel, and either shipped
or held.  Then come three questions that most engines cannot answer: where did this value come from, what exactly
happened, and can the run continue in a process that never saw its beginning?
"""

from __future__ import annotations

import sys

from weft import Run, Workflow, accumulator, context, each, join, reduce, rule, state_of, step

PRICES = {"tea": 4.5, "milk": 1.2, "pot": 32.0}


@step
def lines(order: dict) -> list[tuple[str, int]]:
    return sorted(order["basket"].items())


@step
def price(line: tuple[str, int]) -> float:
    name, count = line
    return PRICES[name] * count


total = reduce(lambda acc, amount: round(acc + amount, 2), init=0.0, name="total")


@step
def reserve_stock(order: dict) -> str:
    return f"reserved {sum(order['basket'].values())} items"


@step
async def screen_fraud(order: dict) -> str:
    return "suspicious" if order["customer"] == "mallory" else "clean"


@step
def decide(amount: float, stock: str, fraud: str) -> dict:
    return {"ship": fraud == "clean", "amount": amount, "stock": stock}


@accumulator(init=0.0)
def revenue(so_far: float, decision: dict) -> float:
    return round(so_far + decision["amount"], 2) if decision["ship"] else so_far


@rule(when=lambda decision: decision["ship"])
def ship(decision: dict, carrier: str = context("carrier", default="post")) -> str:
    return f"{decision['stock']}, shipped by {carrier}"


@rule(when=lambda decision: not decision["ship"])
def hold(decision: dict) -> str:
    return f"held: {decision['amount']} EUR look wrong"


@rule(when=lambda decision, earned=state_of("revenue"): earned > 50)
def celebrate(decision: dict, earned: float = state_of("revenue")) -> str:
    return f"{earned} EUR today!"


orders = Workflow(
    "orders",
    lines >> each(price) >> total,
    reserve_stock,
    screen_fraud,
    join(total, reserve_stock, screen_fraud) >> decide >> [revenue, ship, hold, celebrate],
)


def title(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}")


def main() -> None:
    title("Three orders, one run")
    run = orders.plan(context={"carrier": "bike"}, id="monday")
    for order in (
        {"customer": "ada", "basket": {"tea": 2, "milk": 1}},
        {"customer": "mallory", "basket": {"pot": 9}},
        {"customer": "grace", "basket": {"pot": 1, "tea": 3}},
    ):
        run.run(order)
        print(f"  {order['customer']:8} -> {run.value('decide')}")
    for name in ("ship", "hold", "celebrate"):
        print(f"  {name:10} {run.values(name)}")
    print(f"  revenue    {run.state_of('revenue')} EUR")

    title("Why did we celebrate?  The causes of that value, back to the order")
    print(run.explain("celebrate"))

    title("A step fails: it is recorded, its branch ends, everything else continues")
    broken = run.run({"customer": "joan", "basket": {"tea": 1, "unicorn": 1}})
    for name, failure in broken.failures.items():
        print(f"  {name:6} {type(failure.__cause__).__name__}: {failure}")
    print(f"  the other branches ran: {run.values('reserve_stock')[-1]!r}, {run.values('screen_fraud')[-1]!r}")

    title("Stop in the middle, keep the log, continue elsewhere: no completed step runs again")
    half = orders.react({"customer": "alan", "basket": {"tea": 10}}, context={"carrier": "bike"})
    log = half.log()
    print(f"  stopped after {len(log)} events; ready: {', '.join(r.component for r in half.prepare())}")
    rest = Run.from_log(log, context={"carrier": "ship"})
    rest.react_until_satisfied()
    print(f"  continued to {len(rest.log())} events: {rest.value('ship')!r}")
    for event in rest.log()[1:6]:
        value = getattr(event, "value", getattr(event, "holds", ""))
        print(f"    {event.seq:2} {type(event).__name__:18} {getattr(event, 'component', ''):14} {value!r}")
    print("     ...")


if __name__ == "__main__":
    main()

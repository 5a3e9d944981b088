"""A new version of a workflow, and runs that are moved to it while they wait."""

from __future__ import annotations

import tempfile
from pathlib import Path

from weft import Runner, Workflow, step, wait_for

RUNS = 100
sent: list[str] = []


@step
def welcome(customer: str) -> str:
    sent.append(customer)
    return customer


paid = wait_for("paid", schema=int, timeout=30 * 86_400)


@step
def activate(amount: int) -> str:
    return f"active for {amount} EUR"


@step
def receipt(activation: str) -> str:
    return f"receipt: {activation}"


first = Workflow("subscription", welcome >> paid >> activate)
second = Workflow("subscription", welcome >> paid >> activate >> receipt)


def main(path: Path) -> None:
    """Start runs on the first version, and let half of them follow the second."""
    ids = [f"sub-{number}" for number in range(RUNS)]
    with Runner(path) as runner:
        runner.start_many(first, [f"customer {number}" for number in range(RUNS)], ids=ids)
        for id in ids:
            runner.wait_until(id, lambda run: run.status == "waiting")
    print(f"  {len(sent)} runs wait for a payment, and their process has ended")

    with Runner(path) as runner:
        preview = runner.upgrade(ids[0], second, preview=True)
        print(f"  an upgrade would add {', '.join(preview.new)} and lose {', '.join(preview.lost) or 'nothing'}")
        for id in ids[: RUNS // 2]:
            runner.upgrade(id, second, by="deploy-42")
        runner.resume_all()
        for id in ids:
            runner.signal(id, "paid", 9)
        results = runner.gather(ids)
    print(f"  {results[0]!r} and {results[-1]!r}")
    print(f"  {sum('receipt' in result for result in results)} receipts, {len(sent)} welcomes")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder) / "runs.db")

"""Sales in CSV files, one per day, become one report: a map over files, and two reduces."""

from __future__ import annotations

import csv
import json
import tempfile
from pathlib import Path

from weft import INPUT, Failure, Policy, Runner, Workflow, collect, each, reduce, step

Row = tuple[str, float]
Sums = dict[str, float]


@step
def find(folder: str) -> list[str]:
    return sorted(str(path) for path in Path(folder).glob("*.csv"))


@step
def parse(path: str) -> list[Row]:
    with Path(path).open(newline="", encoding="utf-8") as file:
        return [(row["city"], float(row["amount"])) for row in csv.DictReader(file, strict=True)]


@step
def sums(rows: list[Row]) -> Sums:
    by_city: Sums = {}
    for city, amount in rows:
        by_city[city] = by_city.get(city, 0.0) + amount
    return by_city


def add(total: Sums, one: Sums) -> Sums:
    return {city: round(total.get(city, 0.0) + one.get(city, 0.0), 2) for city in sorted({*total, *one})}


total = reduce(add, init=dict, name="total")


@step
def aside(failure: Failure) -> str:
    """Say which file was left out, and why; the failure is data."""
    return f"{Path(failure.input).name}: {failure.message}"


left_out = collect(name="left_out")


@step
def report(folder: str, totals: Sums) -> str:
    """Write the report under another name and rename it: it is whole, or not there."""
    new = Path(folder, "report.new")
    new.write_text(json.dumps(totals), encoding="utf-8")
    return str(new.replace(Path(folder, "report.json")))


sales = Workflow(
    "sales",
    find >> each(parse.on_error(ValueError, then=aside) >> sums) >> total,
    [INPUT, total] >> report,
    aside >> left_out,
    policies=[(parse, Policy.io(non_retryable=(ValueError,)))],
)


def main(folder: Path) -> None:
    """Make thirty files, two of them damaged, and sum them up."""
    for day in range(1, 31):
        amounts = ["oops" if day % 15 == 0 else str(day * number) for number in (1, 2, 3)]
        rows = zip(["Oslo", "Rome", "Oslo"], amounts, strict=True)
        lines = ["city,amount", *(",".join(row) for row in rows)]
        (folder / f"2026-11-{day:02}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with Runner(folder / "runs.db") as runner:
        run = runner.start(sales, str(folder), id="november").wait()
    written = Path(run.value("report")).read_text(encoding="utf-8")
    print(f"  {run.status}, of {len(run.values('parse'))} files: {written}")
    for reason in run.value("left_out"):
        print(f"  left out: {reason}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made))

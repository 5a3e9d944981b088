"""Lets the tests of the core import what they share, and runs a test in several orders."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from weft import Run

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(params=range(8), ids=lambda seed: f"order{seed}")
def finish(request: pytest.FixtureRequest) -> Callable[[Run], Run]:
    """Run to the end, one runnable at a time, in an arbitrary order; each test that asks for this runs in several."""
    order = random.Random(request.param)  # noqa: S311 - an order, not a secret

    def to_the_end(run: Run) -> Run:
        while runnables := run.prepare():
            run.apply(order.choice(runnables).execute())
        return run

    return to_the_end

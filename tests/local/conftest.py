"""Lets these tests import what they share, and begins each with limits that nothing has used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.local.counters import COUNTERS

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def fresh_limits() -> Iterator[None]:
    COUNTERS.reset()
    yield
    COUNTERS.reset()

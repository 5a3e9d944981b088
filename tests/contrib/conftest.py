"""Puts the helpers of these tests where they can be imported, and lets each of them see its own runners alone."""

from __future__ import annotations

import sys
from pathlib import Path
from weakref import WeakSet

import pytest

from weft.telemetry import levels

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _own_runners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the runners that tests before these have left open on purpose: levels are those of the whole process."""
    monkeypatch.setattr(sys.modules[levels.__module__], "_sources", WeakSet())

"""Puts the helpers of these tests where they can be imported, and names the file that a test may use."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from weft.stores.sqlite import writer as writers

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause is long enough: what a writer does in one is done when a test says so."""
    monkeypatch.setattr(writers, "_QUIET", 3600.0)

"""Pages of long runs are waited for, however busy the machine is."""

from __future__ import annotations

import pytest

from weft.web import run_page


@pytest.fixture(autouse=True)
def is_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_page, "PATIENCE", None)

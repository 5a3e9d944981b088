"""The store of the page about stores passes the contract that the page recommends."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from weft.testing import StoreContract

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-a-store.md"


class TestFolderStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Any:
        code = re.search(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        assert code is not None
        known: dict[str, Any] = {"__name__": "page"}
        exec(compile(code[1], PAGE.name, "exec"), known)  # noqa: S102 - our own page
        return known["FolderStore"](tmp_path / "runs")

"""Puts the helpers of these tests where they can be imported, and makes a module that worker processes can import."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def main_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the main module, which a worker would import: in a test run that is pytest, and takes half a second."""
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__spec__", None, raising=False)
    monkeypatch.delattr(main, "__file__", raising=False)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that parent and workers can import."""
    from shop_module import SHOP  # it is found only now

    (tmp_path / "weft_shop.py").write_text(SHOP, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("weft_shop")
    del sys.modules["weft_shop"]

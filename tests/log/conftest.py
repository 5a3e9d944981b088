"""Lets these tests import their own samples, and the random workflows of the properties."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.log import class_registry

HERE = Path(__file__).parent

sys.path[:0] = [str(HERE), str(HERE.parent / "properties")]


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Forget the classes that the tests of a module register."""
    registered, names = dict(class_registry._registered), dict(class_registry._names)
    yield
    for now, before in ((class_registry._registered, registered), (class_registry._names, names)):
        now.clear()
        now.update(before)  # type: ignore[arg-type]

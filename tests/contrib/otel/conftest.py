"""Runners that are observed through a tracer provider that keeps its spans."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.contrib import otel

sys.path.append(str(Path(__file__).parents[1]))

from kept_spans import Kept


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def spans(kept: Kept) -> Iterator[Kept]:
    """The spans of runners that are observed."""
    with otel.instrument(tracer_provider=kept.provider, metrics=False):
        yield kept

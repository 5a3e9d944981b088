"""
The pytest plugin: fixtures for tests of workflows, and a marker that lets faults happen to them.

It is found by its entry point when Weft is installed; the tools for tests are imported when a test uses a fixture.

| fixture | is |
| --- | --- |
| ``weft_runner`` | an open :class:`~weft.testing.runner.TestRunner`: production code on virtual time |
| ``weft_clock`` | a :class:`~weft.testing.clock.VirtualClock`, for workflows without a runner |
| ``weft_store`` | a SQLite store in ``tmp_path``, which is not open yet |

``@pytest.mark.weft_faults`` lets the process of ``weft_runner`` die between the calls of the test, and its store
fail or say that it failed, as drawn from a seed; ``@pytest.mark.weft_faults(seed=7)`` repeats what seed 7 draws.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from weft.stores import SQLiteStore
    from weft.testing import TestRunner, VirtualClock

MARKER = "weft_faults"
_SEED: pytest.StashKey[int] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, so that ``--strict-markers`` knows it."""
    config.addinivalue_line(
        "markers", f"{MARKER}(seed=None, share=0.2): let faults that a seed draws happen to the runner of this test"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say with which seed a test that failed had its faults."""
    report = yield
    seed = item.stash.get(_SEED, None)
    if report.failed and seed is not None and call.excinfo is not None:
        report.sections.append(("weft faults", f"repeat them with @pytest.mark.{MARKER}(seed={seed})"))
    return report


@pytest.fixture
def weft_runner(request: pytest.FixtureRequest) -> Iterator[TestRunner]:
    """Return an open runner on virtual time, with faults if the test is marked so."""
    from weft.testing.runner import TestRunner

    marker = request.node.get_closest_marker(MARKER)
    if marker is None:
        with TestRunner() as runner:
            yield runner
        return
    from weft.testing.faulty_runner import FaultyTestRunner

    seed, share = _said(marker)
    request.node.stash[_SEED] = seed
    with FaultyTestRunner(seed, share=share) as runner:
        yield runner


@pytest.fixture
def weft_clock() -> VirtualClock:
    """Return a clock on which a sleep takes no time."""
    from weft.testing.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def weft_store(tmp_path: Path) -> SQLiteStore:
    """Return a SQLite store on a new file; a runner opens and closes it."""
    from weft.stores import SQLiteStore

    return SQLiteStore(tmp_path / "weft.db")


def _said(marker: pytest.Mark) -> tuple[int, float]:
    """Return the seed and the share of calls that the marker names; a new seed if it names none."""
    unknown = sorted(set(marker.kwargs) - {"seed", "share"})
    if marker.args or unknown:
        raise pytest.UsageError(f"@pytest.mark.{MARKER} takes seed= and share=, not {[*marker.args, *unknown]}")
    seed = marker.kwargs.get("seed")
    share = marker.kwargs.get("share", 0.2)
    if not isinstance(share, int | float) or not 0 <= share <= 1:
        raise pytest.UsageError(f"@pytest.mark.{MARKER}(share={share!r}): use a number from 0 to 1")
    return SystemRandom().randrange(10**6) if seed is None else int(seed), float(share)

"""Settings shared by all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from weft.core.functions.current import announce, announced

# make test takes a share of what could be tried, other examples every time; make thorough takes all of it.
EXAMPLES = 200 if "WEFT_THOROUGH" in os.environ else 30

# A slow machine is not a failing property, and CI must give the same verdict twice.
settings.register_profile("weft", deadline=None, derandomize="CI" in os.environ, print_blob=True, max_examples=EXAMPLES)
# For a night, or after a change of the fold: HYPOTHESIS_PROFILE=thorough.
settings.register_profile("thorough", settings.get_profile("weft"), max_examples=20 * settings.default.max_examples)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "weft"))

# A suite that is started in the background ignores Ctrl-C, and so would the programs that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Keep the collector away from thousands of tests, which stay until the end, or it looks at them all the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_stays_announced() -> Iterator[None]:
    """Fail a test after which ``weft.current()`` still finds a component, since that decides about the next tests."""
    yield
    left = announced()
    announce(None)
    assert left is None

"""The usual scheduler."""

from __future__ import annotations

import pytest

from weft.schedulers import Default
from weft.testing import SchedulerContract


class TestDefault(SchedulerContract):
    """The contract."""

    @pytest.fixture
    def scheduler(self) -> Default:
        return Default()


def test_every_runnable_goes_out_by_itself() -> None:
    assert Default().group(["a", "b", "c"]) == 1
    assert repr(Default()) == "Default()"

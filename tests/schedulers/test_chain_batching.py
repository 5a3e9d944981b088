"""A chain in one hand-over."""

from __future__ import annotations

from typing import Any

import pytest

from weft.errors import InvalidOption
from weft.schedulers import ChainBatching
from weft.testing import SchedulerContract


class TestChainBatching(SchedulerContract):
    """The contract."""

    @pytest.fixture
    def scheduler(self) -> ChainBatching:
        return ChainBatching()


class TestShortBatches(SchedulerContract):
    """The contract, with chains in several parts."""

    @pytest.fixture(params=[1, 2, 5])
    def scheduler(self, request: pytest.FixtureRequest) -> ChainBatching:
        return ChainBatching(longest=request.param)


def test_a_chain_goes_out_together_up_to_the_longest() -> None:
    assert ChainBatching().group(["a", "b", "c"]) == 3
    assert ChainBatching(longest=2).group(["a", "b", "c"]) == 2
    assert repr(ChainBatching(longest=2)) == "ChainBatching(longest=2)"


@pytest.mark.parametrize("longest", [0, -1, True, 2.0, "3", None])
def test_the_longest_is_a_number_of_at_least_1(longest: Any) -> None:
    with pytest.raises(InvalidOption, match="longest="):
        ChainBatching(longest)

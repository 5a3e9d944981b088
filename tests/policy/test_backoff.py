"""G72: how long to wait before a retry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft import Policy
from weft.errors import InvalidPolicy
from weft.policy.backoff import delay


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [("none", [0, 0, 0]), ("linear", [2, 4, 5]), ("exponential", [2, 4, 5])],
)
def test_delays_grow_and_are_capped(backoff: str, waits: list[float]) -> None:
    policy = Policy(backoff=backoff, base_delay=2.0, max_delay=5.0)  # type: ignore[arg-type]

    assert [delay(policy, retry) for retry in (1, 2, 3)] == waits


def test_a_function_of_the_retry_is_a_backoff() -> None:
    assert delay(Policy(backoff=lambda retry: retry / 2, max_delay=1.0), 1) == 0.5
    assert delay(Policy(backoff=lambda retry: retry / 2, max_delay=1.0), 9) == 1.0


@pytest.mark.parametrize("given_", [-1, float("nan"), "soon", None, True])
def test_a_function_that_gives_no_seconds_is_an_error(given_: object) -> None:
    with pytest.raises(InvalidPolicy, match="backoff function"):
        delay(Policy(backoff=lambda _: given_), 1)  # type: ignore[arg-type, return-value]


@given(st.integers(1, 10_000), st.floats(0, 1), st.floats(0, 100), st.floats(0, 100))
def test_jitter_lies_between_nothing_and_the_exponential_delay(
    retry: int, drawn: float, base: float, most: float
) -> None:
    jitter = delay(Policy(backoff="jitter", base_delay=base, max_delay=most), retry, lambda: drawn)

    assert 0 <= jitter <= delay(Policy(backoff="exponential", base_delay=base, max_delay=most), retry) <= most

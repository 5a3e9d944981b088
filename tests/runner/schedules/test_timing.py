"""When schedules fire: also on the days that clocks change."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from weft.errors import InvalidOption
from weft.runner.schedules.timing import Cron, Every, Once, after, between, check, delay, firing_id, latest

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "America/Havana", "Australia/Lord_Howe", "Asia/Kathmandu"]
EXPRESSIONS = [
    *("30 2 * * *", "0 * * * *", "*/20 * * * *", "15,45 0-3 * * *", "0 0 * * SUN", "0 3 L * *", "*/7 1,2 * * *"),
    *("0 2,3 * * *", "10 30 2 * * *", "0 0 1 * *"),
]
rules = st.one_of(
    st.builds(Cron, st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES)),
    st.builds(Every, st.one_of(st.integers(60, 100_000), st.floats(60, 100_000))),
    st.builds(Once, st.floats(1.77e9, 1.8e9)),
)
times = st.one_of(
    st.floats(1.77e9, 1.8e9),
    st.sampled_from(  # around changes of clocks
        [
            datetime(2026, 3, 29, 0, 30, tzinfo=UTC).timestamp(),
            datetime(2026, 10, 25, 0, 45, tzinfo=UTC).timestamp(),
            datetime(2026, 11, 1, 5, 10, tzinfo=UTC).timestamp(),
        ]
    ),
)


def local(rule: Cron, day: datetime, hours: int = 24) -> list[str]:
    """Return the times of a day, as clocks in the zone of the rule show them."""
    zone = ZoneInfo(rule.zone)
    start = day.replace(tzinfo=zone).timestamp() - 1
    found = between(rule, start, start + hours * 3600)
    return [datetime.fromtimestamp(at, zone).strftime("%H:%M%z") for at in found]


def test_a_fixed_time_that_does_not_exist_fires_at_the_end_of_the_gap() -> None:
    assert local(Cron("30 2 * * *", "Europe/Berlin"), datetime(2026, 3, 29, tzinfo=UTC), 23) == ["03:00+0200"]


def test_a_fixed_time_that_exists_twice_fires_once() -> None:
    assert local(Cron("30 2 * * *", "Europe/Berlin"), datetime(2026, 10, 25, tzinfo=UTC), 25) == ["02:30+0200"]


def test_every_hour_follows_the_hours_as_they_pass() -> None:
    hourly = Cron("0 * * * *", "Europe/Berlin")

    assert len(local(hourly, datetime(2026, 3, 29, tzinfo=UTC), 23)) == 23
    assert len(local(hourly, datetime(2026, 10, 25, tzinfo=UTC), 25)) == 25


def test_a_time_of_day_follows_the_zone() -> None:
    daily = Cron("0 3 * * *", "America/New_York")

    assert local(daily, datetime(2026, 1, 5, tzinfo=UTC)) == ["03:00-0500"]
    assert local(daily, datetime(2026, 7, 5, tzinfo=UTC)) == ["03:00-0400"]


@given(rules, times, st.floats(0, 5 * 86_400), st.floats(0, 1))
@settings(deadline=None)
@example(Cron("30 2 * * *", "Europe/Berlin"), datetime(2026, 10, 25, 0, 10, tzinfo=UTC).timestamp(), 86_400.0, 0.05)
def test_a_span_is_the_sum_of_its_parts(rule: Cron | Every | Once, start: float, length: float, part: float) -> None:
    end, middle = start + length, start + length * part

    whole = between(rule, start, end)

    assert whole == sorted(set(whole))
    assert all(start < at <= end for at in whole)
    assert between(rule, start, middle) + between(rule, middle, end) == whole


@given(rules, times, st.floats(0, 5 * 86_400), st.integers(0, 20))
@settings(deadline=None)
def test_the_latest_are_the_end_of_all(rule: Cron | Every | Once, start: float, length: float, limit: int) -> None:
    whole = between(rule, start, start + length)

    assert latest(rule, start, start + length, limit) == (whole[-limit:] if limit else [])


@given(st.text(min_size=1), times, st.floats(0, 1e6))
def test_a_delay_is_within_the_jitter_and_always_the_same(name: str, at: float, jitter: float) -> None:
    assert 0 <= delay(name, at, jitter) <= jitter
    assert delay(name, at, jitter) == delay(name, at, jitter)


def test_intervals_are_multiples_since_the_epoch() -> None:
    assert after(Every(0.1 + 0.2 + 59.7), 60.0) == 120.0
    assert firing_id("a", 90.0) == "a@1970-01-01T00:01:30Z"


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (Cron("x"), "not a cron expression"),
        (Cron("0 0 31 2 *"), "not a cron expression"),
        (Cron("0 3 * * *", "Mars/Olympus"), "timezone='Mars/Olympus' is not known"),
        (Cron("0 3 * * *", "../etc/passwd"), "is not known"),
        (Every(0.5), "at least 1"),
        (Every(float("nan")), "at least 1"),
        (Once(-1.0), "after 1970"),
    ],
)
def test_a_rule_that_cannot_fire_is_refused(rule: Cron | Every | Once, why: str) -> None:
    with pytest.raises(InvalidOption, match=why):
        check(rule)

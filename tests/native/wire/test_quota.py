"""Buckets of quotas, in virtual time: Kafka's arithmetic, and the rate that clients get."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker._native.wire.quota import ClientQuota, QuotaBucket
from tests.oracles.sampled_rate_oracle import SampledRateOracle

MS_PER_SECOND = 1000

steps = st.lists(
    st.tuples(st.integers(0, 5_000), st.integers(0, 1_000_000)), min_size=1, max_size=60
)


@given(st.integers(1, 12), st.integers(1, 3_000), st.floats(0.5, 1e6), steps)
@example(1, 1, 1.0, [(0, 5), (0, 5), (1, 5)])
def test_a_bucket_rests_as_long_as_kafka_would(
    windows: int, window_ms: int, bound: float, steps: list[tuple[int, int]]
) -> None:
    bucket = QuotaBucket(bound, windows, window_ms)
    oracle = SampledRateOracle(bound, windows, window_ms)
    now_ms = 1_000
    for passed_ms, amount in steps:
        now_ms += passed_ms

        assert bucket.add(amount, now_ms) == min(oracle.add(amount, now_ms), (1 << 31) - 1)


def test_a_batch_of_20_kb_on_a_quota_of_1000_bytes_per_second_rests_19_seconds() -> None:
    """As a broker of Kafka 4.3 was seen to answer."""
    assert QuotaBucket(1_000, 2, 1_000).add(20_000, 0) == 19_000


def test_ten_seconds_worth_passes_at_once_with_eleven_windows() -> None:
    bucket = QuotaBucket(1_000, 11, 1_000)

    assert bucket.burst == 10_000
    assert bucket.add(10_000, 0) == 0
    assert bucket.add(1_000, 0) == 1_000


@pytest.mark.parametrize(("windows", "seconds"), [(1, 30), (2, 30), (11, 120)])
@pytest.mark.parametrize("share", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("pause_ms", [0, 7])
def test_a_client_that_rests_gets_its_quota_within_10_percent(
    windows: int, seconds: int, share: float, pause_ms: int
) -> None:
    """Requests of a share of a second's quota. More windows allow a longer first burst."""
    bound = 500_000.0
    bucket = QuotaBucket(bound, windows, MS_PER_SECOND)
    now_ms, sent = 0, 0.0
    while now_ms < seconds * MS_PER_SECOND:
        sent += bound * share
        now_ms += bucket.add(bound * share, now_ms) + pause_ms

    assert sent / now_ms * MS_PER_SECOND == pytest.approx(bound, rel=0.1)


@pytest.mark.parametrize(("windows", "seconds"), [(2, 30), (11, 120)])
def test_a_client_that_does_not_rest_is_admitted_for_its_quota(windows: int, seconds: int) -> None:
    """A consumer that asks every 10 ms for 20 ms worth of its quota."""
    bound = 500_000.0
    bucket = QuotaBucket(bound, windows, MS_PER_SECOND)
    times = range(0, seconds * MS_PER_SECOND, 10)
    sent = sum(10_000 * (bucket.admit(10_000, now_ms) == 0) for now_ms in times)

    assert sent / seconds == pytest.approx(bound, rel=0.1)


def test_what_is_not_admitted_does_not_count() -> None:
    bucket = QuotaBucket(1_000, 11, 1_000)
    bucket.add(10_000, 0)

    refused = [bucket.admit(5_000, 0) for _ in range(10)]

    assert refused == [5_000] * 10
    assert bucket.excess_ms(0, 0) == 0


def test_a_new_bound_applies_to_what_was_used_before() -> None:
    bucket = QuotaBucket(1_000, 11, 1_000)
    bucket.add(10_000, 0)

    bucket.bound = 500

    assert bucket.excess_ms(0, 0) == 10_000


def test_a_rest_has_a_limit_where_it_is_given() -> None:
    assert QuotaBucket(1, 2, 1_000, throttle_ms_max=1_000).add(20_000, 0) == 1_000
    assert QuotaBucket(1e-9, 2, 1_000).add(1e300, 0) == (1 << 31) - 1


@pytest.mark.parametrize(
    ("bound", "windows", "window_ms"), [(0, 1, 1), (-1, 1, 1), (1, 0, 1), (1, 1, 0)]
)
def test_a_bucket_without_bound_or_windows_is_refused(
    bound: float, windows: int, window_ms: int
) -> None:
    with pytest.raises(ValueError, match="a bound of"):
        QuotaBucket(bound, windows, window_ms)
    with pytest.raises(ValueError, match="a bound of"):
        QuotaBucket(1, 1, 1).bound = 0


def test_a_client_without_buckets_is_unlimited() -> None:
    assert ClientQuota(b"", 1).is_unlimited
    assert not ClientQuota(b"", 1, mutations=object()).is_unlimited
    assert not ClientQuota(b"", 1, reads=QuotaBucket(1, 1, 1)).is_unlimited

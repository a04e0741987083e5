"""A bounded number of buckets, whatever names clients choose."""

from broker._native.wire.quota import QuotaBucket
from broker.core.security.quotas.buckets import Buckets
from broker.core.security.quotas.windows import Windows
from broker.model.config import load
from broker.model.security_limits import QUOTA_BUCKETS_BYTES_MAX, QUOTA_BUCKETS_SEARCHED

WINDOWS = Windows(2, 1_000)


def buckets(count_max: int) -> Buckets[QuotaBucket]:
    return Buckets(WINDOWS.bucket, count_max, WINDOWS.total_ms)


def test_an_owner_keeps_its_bucket_and_gets_its_new_bound() -> None:
    some = buckets(10)
    first = some.of("a", 5.0, 0)

    assert some.of("a", 7.0, 0) is first
    assert first.bound == 7.0
    assert some.of("b", 5.0, 0) is not first


def test_100_000_owners_have_no_more_buckets_than_allowed() -> None:
    some = buckets(1_000)
    for number in range(100_000):
        some.of(number, 5.0, number)

    assert len(some) == 1_000


def test_a_bucket_that_is_in_use_outlives_those_that_are_not() -> None:
    some = buckets(10)
    used = some.of("used", 5.0, 0)
    dropped = some.of("unused", 5.0, 0)
    for number in range(1_000):
        now_ms = 1 + number * 300
        used.add(1.0, now_ms)
        some.of(number, 5.0, now_ms)

    assert not used.is_dropped
    assert some.of("used", 5.0, 300_000) is used
    assert dropped.is_dropped


def test_one_in_use_is_dropped_if_no_other_is_found_soon() -> None:
    count = QUOTA_BUCKETS_SEARCHED * 4
    some = buckets(count)
    made = [some.of(number, 5.0, 0) for number in range(count)]

    some.of("new", 5.0, 0)

    assert len(some) == count
    assert sum(bucket.is_dropped for bucket in made) == 1


def test_the_memory_of_buckets_is_the_same_with_many_windows() -> None:
    few = Windows.of_rates(load([]))
    many = Windows.of_rates(load(["quota.window.num=1000"]))

    assert (few, many.number) == (Windows(11, 1_000), 1_000)
    for windows in (few, many):
        assert windows.buckets_max * (windows.number + 1) * 24 < QUOTA_BUCKETS_BYTES_MAX
    assert few.buckets_max > 10_000

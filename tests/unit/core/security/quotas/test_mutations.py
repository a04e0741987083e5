"""The bucket of tokens for partitions that are created and deleted, in virtual time."""

import pytest

from broker.core.security.quotas.mutations import MutationBucket
from broker.core.security.quotas.windows import Windows

THREE = Windows(3, 1_000)


def test_the_whole_of_all_windows_may_be_used_at_once() -> None:
    bucket = MutationBucket(THREE, 2.0, 0)
    bucket.take(6, 0)

    assert bucket.deficit_ms(0) == 0


def test_a_change_may_take_more_than_there_is_and_the_next_one_waits() -> None:
    """As a broker of Kafka 4.3 was seen to answer: 4 over at 2 per second."""
    bucket = MutationBucket(THREE, 2.0, 0)
    bucket.take(10, 0)

    assert bucket.deficit_ms(0) == 2_000
    assert bucket.deficit_ms(500) == 1_500
    assert bucket.deficit_ms(2_000) == 0


def test_it_never_has_more_than_all_windows() -> None:
    bucket = MutationBucket(THREE, 2.0, 0)

    bucket.take(7, 1_000_000)

    assert bucket.deficit_ms(1_000_000) == 500


def test_a_client_that_waits_changes_at_its_rate() -> None:
    bucket = MutationBucket(THREE, 2.0, 0)
    now_ms = taken = 0
    while now_ms < 60_000:
        now_ms += bucket.deficit_ms(now_ms)
        bucket.take(4, now_ms)
        taken += 4

    assert (taken - 6) / 60 == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize("rate", [1e-3, 1e-9, 5e-324])
def test_no_deficit_is_longer_than_an_answer_can_tell(rate: float) -> None:
    bucket = MutationBucket(THREE, rate, 0)
    bucket.take(1_000_000, 0)

    assert 0 < bucket.deficit_ms(0) <= 2**31 - 1

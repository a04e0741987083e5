"""The sequences of a named producer: windows, epochs, gaps, and the same after a load."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.protocols.cursus.named_producers.sequences import (
    Run,
    SequenceError,
    Sequences,
    StaleEpochError,
)

NOW_MS = 1_000
AHEAD = 5


def run(first: int, last: int, epoch: int = 1, name: bytes = b"p") -> Run:
    return Run(name, epoch, first, last, last - first + 1)


def sent(sequences: Sequences, *runs: Run, batch_assumed: int = 1) -> list[int]:
    """Send a batch; return the indices of the records that are stored."""
    plan = sequences.plan(runs, batch_assumed=batch_assumed)
    sequences.replay(plan.arrivals, NOW_MS)
    return [place for places in plan.kept for place in places]


def everything(first: int, last: int) -> list[int]:
    return list(range(last - first + 1))


@pytest.fixture
def sequences() -> Sequences:
    return Sequences(3)


def test_the_next_sequences_are_stored(sequences: Sequences) -> None:
    assert sent(sequences, run(1, 3)) == [0, 1, 2]
    assert sent(sequences, run(4, 4)) == [0]


def test_repeated_sequences_are_not_stored_again(sequences: Sequences) -> None:
    sent(sequences, run(1, 10))

    assert sent(sequences, run(1, 10)) == []
    assert sent(sequences, run(3, 4)) == []


def test_only_the_new_records_of_a_partly_repeated_batch_are_stored(sequences: Sequences) -> None:
    sent(sequences, run(1, 10))
    sent(sequences, run(13, 14))

    assert sent(sequences, run(9, 16)) == [2, 3, 6, 7]


def test_batches_that_arrive_out_of_order_are_all_stored_once(sequences: Sequences) -> None:
    arrived = [1, 2, 4, 5, 3, 3, 5, 1]
    stored = [bool(sent(sequences, run(10 * n - 9, 10 * n))) for n in arrived]

    assert stored == [True] * 5 + [False] * 3
    assert sent(sequences, run(51, 60)) == everything(51, 60)


def test_the_first_batch_may_arrive_late(sequences: Sequences) -> None:
    assert sent(sequences, run(11, 20)) == everything(11, 20)
    assert sent(sequences, run(1, 10)) == everything(1, 10)
    assert sent(sequences, run(1, 20)) == []


def test_a_batch_too_far_ahead_is_refused(sequences: Sequences) -> None:
    sent(sequences, run(1, 1))

    for first in range(3, 3 + AHEAD):
        assert sent(sequences, run(first, first)) == [0]
    with pytest.raises(SequenceError, match="idempotency gap: expected seqNum=2, got 8"):
        sent(sequences, run(3 + AHEAD, 3 + AHEAD))
    assert sent(sequences, run(2, 2)) == [0]
    assert sent(sequences, run(8, 8)) == [0]


def test_a_first_batch_that_starts_too_far_from_one_is_refused(sequences: Sequences) -> None:
    with pytest.raises(SequenceError, match="first message must have seqNum=1, got 8"):
        sent(sequences, run(8, 8))
    assert len(sequences) == 0


def test_the_allowed_distance_grows_with_the_largest_batch_seen(sequences: Sequences) -> None:
    sent(sequences, run(1, 100))

    assert sent(sequences, run(600, 600)) == [0]
    with pytest.raises(SequenceError):
        sent(sequences, run(701, 701))


def test_a_short_batch_may_arrive_before_long_ones_not_yet_seen(sequences: Sequences) -> None:
    assert sent(sequences, run(401, 403), batch_assumed=100) == everything(401, 403)


def test_a_batch_that_starts_at_the_next_sequence_may_have_any_length(sequences: Sequences) -> None:
    assert sent(sequences, run(1, 100_000)) == everything(1, 100_000)


def test_a_limited_number_of_gaps_is_remembered(sequences: Sequences) -> None:
    sent(sequences, run(1, 100))
    for first in range(102, 102 + 2 * AHEAD, 2):
        sent(sequences, run(first, first))

    with pytest.raises(SequenceError, match="idempotency gap: more than 5 of them"):
        sent(sequences, run(112, 112))


def test_a_newer_epoch_starts_at_sequence_one(sequences: Sequences) -> None:
    sent(sequences, run(1, 10))

    with pytest.raises(SequenceError, match="first message"):
        sent(sequences, run(11, 11, epoch=2))
    assert sent(sequences, run(1, 2, epoch=2)) == [0, 1]


def test_an_older_epoch_is_refused(sequences: Sequences) -> None:
    sent(sequences, run(1, 10, epoch=2))

    with pytest.raises(StaleEpochError, match="producer=p epoch=1 current=2"):
        sent(sequences, run(11, 11, epoch=1))


def test_producers_are_independent(sequences: Sequences) -> None:
    sent(sequences, run(1, 10))

    assert sent(sequences, run(1, 1, name=b"q")) == [0]


def test_records_without_a_sequence_are_always_stored(sequences: Sequences) -> None:
    sent(sequences, run(1, 2))
    unchecked = Run(b"p", 1, 0, 0, 3)

    assert sent(sequences, unchecked) == [0, 1, 2]
    assert sent(sequences, run(1, 2), unchecked, run(2, 3)) == [2, 3, 4, 6]


def test_a_batch_is_refused_whole(sequences: Sequences) -> None:
    with pytest.raises(SequenceError):
        sent(sequences, run(1, 2), run(100, 100))

    assert sent(sequences, run(1, 2)) == [0, 1]


def test_a_batch_may_hold_a_sequence_twice(sequences: Sequences) -> None:
    assert sent(sequences, run(1, 2), run(2, 3)) == [0, 1, 3]


def test_nothing_changes_until_the_records_are_stored(sequences: Sequences) -> None:
    sequences.plan([run(1, 2)], batch_assumed=1)

    assert sent(sequences, run(1, 2)) == [0, 1]


def test_the_least_recently_seen_producer_is_evicted(sequences: Sequences) -> None:
    for name, first in ((b"a", 1), (b"b", 1), (b"c", 1), (b"a", 2), (b"d", 1)):
        sent(sequences, run(first, first, name=name))

    assert [each.producer_id for each in sequences.image()] == [b"c", b"a", b"d"]


def test_an_idle_producer_expires(sequences: Sequences) -> None:
    sequences.replay([run(1, 1)], 5)
    sequences.replay([run(1, 1, name=b"q")], 6)

    sequences.forget_before(6)

    assert [each.producer_id for each in sequences.image()] == [b"q"]


# Batches of ten, each sent at least once, in any order within a window, with any repeats.
ORDERS = st.permutations(range(6)).flatmap(
    lambda order: st.lists(st.sampled_from(order), max_size=6).map(lambda again: [*order, *again])
)


@given(orders=st.lists(ORDERS, min_size=1, max_size=3), begin_gap=st.integers(0, 20))
def test_every_record_is_stored_once_and_a_load_restores_the_same_state(
    orders: list[list[int]], begin_gap: int
) -> None:
    sequences = Sequences(3)
    log: list[int] = []
    batches = [window * 6 + place for window, order in enumerate(orders) for place in order]
    for number, each in enumerate(batches):
        first = 10 * each + 1
        log += [first + place for place in sent(sequences, run(first, first + 9))]
        if number == begin_gap:
            loaded = Sequences(3)
            for sequence in log:  # one by one, as the records in the log have them
                loaded.replay([run(sequence, sequence)], NOW_MS)
            (image,), (expected,) = loaded.image(), sequences.image()
            assert (image.done, image.ahead) == (expected.done, expected.ahead)
            restored = Sequences(3)
            restored.restore(sequences.image())
            assert restored.image() == sequences.image()
            sequences = restored

    assert sorted(log) == list(range(1, 60 * len(orders) + 1))

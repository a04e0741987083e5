"""Committed offsets of the original Cursus."""

import json

import pytest

from broker.protocols.cursus.importing.journal import Outcome
from broker.protocols.cursus.importing.offsets import CommittedOffsets, Offsets
from tests.support.cursus_directories import Stored, committed, items, metadata


def groups(*records: Stored, outcomes: tuple[Outcome, ...] = ()) -> dict[str, Offsets]:
    found = CommittedOffsets()
    for each in records:
        found.add(each.payload)
    return found.groups(outcomes)


def old(**fields: object) -> Stored:
    return Stored(json.dumps({"group": "g", "topic": "t", **fields}).encode())


def test_the_highest_revision_of_the_groups_epoch_counts() -> None:
    assert groups(
        metadata("group_registration", "g", 2, topic="t", partition_count=2),
        committed("g", "t", 2, 7, {0: 70, 1: 71}),
        committed("g", "t", 2, 6, {0: 60}),
        committed("g", "t", 1, 9, {0: 99}),
        committed("g", "u", 1, 9, {0: 99}),
        metadata("group_lifecycle_snapshot", "g", 2, revision=1),
    ) == {"g": {"t": {0: 70, 1: 71}}}


def test_without_a_registration_the_highest_epoch_counts() -> None:
    assert groups(committed("g", "t", 2, 1, {0: 5}), committed("g", "u", 1, 1, {0: 6})) == {
        "g": {"t": {0: 5}}
    }


def test_a_group_that_is_gone_has_no_offsets() -> None:
    gone = metadata("group_tombstone", "g", 3, topic="t")
    decided = Outcome(0, "committed", {"g": {"t": {0: 9}}})

    assert groups(committed("g", "t", 2, 1, {0: 5}), gone, outcomes=(decided,)) == {}
    assert groups(committed("g", "t", 3, 1, {0: 5}), gone) == {}
    again = metadata("group_registration", "g", 4, topic="t", partition_count=1)
    assert groups(gone, again, committed("g", "t", 4, 1, {0: 1})) == {"g": {"t": {0: 1}}}


def test_a_registration_may_have_offsets() -> None:
    initial = [{"topic": "t", "revision": 3, **items({1: 4})}]
    record = metadata("group_registration", "g", 1, initial_offsets=initial)

    assert groups(record) == {"g": {"t": {1: 4}}}
    assert groups(record, committed("g", "t", 1, 4, {1: 5})) == {"g": {"t": {1: 5}}}


def test_old_records_only_move_forward_and_count_for_groups_without_newer_ones() -> None:
    records = (old(partition=0, offset=5), old(**items({0: 4, 1: 1})), old(partition=1, offset=2))

    assert groups(*records) == {"g": {"t": {0: 5, 1: 2}}}
    assert groups(*records, committed("g", "t", 1, 1, {0: 1})) == {"g": {"t": {0: 1}}}
    assert groups(*records, metadata("group_registration", "g", 1)) == {}


@pytest.mark.parametrize(
    ("state", "expected"),
    [("committed", 9), ("committing", 9), ("open", 5), ("aborted", 5)],
)
def test_offsets_of_a_committed_transaction_move_forward(state: str, expected: int) -> None:
    ahead, behind = Outcome(0, state, {"g": {"t": {0: 9}}}), Outcome(0, state, {"g": {"t": {0: 1}}})
    record = committed("g", "t", 1, 1, {0: 5})

    assert groups(record, outcomes=(ahead, behind)) == {"g": {"t": {0: expected}}}


@pytest.mark.parametrize(
    "payload",
    [b"{", b"[]", b"{}", b'{"version":1}', metadata("other", "g", 1).payload, b'{"group":"g"}'],
)
def test_a_record_that_cannot_be_read_is_an_error(payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"Expecting|type|lacks"):
        CommittedOffsets().add(payload)

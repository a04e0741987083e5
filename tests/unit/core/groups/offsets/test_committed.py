"""Limits of committed offsets; their rules are in tests/scenarios/offsets.txt."""

from broker.core.groups.commands.offsets import (
    CommitRequest,
    FetchOffsetsRequest,
    FetchOffsetsResponse,
    OffsetToCommit,
)
from broker.core.groups.offsets.committed import CommittedOffsets
from broker.core.groups.partition.shard import GroupShard
from broker.core.groups.records.offsets import CommittedOffset, OffsetRecord
from broker.core.groups.settings import GroupSettings
from tests.support.fakes import FakeTopics

SETTINGS = GroupSettings(offsets_max=2, offset_metadata_bytes_max=4)


def commit(offsets: CommittedOffsets, *committed: OffsetToCommit) -> list[str]:
    records, errors = offsets.commit(CommitRequest("g", "", None, -1, committed), wall_ms=1)
    for record in records:
        offsets.replay(record)
    return [error.name for error in errors]


def test_metadata_up_to_the_limit_is_kept_and_longer_metadata_refused_alone() -> None:
    offsets = CommittedOffsets(SETTINGS)

    errors = commit(
        offsets,
        OffsetToCommit("t", 0, 1, metadata="1234"),
        OffsetToCommit("t", 1, 1, metadata="12345"),
        OffsetToCommit("t", 2, 1, metadata="éé"),
    )

    assert errors == ["NONE", "OFFSET_METADATA_TOO_LARGE", "NONE"]
    assert offsets.of_group("g")["t"][2].metadata == "éé"


def test_the_metadata_limit_counts_bytes_not_characters() -> None:
    offsets = CommittedOffsets(SETTINGS)

    assert commit(offsets, OffsetToCommit("t", 0, 1, metadata="ééé")) == [
        "OFFSET_METADATA_TOO_LARGE"
    ]


def test_a_group_with_the_maximum_of_offsets_can_still_move_them() -> None:
    offsets = CommittedOffsets(SETTINGS)
    commit(offsets, OffsetToCommit("t", 0, 1), OffsetToCommit("t", 1, 1))

    errors = commit(offsets, OffsetToCommit("t", 2, 1), OffsetToCommit("t", 1, 2))

    assert errors == ["INVALID_COMMIT_OFFSET_SIZE", "NONE"]
    assert offsets.of_group("g")["t"][1].offset == 2


def test_the_limit_applies_within_one_commit() -> None:
    offsets = CommittedOffsets(SETTINGS)

    errors = commit(offsets, *(OffsetToCommit("t", partition, 1) for partition in range(3)))

    assert errors == ["NONE", "NONE", "INVALID_COMMIT_OFFSET_SIZE"]


def commit_pending(offsets: CommittedOffsets, *committed: OffsetToCommit) -> list[str]:
    records, errors = offsets.commit(CommitRequest("g", "", None, -1, committed, (7, 0)), wall_ms=1)
    for record in records:
        offsets.pending.replay_pending(7, record)
    return [error.name for error in errors]


def test_offsets_of_open_transactions_count_towards_the_limit() -> None:
    offsets = CommittedOffsets(SETTINGS)
    commit_pending(offsets, OffsetToCommit("t", 0, 1))

    later = commit_pending(offsets, OffsetToCommit("t", 1, 1), OffsetToCommit("t", 2, 1))

    assert later == ["NONE", "INVALID_COMMIT_OFFSET_SIZE"]
    assert commit(offsets, OffsetToCommit("t", 2, 1)) == ["INVALID_COMMIT_OFFSET_SIZE"]


def test_a_partition_with_a_committed_and_a_pending_offset_counts_once() -> None:
    offsets = CommittedOffsets(SETTINGS)
    commit(offsets, OffsetToCommit("t", 0, 1))
    commit_pending(offsets, OffsetToCommit("t", 0, 2))

    errors = commit(offsets, OffsetToCommit("t", 1, 1), OffsetToCommit("t", 2, 1))

    assert errors == ["NONE", "INVALID_COMMIT_OFFSET_SIZE"]


def test_pending_offsets_of_a_group_at_the_limit_can_still_be_moved() -> None:
    offsets = CommittedOffsets(SETTINGS)
    commit_pending(offsets, OffsetToCommit("t", 0, 1), OffsetToCommit("t", 1, 1))

    assert commit_pending(offsets, OffsetToCommit("t", 1, 2)) == ["NONE"]
    assert commit(offsets, OffsetToCommit("t", 0, 2)) == ["NONE"]


def test_a_partition_named_twice_in_a_commit_is_written_once_with_the_last_offset() -> None:
    """One frame may name a partition many times."""
    request = CommitRequest(
        "g",
        "",
        None,
        -1,
        (
            OffsetToCommit("t", 0, 1),
            OffsetToCommit("t", 1, 5),
            OffsetToCommit("t", 0, 2),
            OffsetToCommit("t", 0, 3, metadata="12345"),
        ),
    )

    records, errors = CommittedOffsets(SETTINGS).commit(request, wall_ms=1)

    assert [(each.partition, each.committed and each.committed.offset) for each in records] == [
        (0, 2),
        (1, 5),
    ]
    assert [error.name for error in errors] == [
        "NONE",
        "NONE",
        "NONE",
        "OFFSET_METADATA_TOO_LARGE",
    ]


def test_a_partition_named_twice_in_a_commit_counts_once() -> None:
    offsets = CommittedOffsets(SETTINGS)

    errors = commit(offsets, *(OffsetToCommit("t", each, 1) for each in (0, 0, 1)))

    assert errors == ["NONE", "NONE", "NONE"]


def test_only_requests_for_stable_offsets_report_an_open_transaction() -> None:
    """KIP-447."""
    shard = GroupShard(SETTINGS, topics=FakeTopics())
    record = OffsetRecord("g", "t", 0, CommittedOffset(5, -1, "", 0))
    shard.replay(record)
    shard.replay(record._replace(partition=1))
    shard.replay_pending(7, record)
    request = FetchOffsetsRequest("g", {"t": (0, 1, 2)})

    [(_, plain)] = shard.fetch_offsets(request, "token").replies
    [(_, stable)] = shard.fetch_offsets(request._replace(requires_stable=True), "token").replies

    assert isinstance(plain, FetchOffsetsResponse)
    assert isinstance(stable, FetchOffsetsResponse)
    assert plain.unstable == frozenset()
    assert stable.unstable == {("t", 0)}


def test_a_marker_makes_a_partition_stable() -> None:
    shard = GroupShard(SETTINGS, topics=FakeTopics())
    shard.replay_pending(7, OffsetRecord("g", "t", 0, CommittedOffset(5, -1, "", 0)))

    shard.end_transaction(7, is_committed=True)

    assert not shard.offsets.has_pending("g", "t", 0)
    assert shard.offsets.of_group("g")["t"][0].offset == 5

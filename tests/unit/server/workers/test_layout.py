"""One data directory, of one broker and of several by turns."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.core.cluster import records
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import NO_LEADER, DeletedTopic, PartitionState, TopicRecord
from broker.core.cluster.slices import complete
from broker.segments import text_files
from broker.server.workers.layout import share, unshare
from broker.storage import metadata
from broker.storage.metadata import Put
from broker.storage.metadata.sqlite import FILE_NAME, SqliteMetaStore
from broker.storage.recovery.epochs import UncleanStarts
from broker.storage.reserve import FILE_NAME as RESERVE

TOPIC_ID = bytes(range(16))
NOW_MS = 1_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteMetaStore]:
    opened = SqliteMetaStore(tmp_path / FILE_NAME)
    yield opened
    opened.close()


def create(store: SqliteMetaStore, partitions: int) -> None:
    value = records.topic_value(TopicRecord(TOPIC_ID, partitions, (), {}))
    store.transact([], [Put(metadata.topic_key("t"), value)])


def image_of(store: SqliteMetaStore) -> ClusterImage:
    image = ClusterImage()
    complete(image.load(*store.scan(b"")))
    return image


def states(store: SqliteMetaStore) -> list[PartitionState]:
    image = image_of(store)
    found = [image.state(TOPIC_ID, n) for n in range(image.topics[TOPIC_ID].record.partitions)]
    return [each for each in found if each is not None]


def elect(store: SqliteMetaStore, leader: int, leader_epoch: int, partition: int = 0) -> None:
    state = PartitionState(leader, leader_epoch, 77, (leader,), (leader,), 5)
    key = records.partition_key(TOPIC_ID, partition)
    store.transact([], [Put(key, records.partition_value(state))])


def unclean_starts(store: SqliteMetaStore) -> int:
    entry = store.get(b"node/1")
    return 0 if entry is None else int(json.loads(entry.value)["unclean_starts"])


def test_partitions_of_one_broker_are_spread_over_the_workers_and_wait_for_an_election(
    tmp_path: Path, store: SqliteMetaStore
) -> None:
    create(store, 250)  # more than one transaction has

    share(tmp_path, store, [1, 2], NOW_MS)

    found = states(store)
    assert {each.leader for each in found} == {NO_LEADER}
    placed = image_of(store).topics[TOPIC_ID].record.replicas
    assert [placed.count((each,)) for each in (1, 2)] == [125, 125]


def test_the_first_election_is_above_all_unclean_starts_and_what_they_have_left(
    tmp_path: Path, store: SqliteMetaStore
) -> None:
    create(store, 1)
    for _ in range(3):
        UncleanStarts(store, 1).begin(is_clean=False)

    share(tmp_path, store, [1, 2], NOW_MS)

    # The next epoch is 5. What was left with 3 is not taken for left at the one before.
    assert [each.leader_epoch for each in states(store)] == [4]


def test_an_unclean_start_of_one_broker_is_above_all_elections(
    tmp_path: Path, store: SqliteMetaStore
) -> None:
    create(store, 2)
    share(tmp_path, store, [1, 2], NOW_MS)
    elect(store, 2, 41, partition=1)

    unshare(tmp_path, store, 1)
    epochs = UncleanStarts(store, 1)
    epochs.begin(is_clean=False)

    assert epochs.current == 42


def test_one_broker_finds_no_states_and_no_folders_of_workers(
    tmp_path: Path, store: SqliteMetaStore
) -> None:
    create(store, 2)
    share(tmp_path, store, [1, 2], NOW_MS)
    (tmp_path / "workers/2/some").write_text("")

    unshare(tmp_path, store, 1)

    assert store.scan(records.PARTITIONS)[0] == []
    assert store.get(metadata.WORKERS) is None
    assert not (tmp_path / "workers").exists()


def test_a_change_back_that_was_cut_off_is_completed(
    tmp_path: Path, store: SqliteMetaStore
) -> None:
    create(store, 1)
    share(tmp_path, store, [1, 2], NOW_MS)
    elect(store, 2, 41)
    workers = store.get(metadata.WORKERS)
    assert workers is not None
    unshare(tmp_path, store, 1)
    store.transact([], [Put(metadata.WORKERS, workers.value)])  # all but its last change

    unshare(tmp_path, store, 1)

    assert unclean_starts(store) == 41


def test_a_start_with_the_same_workers_changes_no_state(
    tmp_path: Path, store: SqliteMetaStore
) -> None:
    create(store, 1)
    share(tmp_path, store, [1, 2], NOW_MS)
    elect(store, 2, 41)
    before = store.scan(b"")

    share(tmp_path, store, [1, 2], NOW_MS)

    assert store.scan(b"") == before


def test_a_start_with_more_workers_spreads_partitions_and_keeps_their_epochs(
    tmp_path: Path, store: SqliteMetaStore
) -> None:
    create(store, 4)
    share(tmp_path, store, [1, 2], NOW_MS)
    elect(store, 2, 41)

    share(tmp_path, store, [1, 2, 3, 4], NOW_MS)

    placed = image_of(store).topics[TOPIC_ID].record.replicas
    assert sorted(placed) == [(1,), (2,), (3,), (4,)]
    assert states(store)[0].leader_epoch == 41


def deleted(store: SqliteMetaStore) -> DeletedTopic:
    return image_of(store).deleted[TOPIC_ID].topic


def delete(store: SqliteMetaStore, topic: DeletedTopic) -> None:
    key = metadata.deleted_topic_key(TOPIC_ID)
    store.transact([], [Put(key, records.deleted_value(topic))])


def test_a_worker_removes_the_folders_of_topics_that_one_broker_has_deleted(
    tmp_path: Path, store: SqliteMetaStore
) -> None:
    delete(store, DeletedTopic("t", 4))

    share(tmp_path, store, [1, 2], NOW_MS)

    assert deleted(store) == DeletedTopic("t", 4, (1,), NOW_MS)


def test_a_worker_removes_the_folders_of_topics_that_workers_had_which_are_none_any_more(
    tmp_path: Path, store: SqliteMetaStore
) -> None:
    share(tmp_path, store, [1, 2, 3, 4], NOW_MS)
    delete(store, DeletedTopic("t", 4, (3, 4), NOW_MS))

    share(tmp_path, store, [1, 2], 2 * NOW_MS)

    assert deleted(store) == DeletedTopic("t", 4, (1,), 2 * NOW_MS)


def test_workers_find_no_marker_of_a_clean_stop_and_no_reserve_of_one_broker(
    tmp_path: Path, store: SqliteMetaStore
) -> None:
    names = (text_files.CLEAN_SHUTDOWN, text_files.CLEANER_OFFSETS, RESERVE)
    for name in names:
        (tmp_path / name).write_text("")

    share(tmp_path, store, [1, 2], NOW_MS)

    assert not any((tmp_path / name).exists() for name in names)
    assert (tmp_path / "workers/1").is_dir()
    assert (tmp_path / "workers/2").is_dir()


def test_workers_begin_with_what_one_broker_knew_about_the_clock(
    tmp_path: Path, store: SqliteMetaStore
) -> None:
    clock = "ahead.ms=0\nboot.id=b\nboot.ms=1\nconfirmed.ms=0\nis.held=0\nwall.ms=2\n"
    (tmp_path / "clock.properties").write_text(clock)

    share(tmp_path, store, [1, 2], NOW_MS)

    assert (tmp_path / "workers/2/clock.properties").read_text() == clock

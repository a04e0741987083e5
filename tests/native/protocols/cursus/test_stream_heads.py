"""What is known of streams in memory, and how much of it there is."""

from broker._native.log.partition_log import PartitionLog
from broker._native.protocols.cursus.stream_heads import ENDED, StreamTables
from tests.support.native_log import Logs


def test_events_are_kept_by_stream_until_they_are_taken(log: PartitionLog) -> None:
    tables = StreamTables()
    heads = tables.begin(log, 3)

    for key, version, offset in ((b"a", 1, 0), (b"b", 5, 1), (b"a", 2, 2)):
        heads.append(key, version, offset)

    assert heads.versions == {b"a": 2, b"b": 5}
    assert (heads.recent_count, heads.recent_bytes) == (3, tables.recent_bytes)
    events, size = heads.take_recent()
    assert events == {b"a": [0, 0, 2], b"b": [4, 1]}
    assert (heads.recent, heads.recent_count, heads.recent_bytes) == ({}, 0, 0)
    assert tables.recent_bytes == size > 0
    tables.release(size)
    assert tables.recent_bytes == 0
    assert heads.versions == {b"a": 2, b"b": 5}


def test_the_oldest_versions_are_forgotten(log: PartitionLog) -> None:
    tables = StreamTables()
    heads = tables.begin(log, 0)
    sizes = []
    for number in range(5):
        heads.know(b"k%d" % number, number)
        heads.know(b"k%d" % number, number)
        sizes.append(tables.known_bytes)

    heads.forget_versions(2)

    assert heads.versions == {b"k2": 2, b"k3": 3, b"k4": 4}
    assert tables.known_bytes == sizes[2]
    heads.forget_versions(9)
    assert tables.known_bytes == 0


def test_versions_above_a_limit_are_forgotten_where_there_are_most(logs: Logs) -> None:
    tables = StreamTables(known_bytes_max=300_000)
    few = tables.begin(logs.create(0), 0)
    few.know(b"few", 1)
    many = tables.begin(logs.create(1), 0)
    for number in range(10_000):
        many.append(b"k%d" % number, 1, number)
        assert tables.known_bytes <= 300_000

    assert few.versions == {b"few": 1}
    assert 500 < len(many.versions) < 2_000
    assert many.versions[b"k9999"] == 1
    assert len(many.recent) == 10_000


def test_a_stream_that_begins_is_not_new_any_more_and_its_filter_ends_with_it(
    log: PartitionLog,
) -> None:
    tables = StreamTables(filter_bytes_max=1 << 20)
    heads = tables.begin(log, 0)
    heads.keys.complete()
    assert heads.keys.is_new(b"a")

    heads.append(b"a", 1, 0)

    assert not heads.keys.is_new(b"a")
    assert heads.keys.is_new(b"b")
    assert tables.filter_memory.size > 0
    tables.end(log)
    assert not heads.keys.is_new(b"b")
    assert tables.filter_memory.size == 0
    heads.append(b"c", 1, 1)
    assert (tables.recent_bytes, tables.known_bytes) == (0, 0)


def test_streams_that_end_take_no_memory(logs: Logs, log: PartitionLog) -> None:
    tables = StreamTables()
    other = tables.begin(logs.create(1), 0)
    other.know(b"x", 1)
    left = tables.known_bytes, tables.recent_bytes
    heads = tables.begin(log, 0)
    heads.append(b"a", 1, 0)
    heads.know(b"b", 7)
    heads.hold(50)
    again = tables.begin(log, 1)

    assert (tables.known_bytes, tables.recent_bytes) == left
    assert (heads.epoch, again.epoch) == (ENDED, 1)
    tables.end(log)
    tables.end(log)
    assert other.versions == {b"x": 1}


def test_events_that_were_not_filed_are_kept_again(log: PartitionLog) -> None:
    tables = StreamTables()
    heads = tables.begin(log, 0)
    heads.append(b"a", 1, 0)
    heads.append(b"b", 1, 1)
    heads.hold(50)
    events, size = heads.take_recent()
    heads.append(b"a", 2, 2)
    heads.append(b"c", 1, 3)

    heads.give_back(events, size)

    assert heads.recent == {b"a": [0, 0, 2], b"b": [0, 1], b"c": [0, 3]}
    assert (heads.recent_count, heads.recent_bytes) == (4, tables.recent_bytes)
    tables.end(log)
    assert tables.recent_bytes == 0


def test_streams_that_have_ended_know_nothing_more(log: PartitionLog) -> None:
    tables = StreamTables()
    heads = tables.begin(log, 0)
    tables.end(log)

    heads.know(b"k", 1)

    assert (heads.versions, tables.known_bytes) == ({}, 0)

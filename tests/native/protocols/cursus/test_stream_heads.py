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


def test_streams_that_end_take_no_memory(logs: Logs, log: PartitionLog) -> None:
    tables = StreamTables()
    other = tables.begin(logs.create(1), 0)
    other.know(b"x", 1)
    left = tables.known_bytes, tables.recent_bytes
    heads = tables.begin(log, 0)
    heads.append(b"a", 1, 0)
    heads.know(b"b", 7)
    heads.hold(50)
    assert tables.largest() is heads

    again = tables.begin(log, 1)

    assert (tables.known_bytes, tables.recent_bytes) == left
    assert (heads.epoch, again.epoch) == (ENDED, 1)
    tables.end(log)
    tables.end(log)
    assert tables.largest() is other

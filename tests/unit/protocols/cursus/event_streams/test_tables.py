"""Streams of a partition: made from its log, as leader and follower, within limits of memory."""

import asyncio
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.protocols.cursus.event_streams import loading, partition_streams, tables
from broker.protocols.cursus.event_streams.file import (
    DamagedFileError,
    Snapshot,
    StreamFile,
)
from broker.protocols.cursus.event_streams.tables import EventStreams
from broker.storage.files.folder_copy import FolderCopy
from tests.support.native_replica import LEADER, REPLICA, lead
from tests.unit.protocols.cursus.event_streams.partitions import HeldInThread, Partition

MANY = 1000
STEPS = 10  # of the loop, more than a lookup needs


def wait_for_replica(log: Any) -> None:
    """Have what is appended from now on wait for a replica that copies nothing."""
    log.configure(is_group_commit=False, min_isr=2)
    log.set_isr([LEADER, REPLICA], 2)


def lose_replica(log: Any) -> None:
    """Have it wait for any other replica."""
    log.set_isr([LEADER], 1)
    assert log.lacks_replicas


def test_streams_are_made_from_the_log(partition: Partition) -> None:
    offsets = [partition.write(b"a", version) for version in (1, 2, 3)]
    partition.write(b"b", 1)
    saved = partition.write(b"a", 2, b"cursus.snapshot_version")
    partition.write(b"c", 0, b"other")

    async def found() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        assert [await streams.version(key) for key in (b"a", b"b", b"c")] == [3, 1, 0]
        assert (await streams.find(b"a", 3, MANY)).offsets == offsets[2:]
        whole = await streams.find(b"a", 1, MANY)
        assert whole == (3, offsets[2:], Snapshot(2, saved))
        assert await owner.of(partition.topic, partition.log) is streams
        await owner.stop()

    partition.run(found())


def test_events_are_found_before_while_and_after_they_are_filed(partition: Partition) -> None:
    async def appended() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        offsets: list[int] = []
        for version in range(1, 31):
            assert await streams.version(b"k") == version - 1
            offsets.append(partition.append(streams, b"k", version))
            if version % 10 == 0:
                writing = asyncio.ensure_future(owner.cover(partition.places))
                while not writing.done():
                    assert (await streams.find(b"k", 1, MANY)).offsets == offsets
                    await asyncio.sleep(0)
                await writing
                assert streams.heads.recent == {}
            assert (await streams.find(b"k", 1, MANY)).offsets == offsets
            assert (await streams.find(b"k", 1, 5)).offsets == offsets[:6]
            first = max(version - 3, 1)
            assert (await streams.find(b"k", first, 2)).offsets == offsets[first - 1 :][:3]
        streams.heads.forget_versions(MANY)
        assert await streams.version(b"k") == 30
        await owner.stop()

    partition.run(appended())

    file = StreamFile(partition.logs.folder())
    assert file.versions([b"k"]) == [30]
    assert file.covered().offset == partition.log.log_end_offset
    file.close()


def test_many_streams_are_looked_up_together(partition: Partition) -> None:
    for number in range(50):
        partition.write(b"k%d" % number, 1)

    async def looked_up() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        keys = [b"k%d" % number for number in range(60)]
        found = await asyncio.gather(*(streams.version(key) for key in keys))
        assert found == [1] * 50 + [0] * 10
        await owner.stop()

    partition.run(looked_up())


def test_a_version_that_was_forgotten_meanwhile_is_looked_up_again(partition: Partition) -> None:
    async def raced() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        asked = asyncio.ensure_future(streams.version(b"k"))
        await asyncio.sleep(0)
        partition.append(streams, b"k", 1)
        await owner.cover(partition.places)
        streams.heads.forget_versions(MANY)

        assert await asked == 1
        await owner.stop()

    partition.run(raced())


def test_a_damaged_event_does_not_hide_those_after_it(partition: Partition) -> None:
    for version in (1, 2, 3):
        partition.write(b"k", version)
    [log] = partition.logs.folder().glob("*.log")
    log.write_bytes(log.read_bytes().replace(b"event 2", b"event X"))

    async def found() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        assert await streams.version(b"k") == 3
        with pytest.raises(StorageError, match="of a stream is missing"):
            await streams.find(b"k", 2, MANY)
        assert len((await streams.find(b"k", 3, MANY)).offsets) == 1
        await owner.stop()

    partition.run(found())


def test_an_empty_file_in_the_place_of_a_damaged_one_has_no_new_keys(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if nobody hears of the damage: the request that found it has been cancelled."""
    for version in (1, 2):
        partition.write(b"k", version)
    held = HeldInThread(monkeypatch, "snapshot")
    held.error = DamagedFileError("malformed")

    async def found() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        asked = asyncio.ensure_future(streams.snapshot(b"k"))
        await held.wait()
        asked.cancel()
        held.go_on()
        with pytest.raises(RequestError) as refused:
            await streams.version(b"k")
        assert refused.value.code is ErrorCode.LEADER_NOT_AVAILABLE
        assert not streams.is_present
        streams = await owner.of(partition.topic, partition.log)
        assert await streams.version(b"k") == 2
        await owner.stop()

    partition.run(found())


def test_a_lookup_says_nothing_once_its_streams_have_ended(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition.write(b"k", 1)
    held = HeldInThread(monkeypatch, "versions")

    async def ended() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        asked = asyncio.ensure_future(streams.version(b"k"))
        await held.wait()
        owner.forget(partition.log)
        held.go_on()
        with pytest.raises(RequestError):
            await asked
        await owner.stop()

    partition.run(ended())


def test_a_file_of_another_topic_is_made_anew(partition: Partition) -> None:
    partition.write(b"k", 1)
    file = StreamFile(partition.logs.folder())
    file.begin("another id")
    file.write({b"k": [0, 0, 0]}, {}, 1, 0)
    file.close()

    async def found() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        assert await streams.version(b"k") == 1
        await owner.stop()

    partition.run(found())


def test_appends_wait_while_there_is_no_memory(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "EVENTS_RECENT_BYTES_MAX", 2_000)

    async def full() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        for number in range(50):
            await owner.make_room()
            partition.append(streams, b"key%d" % number, 1)
            assert owner.native.recent_bytes < 2_000 + 400
        await owner.stop()
        assert owner.native.recent_bytes == 0

    partition.run(full())


def test_versions_are_forgotten_above_a_limit_of_memory(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "STREAM_VERSIONS_BYTES_MAX", 2_000)

    async def many() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        for number in range(50):
            partition.append(
                streams, b"key%d" % number, await streams.version(b"key%d" % number) + 1
            )
            assert await streams.version(b"key%d" % (number // 2)) == 1
            assert owner.native.known_bytes <= 2_000
        await owner.stop()

    partition.run(many())


def test_a_new_key_is_looked_up_until_all_keys_have_been_read(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_streams, "STREAM_KEYS_READ_PER_STATEMENT", 7)
    looked_up: list[bytes] = []
    versions = StreamFile.versions

    def counted(file: StreamFile, keys: list[bytes]) -> list[int]:
        looked_up.extend(keys)
        return versions(file, keys)

    monkeypatch.setattr(StreamFile, "versions", counted)
    for number in range(20):
        partition.write(b"old%d" % number, 1)
        partition.write(b"old%d" % number, 2)

    async def appended() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        assert await streams.version(b"old1") == 2
        assert not streams.heads.keys.is_whole  # nobody has begun a stream
        assert await streams.version(b"new") == 0
        partition.append(streams, b"meanwhile", await streams.version(b"meanwhile") + 1)
        while not streams.heads.keys.is_whole:
            await asyncio.sleep(0)
        looked_up.clear()
        for number in range(20):
            assert not streams.heads.keys.is_new(b"old%d" % number)
            assert await streams.version(b"new%d" % number) == 0
        assert not streams.heads.keys.is_new(b"meanwhile")
        assert len(looked_up) < 5
        streams.heads.forget_versions(MANY)
        assert await streams.version(b"old2") == 2
        assert looked_up[-1] == b"old2"
        await owner.stop()

    partition.run(appended())


def test_keys_are_read_of_one_partition_at_a_time(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_streams, "STREAM_KEYS_READ_PER_STATEMENT", 2)
    read: list[StreamFile] = []
    keys = StreamFile.keys

    def noted(file: StreamFile, after: bytes, events_max: int) -> list[bytes]:
        read.append(file)
        return keys(file, after, events_max)

    monkeypatch.setattr(StreamFile, "keys", noted)
    other: Any = partition.logs.create(1, is_group_commit=False)

    async def begun() -> None:
        owner = EventStreams()
        both = [await owner.of(partition.topic, log) for log in (partition.log, other)]
        for number in range(9):
            for streams in both:
                streams.heads.append(b"k%d" % number, 1, number)
        for streams in both:
            events, size = streams.heads.take_recent()
            await owner.in_file(streams.folder, partial(StreamFile.write, **written(events)))
            owner.native.release(size)
        assert await asyncio.gather(*(each.version(b"new") for each in both)) == [0, 0]
        while not all(each.heads.keys.is_whole for each in both):
            await asyncio.sleep(0)
        assert len(read) == 2 * 6
        assert len(set(read[:6])) == len(set(read[6:])) == 1
        await owner.stop()

    partition.run(begun())


def written(events: Any) -> dict[str, Any]:
    return {"events": events, "snapshots": {}, "offset": 0, "epoch": 0}


def test_keys_that_cannot_be_read_are_looked_up(
    partition: Partition, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: object, **__: object) -> list[bytes]:
        raise StorageError("no disk")

    monkeypatch.setattr(StreamFile, "keys", failing)

    async def appended() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        for number in range(5):
            assert await streams.version(b"k%d" % number) == 0
            partition.append(streams, b"k%d" % number, 1)
        assert not streams.heads.keys.is_whole
        await owner.stop()

    partition.run(appended())
    assert caplog.text.count("keys of streams not read") == 1


def test_a_deleted_topic_takes_no_memory(partition: Partition) -> None:
    async def deleted() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        partition.append(streams, b"k", 1)
        owner.forget_topic("other")
        assert owner.native.recent_bytes > 0
        owner.forget_topic("topic")
        assert (owner.native.recent_bytes, owner.native.known_bytes) == (0, 0)
        assert not streams.is_present
        await owner.stop()

    partition.run(deleted())


def test_a_log_that_fails_before_its_streams_are_filed_is_not_served(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failed() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        partition.append(streams, b"k", 1)

        def write(*_: object) -> None:
            raise StorageError("no space")

        monkeypatch.setattr(StreamFile, "write", write)
        with pytest.raises(StorageError, match="no space"):
            await owner.cover(partition.places)
        assert not streams.is_present
        with pytest.raises(RequestError):
            await owner.of(partition.topic, partition.log)
        monkeypatch.undo()
        again = await owner.of(partition.topic, partition.log)
        assert await again.version(b"k") == 1
        await owner.stop()

    partition.run(failed())


def test_streams_of_another_epoch_are_read_anew(partition: Partition) -> None:
    lead(partition.log, epoch=1, isr=[LEADER])

    async def led_again() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        partition.append(streams, b"k", 1)
        streams.heads.know(b"k", 7)  # as if another leader had cut events off
        lead(partition.log, epoch=2, isr=[LEADER])
        partition.write(b"k", 2)

        assert not streams.is_present
        again = await owner.of(partition.topic, partition.log)
        assert again is not streams
        assert await again.version(b"k") == 2
        assert (await again.find(b"k", 1, MANY)).offsets == [0, 1]
        await owner.stop()

    partition.run(led_again())


def test_events_of_another_epoch_are_not_filed(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead(partition.log, epoch=1, isr=[LEADER])

    async def lost() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        partition.append(streams, b"k", 1)
        durable = tables._is_durable

        async def slow(log: Any, end: int) -> bool:
            found = await durable(log, end)
            if streams.filing:
                lead(partition.log, epoch=2, isr=[LEADER])
            return found

        monkeypatch.setattr(tables, "_is_durable", slow)
        with pytest.raises(StorageError, match="failed before its streams were written"):
            await owner.cover(partition.places)
        monkeypatch.undo()
        assert owner.native.recent_bytes == 0
        assert await (await owner.of(partition.topic, partition.log)).version(b"k") == 1
        await owner.stop()

    partition.run(lost())


def test_events_whose_replicas_are_late_are_filed_later(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead(partition.log, epoch=1, isr=[LEADER])

    async def late() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        offsets = [partition.append(streams, b"k", 1)]
        durable = tables._is_durable
        asked = 0

        async def one_replica_less(log: Any, end: int) -> bool:
            nonlocal asked
            asked += 1
            assert asked < 10, "it asks again and again, and nothing else runs"
            found = await durable(log, end)
            if asked == 1:
                wait_for_replica(log)
                offsets.append(partition.append(streams, b"k", 2))
                partition.append(streams, b"other", 1)
                lose_replica(log)
            return found

        monkeypatch.setattr(tables, "_is_durable", one_replica_less)
        await owner.cover(partition.places)
        assert streams.is_present
        assert (streams.filing, streams.heads.recent_count) == ({}, 3)
        assert streams.heads.recent_bytes == owner.native.recent_bytes
        assert [await streams.version(key) for key in (b"k", b"other")] == [2, 1]
        assert streams.durable_version(b"k", 2) == 1

        partition.log.configure(is_group_commit=False, min_isr=1)
        await owner.cover(partition.places)
        assert owner.native.recent_bytes == 0
        assert (await streams.find(b"k", 1, MANY)).offsets == offsets
        await owner.stop()

    partition.run(late())


def test_an_append_does_not_wait_for_late_replicas_of_others(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "EVENTS_RECENT_BYTES_MAX", 100)
    monkeypatch.setattr(tables, "STREAMS_ROOM_WAIT_SECONDS", 0.3)
    lead(partition.log, epoch=1, isr=[LEADER])

    async def full() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        wait_for_replica(partition.log)
        partition.append(streams, b"k", 1)
        lose_replica(partition.log)
        with pytest.raises(RequestError) as refused:
            await owner.make_room()
        assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
        partition.log.configure(is_group_commit=False, min_isr=1)
        await owner.make_room()
        assert owner.native.recent_bytes == 0
        await owner.stop()

    partition.run(full())


def test_a_lookup_that_ends_after_its_streams_leaves_nothing(partition: Partition) -> None:
    async def ended() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        asked = asyncio.ensure_future(streams.version(b"k"))
        await asyncio.sleep(0)
        owner.forget(partition.log)
        await asyncio.gather(asked, return_exceptions=True)
        assert owner.native.known_bytes == 0
        await owner.stop()

    partition.run(ended())


def test_a_file_of_a_lost_partition_stays_closed(partition: Partition) -> None:
    async def lost() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        owner.lost("topic", 0)
        with pytest.raises(RequestError):
            await streams.version(b"k")
        await owner.stop()

    partition.run(lost())


# ---- its log moves to another folder -------------------------------------------------------------


def begun_copy(partition: Partition, path: Path) -> FolderCopy:
    """Begin to copy the log into another directory."""
    path.mkdir()
    copy = FolderCopy(partition.log, path)
    copy.begin()
    return copy


def use(copy: FolderCopy) -> None:
    """Have the log use its copy."""
    assert copy.switch(lambda work: work(), lambda: None)
    shutil.rmtree(copy.left)


def test_streams_are_served_from_the_new_folder_of_their_log(
    partition: Partition, tmp_path: Path
) -> None:
    async def moved() -> None:
        owner = EventStreams()
        place = partition.topic, partition.log
        streams = await owner.of(*place)
        offsets = [partition.append(streams, b"a", version) for version in (1, 2)]
        saved = partition.write(b"a", 1, b"cursus.snapshot_version")
        streams.saved(b"a", Snapshot(1, saved))
        await owner.cover(partition.places)
        offsets.append(partition.append(streams, b"a", 3))
        copy = begun_copy(partition, tmp_path / "other")

        await owner.copy(*place, copy.folder, lambda: True)
        offsets.append(partition.append(streams, b"a", 4))
        await owner.cover(partition.places)
        async with owner.moving(*place, copy.folder):
            streams.heads.forget_versions(MANY)
            looks: list[asyncio.Future[Any]] = [
                asyncio.ensure_future(streams.version(key)) for key in (b"a", b"b")
            ]
            looks.append(asyncio.ensure_future(streams.find(b"a", 1, MANY)))
            for _ in range(STEPS):
                await owner.in_file(tmp_path, StreamFile.covered)  # in its turn
            assert not any(each.done() for each in looks)
            offsets.append(partition.append(streams, b"a", 5))
            use(copy)
            assert Path(partition.log.folder) == tmp_path / "other" / "topic-0"

        assert [await each for each in looks] == [5, 0, (2, offsets[1:], Snapshot(1, saved))]
        assert await owner.of(*place) is streams
        await owner.cover(partition.places)
        assert (await streams.find(b"a", 4, MANY)).offsets == offsets[3:]
        await owner.stop()
        file = StreamFile(tmp_path / "other" / "topic-0")
        assert file.covered().offset == partition.log.log_end_offset
        assert file.offsets(b"a", 1, MANY) == offsets
        file.close()

    partition.run(moved())


def test_streams_that_nobody_has_used_since_the_start_move_too(
    partition: Partition, tmp_path: Path
) -> None:
    offsets = [partition.write(b"a", version) for version in (1, 2)]

    async def moved() -> None:
        owner = EventStreams()
        place = partition.topic, partition.log
        copy = begun_copy(partition, tmp_path / "other")
        await owner.copy(*place, copy.folder, lambda: True)
        async with owner.moving(*place, copy.folder):
            waiting = asyncio.ensure_future(owner.of(*place))
            use(copy)
        assert (await (await waiting).find(b"a", 1, MANY)).offsets == offsets
        await owner.stop()

    partition.run(moved())


@pytest.mark.parametrize("follows_from", ["the beginning", "its switch"])
def test_a_log_that_follows_moves_without_a_file(
    partition: Partition, tmp_path: Path, follows_from: str
) -> None:
    offset = partition.write(b"a", 1)
    log, place = partition.log, (partition.topic, partition.log)

    async def moved() -> list[int]:
        owner = EventStreams()
        lead(log)
        if follows_from == "the beginning":
            log.follow(1)
        copy = begun_copy(partition, tmp_path / "other")
        await owner.copy(*place, copy.folder, lambda: True)
        log.follow(1)
        async with owner.moving(*place, copy.folder):
            use(copy)
        log.lead(2, LEADER, [LEADER], [LEADER])
        found = await (await owner.of(*place)).find(b"a", 1, MANY)
        await owner.stop()
        return list(found.offsets)

    assert partition.run(moved()) == [offset]


@pytest.mark.parametrize("is_group_commit", [True, False])
def test_streams_move_while_too_few_replicas_are_in_sync(
    partition: Partition, tmp_path: Path, is_group_commit: bool
) -> None:
    """Their file has only what is on the disk, and was below the high watermark before."""
    offset = partition.write(b"a", 1)
    log, place = partition.log, (partition.topic, partition.log)
    lead(log, isr=[LEADER])
    log.configure(is_group_commit=is_group_commit)

    async def moved() -> list[int]:
        owner = EventStreams()
        streams = await owner.of(*place)
        await owner.cover(partition.places)
        log.configure(is_group_commit=is_group_commit, min_isr=2)
        lose_replica(log)
        copy = begun_copy(partition, tmp_path / "other")
        await owner.copy(*place, copy.folder, lambda: True)
        async with owner.moving(*place, copy.folder):
            use(copy)
        found = await streams.find(b"a", 1, MANY)
        log.configure(is_group_commit=is_group_commit, min_isr=1)
        await owner.stop()
        return list(found.offsets)

    assert partition.run(moved()) == [offset]


def test_streams_stay_in_the_folder_of_a_log_that_does_not_move(
    partition: Partition, tmp_path: Path
) -> None:
    async def stays() -> None:
        owner = EventStreams()
        place = partition.topic, partition.log
        streams = await owner.of(*place)
        offsets = [partition.append(streams, b"a", version) for version in (1, 2)]
        await owner.cover(partition.places)
        copy = begun_copy(partition, tmp_path / "other")
        await owner.copy(*place, copy.folder, lambda: True)
        async with owner.moving(*place, copy.folder):
            looking = asyncio.ensure_future(streams.find(b"a", 1, MANY))
            await asyncio.sleep(0)
        shutil.rmtree(copy.folder)

        assert (await looking).offsets == offsets
        offsets.append(partition.append(streams, b"a", 3))
        await owner.cover(partition.places)
        assert (await streams.find(b"a", 1, MANY)).offsets == offsets
        await owner.stop()

    partition.run(stays())


def test_a_lookup_is_refused_when_the_move_of_its_log_takes_long(
    partition: Partition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def moved() -> None:
        owner = EventStreams()
        place = partition.topic, partition.log
        streams = await owner.of(*place)
        monkeypatch.setattr(partition_streams, "STREAMS_LOAD_WAIT_SECONDS", 0.01)
        copy = begun_copy(partition, tmp_path / "other")
        async with owner.moving(*place, copy.folder):
            with pytest.raises(RequestError) as refused:
                await streams.find(b"a", 1, MANY)
            use(copy)
        assert refused.value.code is ErrorCode.LEADER_NOT_AVAILABLE
        assert not (await streams.find(b"a", 1, MANY)).offsets
        await owner.stop()

    partition.run(moved())


def test_a_copy_of_streams_ends_early_when_it_is_not_wanted(
    partition: Partition, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "EVENTS_RECENT_MAX", 2)
    for version in range(1, 8):
        partition.write(b"a", version)
    answers = [False, False, True, True]

    async def ended() -> None:
        owner = EventStreams()
        await owner.copy(partition.topic, partition.log, tmp_path, answers.pop)
        file = StreamFile(tmp_path)  # nobody else has it open
        assert file.covered().offset == 4
        file.close()
        await owner.stop()

    partition.run(ended())
    assert answers == []

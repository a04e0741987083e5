"""`broker snapshot create` on a real broker that keeps working."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import xxhash

from broker import segments
from broker.client.metadata import Cluster
from broker.codec import encode, records
from broker.model.errors import ConfigError, RequestError, SnapshotFailed, Unreachable
from broker.pipeline.jobs import snapshot
from broker.pipeline.segments import manifest
from broker.pipeline.segments.manifest import PartitionEntry
from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

StartBroker = Callable[..., BrokerProcess]
Pairs = list[tuple[bytes, bytes]]
TINY = {"segment_bytes": "16384"}
NOW_MS = time.time_ns() // 1_000_000  # retention does not delete it


def produce(client: WireClient, topic: str, pairs: Pairs) -> int:
    [batch] = encode(pairs, timestamp_ms=NOW_MS)
    error, offset = wire_requests.produce(client, topic, batch)
    assert error == 0
    return offset


def filled(broker: BrokerProcess, topic: str, count: int, **configs: str) -> Pairs:
    """Create a topic with that many records, in batches of ten."""
    pairs = [(b"k%d" % (each % 7), b"v%d" % each + bytes(90)) for each in range(count)]
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic, 1, **(TINY | configs))
        for start in range(0, count, 10):
            produce(client, topic, pairs[start : start + 10])
    return pairs


def read(folder: Path, entry: PartitionEntry) -> Iterator[tuple[int, bytes, bytes]]:
    with segments.open(folder / entry.folder) as log:
        for chunk in log.chunks(start_offset=entry.start_offset, end_offset=entry.high_watermark):
            for record in records(bytes(chunk.data)):
                assert record.key is not None
                assert record.value is not None
                yield record.offset, bytes(record.key), bytes(record.value)


def only_entry(folder: Path) -> PartitionEntry:
    [entry] = manifest.read(folder).partitions
    return entry


def test_a_snapshot_has_every_record_and_outlives_the_topic(
    start_broker: StartBroker, tmp_path: Path, topic: str
) -> None:
    broker = start_broker()
    pairs = filled(broker, topic, 600)

    report = snapshot.create(tmp_path / "snapshot", broker.data_dir, broker.address)

    assert report.is_well
    with WireClient(broker.address) as client:  # later records are not in it
        produce(client, topic, [(b"later", b"later")] * 400)
        answer = client.request("DeleteTopics", 5, {"topic_names": [topic], "timeout_ms": 10_000})
        assert answer["responses"][0]["error_code"] == 0
    entry = only_entry(tmp_path / "snapshot")
    assert len(entry.segments) > 2
    assert entry.high_watermark == entry.last_stable_offset == 600
    assert list(read(tmp_path / "snapshot", entry)) == [
        (offset, key, value) for offset, (key, value) in enumerate(pairs)
    ]


def test_the_manifest_hashes_the_files_of_the_snapshot(
    start_broker: StartBroker, tmp_path: Path, topic: str
) -> None:
    broker = start_broker()
    filled(broker, topic, 300)

    snapshot.create(tmp_path / "snapshot", broker.data_dir, broker.address)
    with WireClient(broker.address) as client:
        produce(client, topic, [(b"later", b"later")])

    entry = only_entry(tmp_path / "snapshot")
    for each in entry.segments:
        file = tmp_path / "snapshot" / entry.folder / f"{each.base_offset:020}.log"
        content = file.read_bytes()[: each.end_position]
        assert f"{xxhash.xxh3_64_intdigest(content):016x}" == each.xxh3_64
        assert file.samefile(broker.data_dir / entry.folder / file.name)


def test_snapshots_of_a_log_during_compaction_lose_and_duplicate_nothing(
    start_broker: StartBroker, tmp_path: Path, topic: str
) -> None:
    broker = start_broker("log.cleaner.backoff.ms=10", "polylog.durability=os")
    configs = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01"}
    written = filled(broker, topic, 500, **configs)
    has_enough = threading.Event()

    def write() -> None:
        with WireClient(broker.address) as client:
            while not has_enough.is_set():
                count = len(written)
                some = [
                    (b"k%d" % (each % 50), b"v%d" % each + bytes(90))
                    for each in range(count, count + 20)
                ]
                written.extend(some)
                assert produce(client, topic, some) == count
                time.sleep(0.002)  # not at full speed: the folder would only grow

    writer = threading.Thread(target=write)
    writer.start()
    thinned = 0
    try:
        for number in range(40):
            folder = tmp_path / f"snapshot-{number}"
            assert snapshot.create(folder, broker.data_dir, broker.address).is_well
            entry = only_entry(folder)
            found = list(read(folder, entry))
            expected = dict(written[: entry.high_watermark])
            offsets = [offset for offset, _, _ in found]
            assert offsets == sorted(set(offsets))
            assert {key: value for _, key, value in found} == expected
            assert all(written[offset] == (key, value) for offset, key, value in found)
            thinned += len(found) < entry.high_watermark
    finally:
        has_enough.set()
        writer.join()
    assert thinned > 5, "nothing was compacted meanwhile"


def test_deleted_records_are_before_the_start_of_the_snapshot(
    start_broker: StartBroker, tmp_path: Path, topic: str
) -> None:
    broker = start_broker()
    pairs = filled(broker, topic, 300)
    deleted = {"partition_index": 0, "offset": 155}
    with WireClient(broker.address) as client:
        client.request(
            "DeleteRecords",
            1,
            {"topics": [{"name": topic, "partitions": [deleted]}], "timeout_ms": 10_000},
        )

    snapshot.create(tmp_path / "snapshot", broker.data_dir, broker.address)

    entry = only_entry(tmp_path / "snapshot")
    assert entry.start_offset == 155
    found = [each for each in read(tmp_path / "snapshot", entry) if each[0] >= 155]
    assert [value for _, _, value in found] == [value for _, value in pairs[155:]]


def test_an_empty_topic_is_in_the_snapshot_without_segments(
    start_broker: StartBroker, tmp_path: Path, topic: str
) -> None:
    broker = start_broker()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic, 2)

    snapshot.create(tmp_path / "snapshot", broker.data_dir, broker.address)

    entries = manifest.read(tmp_path / "snapshot").partitions
    assert [(each.partition, each.high_watermark, each.segments) for each in entries] == [
        (0, 0, ()),
        (1, 0, ()),
    ]


def test_the_data_directory_of_another_broker_is_refused_and_nothing_is_left_behind(
    start_broker: StartBroker, tmp_path: Path, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "SNAPSHOT_TRIES", 2)
    one, other = start_broker(), start_broker()
    filled(one, topic, 20)
    filled(other, topic, 20)

    with pytest.raises(SnapshotFailed, match="its topic has the id"):
        snapshot.create(tmp_path / "snapshot", other.data_dir, one.address)

    assert not (tmp_path / "snapshot").exists()


def test_only_the_named_topics_are_linked(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker()
    for name in ("one", "two"):
        filled(broker, name, 20)

    snapshot.create(tmp_path / "snapshot", broker.data_dir, broker.address, topics=["two"])

    assert only_entry(tmp_path / "snapshot").topic == "two"


def test_a_topic_that_does_not_exist_is_named(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker()

    with pytest.raises(RequestError, match="no topic named 'nosuch'"):
        snapshot.create(tmp_path / "snapshot", broker.data_dir, broker.address, topics=["nosuch"])

    assert not (tmp_path / "snapshot").exists()


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()

    with pytest.raises(ConfigError, match="not empty"):
        snapshot.create(tmp_path, tmp_path, "127.0.0.1:1")

    assert (tmp_path / "precious").exists()


def test_a_target_on_another_file_system_is_reported(
    start_broker: StartBroker, tmp_path: Path, topic: str
) -> None:
    memory = Path("/dev/shm")  # noqa: S108 - what is there is what is wanted
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system")
    broker = start_broker()
    filled(broker, topic, 20)
    folder = memory / f"snapshot-{os.getpid()}"

    with pytest.raises(ConfigError, match="another file system"):
        snapshot.create(folder, broker.data_dir, broker.address)

    assert not folder.exists()


def test_without_a_broker_the_error_has_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "Cluster", partial(Cluster, give_up_seconds=0))

    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        snapshot.create(tmp_path / "snapshot", tmp_path, "127.0.0.1:1")


def test_the_command_reports_in_json_and_its_progress_on_stderr(
    start_broker: StartBroker, tmp_path: Path, topic: str
) -> None:
    broker = start_broker()
    filled(broker, topic, 100)

    ended = subprocess.run(
        [
            *(sys.executable, "-m", "broker", "snapshot", "create", str(tmp_path / "snapshot")),
            *("--data-dir", str(broker.data_dir), "--broker", broker.address, "-o", "json"),
        ],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )

    report = json.loads(ended.stdout)
    assert report["totals"]["partitions"] == 1
    assert report["rows"][0]["high_watermark"] == 100
    assert f"{topic}-0" in ended.stderr

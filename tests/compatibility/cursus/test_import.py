"""`broker import cursus` into the real process: data of the original Cursus."""

from pathlib import Path

import pytest

from broker.codec import records
from tests.compatibility.cursus.event_stores import EventStore
from tests.support import cursus_directories, wire_requests
from tests.support.broker_process import Broker
from tests.support.cursus_client import CursusClient, read_batch
from tests.support.cursus_directories import (
    TIME_MS,
    Stored,
    manifest,
    metadata,
    segment,
    snapshots,
    transaction,
)
from tests.support.imports import report, run_import
from tests.support.wire_client import WireClient

OFFSETS = "__consumer_offsets"


def read(broker: Broker, topic: str, partition: int = 0) -> list[tuple[int, bytes | None]]:
    with WireClient(broker.address) as client:
        batches = wire_requests.fetch(client, topic, partition, 0)
    return [(each.offset, each.value) for each in records(batches)]


def event(key: bytes, version: int, payload: bytes) -> Stored:
    return Stored(
        payload,
        key,
        event_type=b"Happened",
        schema_version=2,
        aggregate_version=version,
        metadata=b'{"by":"me"}',
    )


def in_transaction(name: str, payload: bytes, marker: str = "") -> Stored:
    return Stored(
        payload,
        producer_id=b"p",
        sequence=1,
        state=b"open",
        transactional_id=name.encode(),
        marker=marker.encode(),
    )


@pytest.fixture
def topics(topic: str) -> tuple[str, str]:
    """The names of two topics of a test's own."""
    return topic, f"{topic}-other"


def test_an_import_keeps_records_offsets_settings_and_committed_offsets(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    group = f"group-{topic}"
    manifest(tmp_path, **{topic: {"partitions": 3, "idempotent": True}, OFFSETS: {"partitions": 4}})
    message = Stored(b"a \0 b", b"k", b"py-1", 7, 1_790_000_000)
    segment(tmp_path, topic, 0, 0, [message, Stored(b"two")], layout="key")
    segment(tmp_path, topic, 0, 2, [Stored(b"three")], layout="identity")
    segment(tmp_path, topic, 2, 0, [Stored(b"x")], layout="plain")
    registered = metadata("group_registration", group, 1, topic=topic, partition_count=3)
    offsets = cursus_directories.committed(group, topic, 1, 2, {0: 2, 2: 1})
    segment(tmp_path, OFFSETS, 1, 0, [registered])
    segment(tmp_path, OFFSETS, 3, 0, [offsets])

    ended = run_import("cursus", tmp_path, broker, "-o", "json")

    assert ended.returncode == 0, ended.stderr
    assert report(ended)["is_complete"]
    assert report(ended)["topics"][topic]["0"]["offsets_are_the_same"]
    assert read(broker, topic) == [(0, b"a \0 b"), (1, b"two"), (2, b"three")]
    assert read(broker, topic, 2) == [(0, b"x")]
    with WireClient(broker.address) as client:
        assert wire_requests.committed(client, group) == {(topic, 0): 2, (topic, 2): 1}
        [batch] = [*records(wire_requests.fetch(client, topic, 2, 0))]
        assert batch.timestamp == TIME_MS
    with CursusClient(broker.address) as cursus:
        assert "partitions=3" in cursus.ask(f"METADATA topic={topic}")
        answer = cursus.answer(f"CONSUME topic={topic} partition=0 offset=0 group=r-{topic}")
        first = read_batch(answer).messages[0]
        assert (first.payload, first.key, first.producer_id) == (b"a \0 b", b"k", b"py-1")
        assert (first.seq, first.epoch) == (7, 1_790_000_000)
        assert cursus.ask(f"FETCH_OFFSET topic={topic} partition=0 group={group}") == "OK offset=2"


def test_only_what_a_committed_reader_sees_is_imported_and_offsets_shift(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    group = f"group-{topic}"
    entries = [
        Stored(b"0"),
        in_transaction("a", b"1"),
        in_transaction("b", b"2"),
        in_transaction("a", b"__cursus_txn_control_marker__", "commit"),
        in_transaction("b", b"__cursus_txn_control_marker__", "abort"),
        Stored(b"5"),
        in_transaction("c", b"6"),
        in_transaction("d", b"7"),
    ]
    segment(tmp_path, topic, 0, 0, entries)
    outcome = {**transaction("c", "committed", **{topic: 7}), "id": "c"}
    outcome["offsets"][0]["Group"] = group
    cursus_directories.journal(tmp_path, outcome, transaction("d", "open"))

    ended = run_import("cursus", tmp_path, broker, "-o", "json")

    assert ended.returncode == 0, ended.stderr
    assert report(ended)["left_out"] == 2
    assert not report(ended)["topics"][topic]["0"]["offsets_are_the_same"]
    assert [value for _, value in read(broker, topic)] == [b"0", b"1", b"5", b"6"]
    with WireClient(broker.address) as client:
        assert wire_requests.committed(client, group) == {(topic, 0): 4}


def test_streams_keep_their_versions_and_snapshots(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    manifest(tmp_path, **{topic: {"partitions": 1, "event_sourcing": True}})
    events = [event(b"o-%d" % (each % 3), 1 + each // 3, b"e%d" % each) for each in range(600)]
    segment(tmp_path, topic, 0, 0, events)
    snapshots(tmp_path, topic, 0, (b"o-0", 1, b"old"), (b"o-0", 199, b"state"))

    ended = run_import("cursus", tmp_path, broker, "-o", "json")

    assert ended.returncode == 0, ended.stderr
    assert report(ended)["snapshots"] == 1
    assert report(ended)["topics"][topic]["0"] == {
        "records": 600,
        "first_offset_there": 0,
        "offsets_are_the_same": True,
    }
    with EventStore(broker.address, topic) as store:
        assert store.version("o-1") == 200
        assert store.read_snapshot("o-0") == (199, "state")
        snapshot, found = store.read("o-0")
        assert snapshot == (199, "state")
        [last] = found
        assert (last.payload, last.event_type, last.schema_version) == (b"e597", b"Happened", 2)
        assert (last.aggregate_version, last.metadata) == (200, b'{"by":"me"}')
        assert store.append("o-0", 201, "next").offset == 601


def test_a_stream_that_has_lost_its_beginning_is_reported(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    manifest(tmp_path, **{topic: {"event_sourcing": True}})
    entries = [event(b"a", 3, b"x"), event(b"a", 4, b"y"), event(b"b", 1, b"z"), Stored(b"none")]
    segment(tmp_path, topic, 0, 7, entries)

    ended = run_import("cursus", tmp_path, broker, "-o", "json")

    assert ended.returncode == 1
    assert report(ended)["other_problems"] == 2
    assert "version_conflict current=0 expected=3; nothing behind it" in ended.stderr
    assert "it has no key or no version, and is no event" in ended.stderr
    with EventStore(broker.address, topic) as store:
        assert (store.version("a"), store.version("b")) == (0, 1)


def settings_of(broker: Broker, topic: str) -> dict[str, str]:
    asked = {"resource_type": 2, "resource_name": topic, "configuration_keys": None}
    with WireClient(broker.address) as client:
        [found] = client.request("DescribeConfigs", 1, {"resources": [asked]})["results"]
    return {each["name"]: each["value"] for each in found["configs"]}


def test_compacted_topics_are_compacted_again_unless_records_have_no_key(
    broker: Broker, topics: tuple[str, str], tmp_path: Path
) -> None:
    keyed, keyless = topics
    policy = {"policy": {"cleanup_policy": "compact", "auth_policy": "acl"}}
    manifest(tmp_path, **{keyed: policy, keyless: policy})
    segment(tmp_path, keyed, 0, 0, [None, Stored(b"b", b"k"), None, Stored(b"d", b"l")])
    segment(tmp_path, keyless, 0, 0, [Stored(b"a")])

    ended = run_import("cursus", tmp_path, broker)

    assert ended.returncode == 1
    assert f"topic {keyless} is compacted by the original and has records without" in ended.stderr
    assert ended.stderr.count("has the access policy acl, which is not imported") == 2
    assert settings_of(broker, keyed)["cleanup.policy"] == "compact"
    assert settings_of(broker, keyless)["cleanup.policy"] == "delete"
    assert settings_of(broker, keyed)["retention.ms"] == "-1"
    assert read(broker, keyed) == [(0, b"b"), (1, b"d")]
    assert f"{keyed}-0: 2 records, first original offset 1: offsets changed" in ended.stdout


def test_damage_is_reported_with_its_position_and_everything_else_is_imported(
    broker: Broker, topics: tuple[str, str], tmp_path: Path
) -> None:
    topic, other = topics
    file = segment(tmp_path, topic, 0, 0, [Stored(b"a")], tail=b"\0\0\1")
    segment(tmp_path, other, 0, 0, [Stored(b"b")])
    segment(tmp_path, "no topic", 0, 0, [Stored(b"c")])
    segment(tmp_path, OFFSETS, 0, 0, [Stored(b"{}")])
    cursus_directories.journal(tmp_path, transaction("t", "committing"))

    ended = run_import("cursus", tmp_path, broker, "-o", "json")

    assert ended.returncode == 1
    size = file.stat().st_size - 3
    assert f"{file.name}:{size}: the record is incomplete" in ended.stderr
    assert "rename its files" in ended.stderr
    assert f"{OFFSETS}-0: the record at offset 0 cannot be read" in ended.stderr
    assert "start and stop the original once" in ended.stderr
    assert "1 damaged records and 3 other problems" in ended.stderr.splitlines()[-1]
    assert report(ended)["damaged_records"] == 1
    assert report(ended)["other_problems"] == 3
    assert (read(broker, topic), read(broker, other)) == ([(0, b"a")], [(0, b"b")])


def test_a_dry_run_changes_nothing_and_tells_the_same(
    broker: Broker, topics: tuple[str, str], tmp_path: Path
) -> None:
    topic, streams = topics
    manifest(tmp_path, **{topic: {}, streams: {"event_sourcing": True}})
    segment(tmp_path, topic, 0, 3, [Stored(b"a"), Stored(b"b")])
    segment(tmp_path, streams, 0, 0, [event(b"k", 1, b"e")])
    snapshots(tmp_path, streams, 0, (b"k", 1, b"s"))
    offsets = cursus_directories.committed(f"g-{topic}", topic, 1, 1, {0: 4})
    segment(tmp_path, OFFSETS, 0, 0, [offsets])

    dry = run_import("cursus", tmp_path, broker, "--dry-run", "-o", "json")

    assert dry.returncode == 0, dry.stderr
    with WireClient(broker.address) as client:
        found = client.request("Metadata", 5, {"topics": None, "allow_auto_topic_creation": False})
        assert not {each["name"] for each in found["topics"]} & set(topics)
    wet = run_import("cursus", tmp_path, broker, "-o", "json")
    assert wet.returncode == 0, wet.stderr
    assert report(dry) == report(wet)
    again = run_import("cursus", tmp_path, broker, "--dry-run")
    assert again.returncode == 1
    assert "has records already: delete it" in again.stderr


def test_a_directory_that_is_not_cursuss_is_a_usage_error(broker: Broker, tmp_path: Path) -> None:
    ended = run_import("cursus", tmp_path, broker)

    assert ended.returncode == 2
    assert "give the directory of logs (log_dir) of Cursus" in ended.stderr


def test_an_invalid_manifest_is_not_guessed_around(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "__topic_metadata.json").write_text("{")

    ended = run_import("cursus", tmp_path, broker)

    assert ended.returncode == 1
    assert "or move it away: topics then get the partitions that have files" in ended.stderr

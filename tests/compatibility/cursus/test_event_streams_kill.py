"""Streams after kill -9 and restarts, whatever became of the file that finds their events."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compatibility.cursus.event_stores import EventStore, RefusedError
from tests.support.broker_process import BrokerProcess
from tests.support.cursus_client import CursusClient, envelope

StartBroker = Callable[..., BrokerProcess]
KEYS = 16
CYCLES = 2
FILE = "event-streams.db"
TOPIC = "orders"


def assert_whole(address: str, least: dict[str, int], most: dict[str, int] | None = None) -> None:
    """Check that each stream has all versions, in order, each once; it can be appended to."""
    with EventStore(address, TOPIC) as store:
        for key, version in least.items():
            events = store.read(key).events
            assert [each.aggregate_version for each in events] == list(range(1, len(events) + 1))
            assert [each.payload for each in events] == [
                f"{key}-{each.aggregate_version}".encode() for each in events
            ]
            assert version <= len(events) <= (most or least)[key]
            assert store.version(key) == len(events)
            with pytest.raises(RefusedError, match=f"version_conflict current={len(events)}"):
                store.append(key, len(events), "again")


def keys() -> Iterator[str]:
    return (f"key{number}" for number in range(KEYS))


def append(client: CursusClient, store: EventStore, appends: list[tuple[str, int]]) -> None:
    """Send appends without waiting for their answers."""
    for key, version in appends:
        client.send(envelope(store.append_command(key, version, f"{key}-{version}")))


def append_all(address: str, versions: dict[str, int], count: int) -> None:
    """Append events to all streams in turn; every one is acknowledged."""
    with EventStore(address, TOPIC) as store:
        for _ in range(count):
            appends = []
            for key, version in versions.items():
                versions[key] = version + 1
                appends.append((key, version + 1))
            append(store.connection, store, appends)
            for _ in appends:
                assert (store.connection.frame() or b"").startswith(b"OK version=")


@pytest.mark.parametrize("durability", ["os", "group-commit"])
def test_acknowledged_events_survive_kill_9_with_their_versions(
    start_broker: StartBroker, durability: str
) -> None:
    rng = random.Random(durability)
    broker = start_broker(f"polylog.durability={durability}")
    with EventStore(broker.address, TOPIC) as store:
        store.create(2)
    acknowledged = dict.fromkeys(keys(), 0)
    sent = dict(acknowledged)

    for _ in range(CYCLES):
        with EventStore(broker.address, TOPIC) as store:
            for key in acknowledged:
                sent[key] = acknowledged[key] = store.version(key)
            appends = []
            for _ in range(rng.randint(500, 3000)):
                key = f"key{rng.randrange(KEYS)}"
                sent[key] += 1
                appends.append((key, sent[key]))
            append(store.connection, store, appends)
            for key, version in appends[: rng.randrange(len(appends))]:
                assert store.connection.frame() is not None
                acknowledged[key] = version
            broker.kill()
        broker.start()
        assert_whole(broker.address, acknowledged, sent)


def damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100:2000] = b"\xff" * 1900
    path.write_bytes(data)


def garbage(path: Path) -> None:
    path.write_bytes(b"no database at all" * 100)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def removed(path: Path) -> None:
    path.unlink()


def test_the_file_of_streams_is_made_anew_from_the_log(start_broker: StartBroker) -> None:
    broker = start_broker()
    with EventStore(broker.address, TOPIC) as store:
        store.create(1)
    versions = dict.fromkeys(keys(), 0)
    append_all(broker.address, versions, 20)
    with EventStore(broker.address, TOPIC) as store:
        store.save_snapshot("key1", 7, "seven")
    for harm in (damaged, garbage, empty, removed):
        broker.stop()
        harm(broker.data_dir / f"{TOPIC}-0" / FILE)

        broker.start()

        with EventStore(broker.address, TOPIC) as store:
            assert store.read_snapshot("key1") == (7, "seven"), harm
            assert store.read("key1", 8).snapshot is None
            assert store.read("key1", 7).snapshot == (7, "seven")
        # Of key1 the snapshot takes the place of its first events.
        assert_whole(broker.address, {key: versions[key] for key in versions if key != "key1"})


def test_a_file_of_streams_may_be_of_any_age_or_of_another_partition(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    broker = start_broker()
    with EventStore(broker.address, TOPIC) as store:
        store.create(1)
    versions = dict.fromkeys(keys(), 0)
    append_all(broker.address, versions, 5)
    with EventStore(broker.address, "other") as store:
        store.create(1)
        for version in range(1, 400):
            store.append("key1", version, "x")
    broker.stop()
    path = broker.data_dir / f"{TOPIC}-0" / FILE
    shutil.copy(path, tmp_path / "older")
    broker.start()
    append_all(broker.address, versions, 5)
    broker.stop()

    for replacement in (tmp_path / "older", broker.data_dir / "other-0" / FILE):
        shutil.copy(replacement, path)
        broker.start()
        assert_whole(broker.address, versions)
        broker.stop()


def test_a_file_of_streams_that_is_ahead_of_its_log_is_made_anew(
    start_broker: StartBroker,
) -> None:
    broker = start_broker("polylog.durability=os")
    with EventStore(broker.address, TOPIC) as store:
        store.create(1)
    versions = dict.fromkeys(keys(), 0)
    append_all(broker.address, versions, 3)
    broker.stop()
    folder = broker.data_dir / f"{TOPIC}-0"
    [log] = folder.glob("*.log")
    size = log.stat().st_size
    (broker.data_dir / ".kafka_cleanshutdown").unlink()
    with log.open("r+b") as file:
        file.truncate(size // 2)  # a power cut took the rest away

    broker.expected_complaints.append("synced records are lost")
    broker.start()

    with EventStore(broker.address, TOPIC) as store:
        left = {key: store.version(key) for key in versions}
        assert 0 < sum(left.values()) < sum(versions.values())
        assert_whole(broker.address, left)
        for key, version in left.items():
            store.append(key, version + 1, f"{key}-{version + 1}")
            left[key] = version + 1
    assert_whole(broker.address, left)


def with_streams_in_no_memory(
    start_broker: StartBroker, partitions: int, events: int
) -> tuple[BrokerProcess, dict[str, int]]:
    """Start a broker on streams that are in the file only; return it and their versions."""
    broker = start_broker()
    with EventStore(broker.address, TOPIC) as store:
        store.create(partitions)
    versions = dict.fromkeys(keys(), 0)
    append_all(broker.address, versions, events)
    broker.stop()
    broker.start()
    return broker, versions


def test_streams_that_are_not_in_memory_are_appended_to_in_order(
    start_broker: StartBroker,
) -> None:
    broker, versions = with_streams_in_no_memory(start_broker, 2, 2)

    with EventStore(broker.address, TOPIC) as store:
        for number in range(8):  # both partitions are loaded: no append is refused
            assert store.version(f"none{number}") == 0
        expected: list[bytes] = []
        for key in [*versions, "new", "other"]:
            version = versions.get(key, 0)
            append(
                store.connection, store, [(key, version + 1), (key, version), (key, version + 2)]
            )
            store.connection.send(envelope(f"STREAM_VERSION topic={TOPIC} key={key}"))
            versions[key] = version + 2
            expected += [
                b"OK version=%d offset" % (version + 1),
                b"ERROR: version_conflict current=%d expected=%d" % (version + 1, version),
                b"OK version=%d offset" % (version + 2),
                b"OK version=%d" % (version + 2),
            ]
        for answer in expected:
            assert (store.connection.frame() or b"").startswith(answer)
    assert_whole(broker.address, versions)


def test_of_appends_at_once_to_a_stream_that_is_not_in_memory_one_gets_the_version(
    start_broker: StartBroker,
) -> None:
    broker, versions = with_streams_in_no_memory(start_broker, 1, 1)

    clients = [CursusClient(broker.address) for _ in range(4)]
    with EventStore(broker.address, TOPIC) as store:
        assert store.version("none") == 0  # the partition is loaded
        for key, version in versions.items():
            for client in clients:
                append(client, store, [(key, version + 1)])
            versions[key] = version + 1
    answers = [[client.frame() or b"" for _ in versions] for client in clients]
    for client in clients:
        client.close()

    for of_key in zip(*answers, strict=True):
        assert sorted(answer.startswith(b"OK version=2 ") for answer in of_key) == [0, 0, 0, 1]
        refusals = [answer for answer in of_key if not answer.startswith(b"OK")]
        assert refusals == [b"ERROR: version_conflict current=2 expected=2"] * 3
    assert_whole(broker.address, versions)

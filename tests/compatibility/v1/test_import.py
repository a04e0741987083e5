"""`broker import v1` into the real process: data of V1's original server."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.codec import records
from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess
from tests.support.imports import report, run_import
from tests.support.v1_directories import TIME_MS, line, segment
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

StartBroker = Callable[..., BrokerProcess]


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    # The times of the records are of 2023.
    return start_broker("log.retention.ms=-1")


def read(client: WireClient, partition: int) -> list[tuple[int, int, bytes | None]]:
    batches = wire_requests.fetch(client, "orders", partition, 0)
    return [(each.offset, each.timestamp, each.value) for each in records(batches)]


def test_an_import_keeps_offsets_and_times_and_groups_resume(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    segment(tmp_path, "orders", 0, 0, b"".join(line(each, b"v%d" % each) for each in range(5)))
    segment(tmp_path, "orders", 0, 1, b"".join(line(each, b"v%d" % each) for each in range(5, 8)))
    segment(tmp_path, "orders", 2, 0, line(0, b"a|b"))
    (tmp_path / "offsets.json").write_text('{"g":{"orders":{"0":6,"2":1}}}\n')

    ended = run_import("v1", tmp_path, broker, "-o", "json")

    assert ended.returncode == 0, ended.stderr
    assert report(ended)["is_complete"]
    assert report(ended)["topics"]["orders"]["0"]["offsets_are_the_same"]
    with WireClient(broker.address) as client:
        assert read(client, 0) == [
            (each, TIME_MS + 1_000 * each, b"v%d" % each) for each in range(8)
        ]
        assert read(client, 2) == [(0, TIME_MS, b"a|b")]
        assert wire_requests.committed(client, "g") == {("orders", 0): 6, ("orders", 2): 1}
        assert wire_requests.is_led(client, "orders", 3)


def test_offsets_and_committed_offsets_shift_where_the_beginning_is_missing(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    segment(tmp_path, "orders", 0, 3, line(100, b"a") + line(101, b"b") + line(105, b"c"))
    (tmp_path / "offsets.json").write_text('{"g":{"orders":{"0":101}},"h":{"orders":{"0":106}}}\n')

    ended = run_import("v1", tmp_path, broker)

    assert ended.returncode == 0, ended.stderr
    assert "orders-0: 3 records, first original offset 100: offsets changed" in ended.stdout
    with WireClient(broker.address) as client:
        assert [value for _, _, value in read(client, 0)] == [b"a", b"b", b"c"]
        assert wire_requests.committed(client, "g") == {("orders", 0): 1}
        assert wire_requests.committed(client, "h") == {("orders", 0): 3}


def test_damage_is_reported_with_its_position_and_everything_else_is_imported(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    segment(tmp_path, "orders", 0, 0, line(0, b"a") + b"1|2|00000000|bad\n" + line(2, b"c")[:-4])
    segment(tmp_path, "no topic", 0, 0, line(0, b"x"))
    segment(tmp_path, "orders", 1, 0, line(0, b"y") + line(0, b"again"))

    ended = run_import("v1", tmp_path, broker, "-o", "json")

    assert ended.returncode == 1
    assert "orders-0-segment-000000.log:2: the value does not match the checksum" in ended.stderr
    assert "orders-0-segment-000000.log:3: the line has no newline" in ended.stderr
    assert "offset 0 occurs again" in ended.stderr
    assert "rename its files" in ended.stderr
    assert "import again" in ended.stderr.splitlines()[-1]
    assert report(ended)["damaged_lines"] == 2
    assert report(ended)["other_problems"] == 2
    with WireClient(broker.address) as client:
        assert [value for _, _, value in read(client, 0)] == [b"a"]
        assert [value for _, _, value in read(client, 1)] == [b"y", b"again"]


def settings_of(client: WireClient, topic: str) -> dict[str, str]:
    asked = {"resource_type": 2, "resource_name": topic, "configuration_keys": None}
    [found] = client.request("DescribeConfigs", 1, {"resources": [asked]})["results"]
    return {each["name"]: each["value"] for each in found["configs"]}


def test_a_topic_that_an_import_creates_keeps_records_of_any_age(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    broker = start_broker("log.retention.ms=1000", "log.retention.bytes=1")
    segment(tmp_path, "orders", 0, 0, line(0, b"a"))

    ended = run_import("v1", tmp_path, broker)

    assert ended.returncode == 0, ended.stderr
    with WireClient(broker.address) as client:
        settings = settings_of(client, "orders")
        assert (settings["retention.ms"], settings["retention.bytes"]) == ("-1", "-1")
        assert read(client, 0) == [(0, TIME_MS, b"a")]


@pytest.mark.parametrize(("retention", "expected"), [("-2", "604800000"), ("5000", "5000")])
def test_records_that_retention_will_delete_are_imported_and_reported(
    start_broker: StartBroker, tmp_path: Path, retention: str, expected: str
) -> None:
    broker = start_broker()
    segment(tmp_path, "orders", 0, 0, line(0, b"a"))

    ended = run_import("v1", tmp_path, broker, "--retention", retention)

    assert ended.returncode == 1
    assert "--entity-name orders --add-config retention.ms=-1" in ended.stderr
    with WireClient(broker.address) as client:
        assert settings_of(client, "orders")["retention.ms"] == expected
        assert read(client, 0) == [(0, TIME_MS, b"a")]


@pytest.fixture
def adopted(tmp_path: Path) -> Iterator[tuple[Path, BrokerProcess]]:
    """A directory of the original server, and a broker whose first start took over its groups."""
    folder = tmp_path / "original"
    folder.mkdir()
    group = {
        "topic": "orders",
        "generation": 2,
        "assignor": "round_robin",
        "member_order": ["c"],
        "assignments": {"c": [0, 1, 2]},
        "members": [{"consumer_id": "c", "last_heartbeat_unix_ms": TIME_MS}],
    }
    (folder / "groups.json").write_text(json.dumps({"g": group}))
    (folder / "offsets.json").write_text('{"g":{"orders":{"0":2}}}')
    broker = BrokerProcess(tmp_path)
    shutil.copytree(folder, broker.data_dir)
    broker.start()
    yield folder, broker
    broker.stop()
    broker.check()


def test_an_import_after_a_first_start_has_taken_over_the_groups_is_complete(
    adopted: tuple[Path, BrokerProcess],
) -> None:
    """The group still has its member, besides which nobody may commit; its offsets are there."""
    folder, broker = adopted
    segment(folder, "orders", 0, 0, b"".join(line(each, b"v") for each in range(3)))

    ended = run_import("v1", folder, broker, "-o", "json")

    assert ended.returncode == 0, ended.stderr
    assert report(ended)["committed_offsets"] == {"g": {"orders": {"0": 2}}}
    with WireClient(broker.address) as client:
        assert wire_requests.committed(client, "g") == {("orders", 0): 2}


def test_a_second_import_duplicates_nothing(broker: BrokerProcess, tmp_path: Path) -> None:
    segment(tmp_path, "orders", 0, 0, line(0, b"a"))
    assert run_import("v1", tmp_path, broker).returncode == 0

    ended = run_import("v1", tmp_path, broker)

    assert ended.returncode == 1
    assert "topic orders has records already: delete it" in ended.stderr
    with WireClient(broker.address) as client:
        assert wire_requests.end_offset(client, "orders", 0) == 1


def test_nothing_is_imported_before_all_topics_can_take_their_records(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    segment(tmp_path, "orders", 0, 0, line(0, b"a"))
    segment(tmp_path, "taken", 0, 0, line(0, b"a"))
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, "taken")
        wire_requests.produce(client, "taken", Batch([b"x"]).encode())

        assert run_import("v1", tmp_path, broker).returncode == 1

        assert wire_requests.end_offset(client, "orders", 0) == 0


def test_a_topic_with_fewer_partitions_is_not_imported_into(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    segment(tmp_path, "orders", 1, 0, line(0, b"a"))
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, "orders", 1)

    ended = run_import("v1", tmp_path, broker)

    assert ended.returncode == 1
    assert "add partitions" in ended.stderr


def test_records_of_several_batches_are_imported_in_order(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    count = 4_500
    lines = b"".join(line(each, b"%d" % each) for each in range(count))
    segment(tmp_path, "orders", 0, 0, lines)

    ended = run_import("v1", tmp_path, broker)

    assert ended.returncode == 0, ended.stderr
    with WireClient(broker.address) as client:
        assert wire_requests.end_offset(client, "orders", 0) == count
        last = records(wire_requests.fetch(client, "orders", 0, count - 1))
        assert [each.value for each in last][-1] == b"%d" % (count - 1)


def test_a_directory_that_is_not_v1s_is_a_usage_error(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    ended = run_import("v1", tmp_path, broker)

    assert ended.returncode == 2
    assert "give the data directory of V1's server" in ended.stderr

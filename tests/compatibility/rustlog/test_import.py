"""`broker import rustlog` into the real process: files of the original RustLog."""

from pathlib import Path

from tests.support import wire_requests
from tests.support.broker_process import Broker
from tests.support.imports import report, run_import
from tests.support.rustlog_client import RustLogClient
from tests.support.rustlog_directories import segment
from tests.support.wire_client import WireClient


def test_an_import_keeps_records_and_offsets(broker: Broker, topic: str, tmp_path: Path) -> None:
    segment(tmp_path / topic / "0", 0, [b"a", b"", b"c"])
    segment(tmp_path / topic / "0", 3, [b"\0\xff"])
    segment(tmp_path / topic / "2", 0, [b"z"])

    dry = run_import("rustlog", tmp_path, broker, "--dry-run", "-o", "json")
    ended = run_import("rustlog", tmp_path, broker, "-o", "json")

    assert ended.returncode == 0, ended.stderr
    assert report(dry) == report(ended)
    assert report(ended)["topics"][topic]["0"]["offsets_are_the_same"]
    with RustLogClient(broker.address) as client:
        assert client.fetch(topic, 0).records == [b"a", b"", b"c", b"\0\xff"]
    with WireClient(broker.address) as kafka:
        assert wire_requests.end_offset(kafka, topic, 2) == 1


def test_damage_is_reported_and_a_second_import_writes_nothing(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    file = segment(tmp_path / topic / "0", 5, [b"a"], tail=b"\0")
    segment(tmp_path / topic / "0", 6, [b"b"])

    dry = run_import("rustlog", tmp_path, broker, "--dry-run")
    ended = run_import("rustlog", tmp_path, broker)

    assert dry.stderr.endswith("see above; everything else can be imported\n")

    assert ended.returncode == 1
    assert f"{file.name}:13: the record is incomplete" in ended.stderr
    assert f"{topic}-0: 2 records, first original offset 5: offsets changed" in ended.stdout
    again = run_import("rustlog", tmp_path, broker)
    assert again.returncode == 1
    assert "has records already: delete it" in again.stderr
    with RustLogClient(broker.address) as client:
        assert client.fetch(topic, 0).records == [b"a", b"b"]


def test_a_directory_without_files_of_rustlog_is_a_usage_error(
    broker: Broker, tmp_path: Path
) -> None:
    ended = run_import("rustlog", tmp_path, broker)

    assert ended.returncode == 2
    assert "arrange the files of RustLog in a folder per topic" in ended.stderr

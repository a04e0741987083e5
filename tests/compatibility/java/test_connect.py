"""Kafka Connect, distributed, with the connectors that read and write files."""

import re
from pathlib import Path

import pytest

from tests.compatibility.committed import ARRIVAL_TIMEOUT_S, committed_values
from tests.compatibility.java.connect_worker import ConnectWorker
from tests.compatibility.java.tools import JavaTools
from tests.support.broker_process import Broker, wait_until

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]

PACKAGE = "org.apache.kafka.connect.file."


class Files:
    """The source file and the sink file."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "source.txt"
        self.sink = folder / "sink.txt"
        self.written: list[str] = []

    def append(self, count: int) -> None:
        """Add lines to the source."""
        lines = [f"line {len(self.written) + place}" for place in range(count)]
        self.written += lines
        with self.source.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def arrived(self) -> list[str]:
        """Return the lines of the sink."""
        return self.sink.read_text().splitlines() if self.sink.exists() else []

    def wait(self) -> None:
        """Wait until the sink has as many lines as were written."""
        wait_until(
            lambda: len(self.arrived()) >= len(self.written),
            f"{len(self.written)} lines arrive",
            ARRIVAL_TIMEOUT_S,
        )


def read_file(worker: ConnectWorker, files: Files, topic: str) -> None:
    """Create the connector from the source file to the topic."""
    worker.configure(
        f"{topic}-source",
        connector_class=f"{PACKAGE}FileStreamSourceConnector",
        file=str(files.source),
        topic=topic,
    )


def write_file(worker: ConnectWorker, files: Files, topic: str) -> None:
    """Create the connector from the topic to the sink file."""
    worker.configure(
        f"{topic}-sink",
        connector_class=f"{PACKAGE}FileStreamSinkConnector",
        file=str(files.sink),
        topics=topic,
    )


@pytest.mark.slow("starts workers of Kafka Connect, one after the other")
def test_lines_pass_through_a_topic_and_a_restarted_connect_worker_repeats_none(
    java: JavaTools, broker: Broker, topic: str, tmp_path: Path
) -> None:
    files = Files(tmp_path)
    worker = ConnectWorker(tmp_path, java, broker, topic)
    files.append(50)

    with worker:
        read_file(worker, files, topic)
        write_file(worker, files, topic)
        files.wait()
    files.append(50)
    with worker:
        files.wait()

    assert files.arrived() == files.written


def test_a_connect_worker_keeps_its_state_in_compacted_topics_and_is_a_group_of_type_connect(
    java: JavaTools, broker: Broker, topic: str, tmp_path: Path
) -> None:
    with ConnectWorker(tmp_path, java, broker, topic) as worker:
        topics = java.run(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", broker.address, "--describe"),
            *("--topic", f"{topic}-(configs|offsets|status)"),
        )
        groups = java.run(
            "org.apache.kafka.tools.GroupsCommand",
            *("--bootstrap-server", broker.address, "--list", "--protocol", "connect"),
        )

    for name in worker.topics:
        assert re.search(rf"Topic: {name}\s.*cleanup\.policy=compact", topics), topics
    assert re.search(rf"^{worker.group} +Classic +connect", groups, re.MULTILINE), groups


@pytest.mark.slow("starts workers of Kafka Connect, one after the other")
def test_a_killed_exactly_once_source_connector_writes_each_line_once(
    java: JavaTools, broker: Broker, topic: str, tmp_path: Path
) -> None:
    files = Files(tmp_path)
    more = {"exactly_once_source_support": "enabled"}
    worker = ConnectWorker(tmp_path, java, broker, topic, **more)
    files.append(50)

    with worker:
        read_file(worker, files, topic)
        committed_values(broker.address, topic, at_least=50)
        files.append(50)
        worker.kill()
    files.append(50)
    with worker:
        values = committed_values(broker.address, topic, at_least=150)

    assert values == files.written

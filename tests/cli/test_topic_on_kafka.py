"""The core verbs with Apache Kafka: they use public APIs only."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.end_to_end.targets import Target, start_kafka
from tests.cli.core_verbs import check_core_verbs
from tests.compatibility.java.tools import NEWEST, find
from tests.compatibility.programs import UnavailableError
from tests.support.command_line import CommandLine


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Target]:
    """A node of Apache Kafka, or a skip that says what is missing."""
    try:
        jars = find(NEWEST).libs
    except UnavailableError as error:
        pytest.skip(str(error))
    node = start_kafka(jars, tmp_path / "kafka")
    yield node
    node.stop()


@pytest.mark.jvm
@pytest.mark.slow("starts Apache Kafka, and makes its internal topics")
def test_the_core_verbs_do_the_same_with_apache_kafka(kafka: Target, tmp_path: Path) -> None:
    check_core_verbs(CommandLine(f"127.0.0.1:{kafka.port}"), "orders", tmp_path)

"""Verbs with Apache Kafka: they use public APIs only."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.end_to_end.targets import Target, start_kafka
from tests.cli.core_verbs import check_core_verbs
from tests.cli.operator_verbs import CHECKS, Place, place
from tests.compatibility.java.tools import NEWEST, find
from tests.compatibility.programs import UnavailableError
from tests.support.command_line import CommandLine

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.slow("starts Apache Kafka, and makes its internal topics"),
]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A node of Apache Kafka, or a skip that says what is missing."""
    try:
        jars = find(NEWEST).libs
    except UnavailableError as error:
        pytest.skip(str(error))
    node = start_kafka(jars, tmp_path_factory.mktemp("kafka") / "node")
    yield node
    node.stop()


def test_the_core_verbs_do_the_same_with_apache_kafka(kafka: Target, tmp_path: Path) -> None:
    check_core_verbs(CommandLine(f"127.0.0.1:{kafka.port}"), "orders", tmp_path)


@pytest.mark.parametrize("check", CHECKS, ids=lambda each: each.__name__)
def test_the_verbs_of_operators_do_the_same_with_apache_kafka(
    check: Callable[[Place], None], kafka: Target, tmp_path: Path
) -> None:
    with place(f"127.0.0.1:{kafka.port}", tmp_path) as made:
        check(made)


def test_a_page_that_apache_kafka_does_not_have_is_said_to_be_missing(
    kafka: Target, tmp_path: Path
) -> None:
    cli = CommandLine(f"127.0.0.1:{kafka.port}", {"XDG_CONFIG_HOME": str(tmp_path)})

    assert "/clients" in cli("client", "list", code=5).err
    found = {each["check"]: each["severity"] for each in cli("doctor").rows}
    assert (found["advertised"], found["health"]) == ("ok", "warning")

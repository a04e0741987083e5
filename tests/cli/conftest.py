"""Verbs of the command line, in processes of their own, with a real broker."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.here import Here
from tests.support.broker_process import Broker
from tests.support.command_line import CommandLine

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, so that `-m "not client"` deselects them."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.client)


@pytest.fixture
def cli(broker: Broker, tmp_path: Path) -> CommandLine:
    """Commands for the broker, without profiles and saved offsets of the user."""
    environment = {each: str(tmp_path / each) for each in ("XDG_CONFIG_HOME", "XDG_STATE_HOME")}
    return CommandLine(str(broker.address), environment)


@pytest.fixture
def here(
    broker: Broker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Here:
    """Commands in this process for the broker, without profiles and saved offsets of the user."""
    for each in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(each, str(tmp_path / each))
    address = str(broker.address)
    monkeypatch.setenv("BROKER_BOOTSTRAP_SERVER", address)
    return Here(address, tmp_path, capsys, monkeypatch)


@pytest.fixture
def here_topic(here: Here) -> Iterator[str]:
    """A topic with a partition, which is deleted after the test."""
    name = f"cli-{uuid.uuid4().hex[:12]}"
    here("topic", "create", name, "-p", "1")
    yield name
    here("topic", "delete", name, "--yes")


@pytest.fixture
def topic(cli: CommandLine) -> Iterator[str]:
    """A topic with three partitions, which is deleted after the test, with its copies."""
    name = f"cli-{uuid.uuid4().hex[:12]}"
    cli("topic", "create", name, "-p", "3")
    yield name
    cli("topic", "delete", f"{name}.*", "--yes", "--if-exists")

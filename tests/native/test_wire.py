"""The native connections: frames in pieces, replies in order, long polls, and who hangs up when."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker._native.log.commit import CommitThread
from tests.native_log import Logs, records
from tests.native_wire import Wire, fetch

COMMIT = CommitThread(1)  # one for all tests: what they sync, they wait for
BATCH = records(2)


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    """One data directory."""
    return Logs(tmp_path, COMMIT)


@pytest.fixture
def wire(logs: Logs) -> Iterator[Wire]:
    """A poller that serves two partitions; they are durable once written, without a sync."""
    wire = Wire(logs)
    wire.serve(logs.create(is_group_commit=False), logs.create(1, is_group_commit=False))
    yield wire
    wire.close()


# ---- long polls -------------------------------------------------------------------------------


def test_nothing_is_left_to_do_once_a_deadline_has_passed(wire: Wire) -> None:
    client = wire.connect()

    body = client.ask(fetch(11, (0, 0), max_wait_ms=20))

    assert body["responses"][0]["partitions"][0]["records"] == b""
    assert not wire.is_ready

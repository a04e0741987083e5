"""A data directory of native logs, and the file operations of a test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from tests.support.native_log import Logs


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    """One data directory."""
    logs = Logs(tmp_path)
    yield logs
    logs.commit.stop()
    logs.turn.poll_synced()


@pytest.fixture
def recording() -> Iterator[None]:
    """Record the file operations of one test, which may make them fail."""
    file_ops.start_recording()
    yield
    file_ops.stop_recording()

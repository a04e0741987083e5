"""Fixtures of tests that recover logs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.storage.broker_run import BrokerRun


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerRun]:
    """A new data directory, opened."""
    yield (first := BrokerRun(tmp_path))
    first.store.close()
    first.commit.stop()

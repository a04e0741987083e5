"""A partition of events."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.protocols.cursus.event_streams.partitions import Partition


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    partition = Partition(tmp_path)
    yield partition
    partition.logs.commit.stop()
    partition.logs.turn.poll_synced()

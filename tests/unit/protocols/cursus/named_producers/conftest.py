"""A partition for the tests of named producers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.protocols.cursus.named_producers.partitions import Partition


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    partition = Partition(tmp_path)
    yield partition
    partition.io_thread.stop()
    partition.recompression.stop()

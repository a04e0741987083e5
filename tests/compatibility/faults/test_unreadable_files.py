"""Files that the broker cannot read affect one partition, and nothing is deleted.

As root every file can be read, so the failures are injected.
"""

import errno
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import wire_requests
from tests.support.broker_process import wait_until
from tests.support.faulty_broker import ALWAYS, FaultyBroker
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

OTHER = "other"
STORAGE_ERROR = 56
# Topics, and which file of their only partition cannot be read, by which operation and why.
VICTIMS = {
    "folder": ("list_folder", "", errno.EACCES),
    "segment": ("open", "/*.log", errno.EPERM),
    "content": ("read", "/*.log", errno.EIO),
    "owner": ("open", "/partition.metadata", errno.EIO),
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FaultyBroker]:
    """A broker with topics of one record each, which was killed."""
    broker = FaultyBroker(tmp_path)
    broker.start()
    with WireClient(broker.address) as client:
        for topic in (*VICTIMS, OTHER):
            wire_requests.create_topic(client, topic)
            assert wire_requests.produce(client, topic, Batch().encode())[0] == 0
    broker.kill()
    yield broker
    if broker.is_running:
        broker.kill()


def segments(broker: FaultyBroker) -> list[Path]:
    """Return the segments of all partitions under each name that one may have now."""
    return sorted(broker.data_dir.glob("*/*.log*"))


def test_partitions_unreadable_at_a_start_are_offline_and_all_others_are_served(
    broker: FaultyBroker,
) -> None:
    before = segments(broker)
    broker.faults = [
        [operation, f"*/{topic}-0{name}", error, 0, ALWAYS]
        for topic, (operation, name, error) in VICTIMS.items()
    ]

    broker.start()

    with WireClient(broker.address) as client:
        for topic in VICTIMS:
            assert wire_requests.produce(client, topic, Batch().encode())[0] == STORAGE_ERROR
            [line] = re.findall(rf"log offline topic={topic} .*", broker.stderr())
            assert str(broker.data_dir / f"{topic}-0") in line
            assert "its files were left unchanged: fix this and restart the broker" in line
        assert wire_requests.produce(client, OTHER, Batch().encode())[0] == 0
        assert wire_requests.fetch(client, OTHER, 0, 0)
    assert broker.stop() == 0
    assert segments(broker) == before
    broker.faults = []
    broker.start()
    with WireClient(broker.address) as client:
        for topic in VICTIMS:
            wait_until(lambda: wire_requests.is_led(client, topic, 1), "it is served again")  # noqa: B023
            assert wire_requests.end_offset(client, topic) == 1
    assert broker.stop() == 0


def test_a_segment_that_can_no_longer_be_opened_affects_only_its_partition(
    broker: FaultyBroker,
) -> None:
    broker.start()
    assert broker.stop() == 0
    broker.start()
    broker.fail("open", "*/segment-0/*.log", errno.EACCES, 0, ALWAYS)

    with WireClient(broker.address) as client:
        assert wire_requests.produce(client, "segment", Batch().encode())[0] == STORAGE_ERROR
        assert wire_requests.produce(client, OTHER, Batch().encode())[0] == 0
    assert "Permission denied" in broker.stderr()

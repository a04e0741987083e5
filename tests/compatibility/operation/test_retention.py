"""Retention in a real broker: what clients see while segments are deleted, also under kill -9.

Segments hold a few records, and the broker checks retention ten times a second.
"""

import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.wire_client import WireClient
from tests.support.wire_records import TIMESTAMP, Batch, read_batches

StartBroker = Callable[..., BrokerProcess]

CHECKS = ("log.retention.check.interval.ms=100", "log.segment.delete.delay.ms=0")
SEGMENT_BYTES = "2048"
KEPT_BYTES = "20000"
OFFSET_OUT_OF_RANGE = 1
HOUR_MS = 3_600_000
TIMEOUT_S = 60.0


def value(offset: int) -> bytes:
    """Return the value of the record at an offset."""
    return b"record %d " % offset + b"x" * (offset % 200)


def fill(client: WireClient, topic: str, first: int, until: int, timestamp: int = TIMESTAMP) -> int:
    """Write records, a few in a batch; return the next offset."""
    at = first
    while at < until:
        batch = Batch(
            [value(offset) for offset in range(at, min(at + 5, until))], timestamp=timestamp
        )
        error, base_offset = wire_requests.produce(client, topic, batch.encode())
        assert (error, base_offset) == (0, at)
        at += len(batch.values)
    return at


def earliest(client: WireClient, topic: str) -> int:
    """Return the log start offset that clients get."""
    answer = wire_requests.list_offset(client, topic, 0, -2)
    assert answer["error_code"] == 0, answer
    return int(answer["offset"])


def read_from(client: WireClient, topic: str, offset: int) -> tuple[int, int | None]:
    """Check the records from an offset on; return their end, and the log start if it is above.

    The records have no gaps and are the written ones.
    """
    body = wire_requests.fetch_body(topic, 0, offset, 1 << 20) | {"max_wait_ms": 0}
    found = client.request("Fetch", 11, body)["responses"][0]["partitions"][0]
    if found["error_code"] == OFFSET_OUT_OF_RANGE:
        return offset, earliest(client, topic)
    assert found["error_code"] == 0
    for batch in read_batches(found["records"] or b""):
        assert batch.base_offset <= offset, f"a hole from {offset} to {batch.base_offset}"
        for place, content in enumerate(batch.values):
            assert content == value(batch.base_offset + place)
        offset = max(offset, batch.base_offset + len(batch.values))
    return offset, None


def read_all(client: WireClient, topic: str) -> tuple[int, int]:
    """Check every remaining record; return where they begin and end."""
    begin = offset = earliest(client, topic)
    end = wire_requests.end_offset(client, topic)
    while offset < end:
        reached, start = read_from(client, topic, offset)
        if start is not None:
            begin = reached = start
        assert reached > offset or start is not None
        offset = max(offset, reached)
    return begin, end


def log_files(broker: BrokerProcess, topic: str) -> list[Path]:
    """The segments on the disk."""
    return sorted((broker.data_dir / f"{topic}-0").glob("*.log"))


def test_retention_deletes_old_records_of_a_new_topic(
    start_broker: StartBroker, topic: str
) -> None:
    broker = start_broker(*CHECKS)
    now_ms = int(time.time() * 1000)
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic, retention_ms=str(HOUR_MS))

        fill(client, topic, 0, 20, timestamp=now_ms - 2 * HOUR_MS)

        wait_until(lambda: earliest(client, topic) == 20, "old records are deleted", TIMEOUT_S)
        fill(client, topic, 20, 30, timestamp=now_ms)
        assert read_from(client, topic, 20) == (30, None)
        assert read_from(client, topic, 0) == (0, 20)
        wait_until(lambda: len(log_files(broker, topic)) == 1, "their files are deleted", TIMEOUT_S)
    broker.kill()
    broker.restart()
    with WireClient(broker.address) as client:
        assert read_all(client, topic) == (20, 30)


def test_records_with_a_timestamp_an_hour_ahead_are_kept(
    start_broker: StartBroker, topic: str
) -> None:
    broker = start_broker(*CHECKS)
    with WireClient(broker.address) as client:
        wire_requests.create_topic(
            client, topic, retention_ms="1000", message_timestamp_after_max_ms=str(2 * HOUR_MS)
        )
        fill(client, topic, 0, 20, timestamp=int(time.time() * 1000) + HOUR_MS)
        wire_requests.create_topic(client, f"{topic}-old", retention_ms="1000")
        fill(client, f"{topic}-old", 0, 5)

        wait_until(lambda: earliest(client, f"{topic}-old") == 5, "a check was made", TIMEOUT_S)

        assert read_all(client, topic) == (0, 20)


def test_readers_at_every_offset_see_no_gap_while_segments_are_deleted(
    start_broker: StartBroker, topic: str
) -> None:
    broker = start_broker(*CHECKS, "polylog.durability=os")
    failures: list[BaseException] = []
    is_over = threading.Event()

    def follow(offset: int) -> None:
        try:
            with WireClient(broker.address) as reader:
                while not is_over.is_set():
                    reached, start = read_from(reader, topic, offset)
                    # One reader stays close to the log start, where the files are deleted next.
                    offset = reached if start is None else start
                    if reached == offset and start is None:
                        offset = earliest(reader, topic)
        except BaseException as error:  # noqa: BLE001 (raised again by the test)
            failures.append(error)

    with WireClient(broker.address) as client:
        wire_requests.create_topic(
            client, topic, segment_bytes=SEGMENT_BYTES, retention_bytes=KEPT_BYTES
        )
        at = fill(client, topic, 0, 200)
        readers = [threading.Thread(target=follow, args=(place * 40,)) for place in range(5)]
        for reader in readers:
            reader.start()
        while earliest(client, topic) < 1500 and not failures:
            at = fill(client, topic, at, at + 50)
        is_over.set()
        for reader in readers:
            reader.join()
        assert not failures, failures[0]
        wait_until(lambda: len(log_files(broker, topic)) < 25, "files are deleted", TIMEOUT_S)


@pytest.mark.slow("kills and restarts a broker under load, --kill-cycles times")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("durability", ["os", "group-commit"])
def test_kill_9_while_segments_roll_and_are_deleted_leaves_no_gap(
    start_broker: StartBroker,
    topic: str,
    durability: str,
    choices: Random,
    request: pytest.FixtureRequest,
) -> None:
    """Whichever step is interrupted, the log has no gap and no deleted record reappears."""
    cycles: int = request.config.getoption("--kill-cycles")
    broker = start_broker(*CHECKS, f"polylog.durability={durability}")
    begin = at = 0
    with WireClient(broker.address) as client:
        wire_requests.create_topic(
            client, topic, segment_bytes=SEGMENT_BYTES, retention_bytes=KEPT_BYTES
        )
    for cycle in count():
        with WireClient(broker.address) as client:
            found = read_all(client, topic)
            assert found[0] >= begin, "what retention took has come back"
            assert found[1] == at, "what was acknowledged is gone"
            begin = earliest(client, topic)
            if cycle == cycles:
                break
            at = fill(client, topic, at, at + choices.randint(50, 300))
            time.sleep(choices.random() / 5)  # at the mercy of retention
            if choices.random() < 0.5:
                # A client that has seen a later start of the log never sees an earlier one.
                begin = earliest(client, topic)
        broker.kill()
        broker.restart()
        with WireClient(broker.address) as client:
            wait_until(lambda: wire_requests.is_led(client, topic, 1), "it is served", TIMEOUT_S)
    assert begin > 0

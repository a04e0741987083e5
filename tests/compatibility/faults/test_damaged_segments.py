"""A flipped bit in a closed segment: at first the client's CRC check finds it, then the broker."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.cluster.test_health import get
from tests.support import wire_requests
from tests.support.batches import batch_of
from tests.support.broker_process import WAIT_TIMEOUT_S, BrokerProcess, wait_until
from tests.support.metrics_page import value_of
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

StartBroker = Callable[..., BrokerProcess]

NEVER = "polylog.scrub.interval.ms=-1"
SEGMENT_BYTES = 16_384
BATCHES = 60
STORAGE_ERROR = 56
EPOCH_END = 15  # the last byte of a batch's leader epoch
TOLD = "damaged records are refused"
STILL = "damaged records are still refused"
BROKEN = "segment broken"
LENGTH = 8  # its position in a batch


def written(broker: BrokerProcess) -> list[Path]:
    """Return the closed segments of a topic of that many batches, once all have their digests."""
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, "topic", segment_bytes=str(SEGMENT_BYTES))
        for number in range(BATCHES):
            batch = batch_of([(b"%d" % number, bytes(1_000), [])], 1_700_000_000_000)
            wire_requests.produce(client, "topic", batch)
    folder = broker.data_dir / "topic-0"
    closed = sorted(folder.glob("*.log"))[:-1]
    assert len(closed) > 2
    digests = [file.with_suffix(".digest") for file in closed]
    wait_until(lambda: all(digest.exists() for digest in digests), "digests of closed segments")
    return closed


def flip(file: Path, position: int) -> None:
    """Flip a bit under a running broker."""
    with file.open("r+b") as open_file:
        open_file.seek(position)
        [byte] = open_file.read(1)
        open_file.seek(position)
        open_file.write(bytes([byte ^ 1]))


CONSUMER = """
import sys
from confluent_kafka import Consumer, TopicPartition
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "g", "check.crcs": True})
consumer.assign([TopicPartition("topic", 0, int(sys.argv[2]))])
while (message := consumer.poll(1.0)) is None:
    pass
error = message.error()
print(message.value() if error is None else error.name())
"""
BAD_MESSAGE = "_BAD_MSG"


def consumed(address: str, offset: int) -> str:
    """Return what librdkafka, which checks CRCs, gets at an offset: a value, an error or the end.

    It runs in its own process, because librdkafka 2 fails an assertion after a wrong CRC.
    """
    done = subprocess.run(
        [sys.executable, "-c", CONSUMER, address, str(offset)],
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_TIMEOUT_S,
    )
    if done.returncode == -signal.SIGABRT and "rd_slice" in done.stderr:
        return BAD_MESSAGE
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def fetch_error(client: WireClient, offset: int) -> int:
    """Return the error code of a fetch from an offset."""
    body = wire_requests.fetch_body("topic", 0, offset, 1 << 20)
    response = client.request("Fetch", 11, body)
    code: int = response["responses"][0]["partitions"][0]["error_code"]
    return code


def test_a_bit_flip_served_before_a_scrub_fails_the_clients_crc_check(
    start_broker: StartBroker,
) -> None:
    broker = start_broker(NEVER)
    file = written(broker)[1]
    flip(file, 200)

    assert consumed(broker.address, int(file.stem)) == BAD_MESSAGE
    assert consumed(broker.address, int(file.stem) + 1) == str(bytes(1_000))


def test_damage_found_by_a_scrub_is_refused_and_all_other_offsets_are_served(
    start_broker: StartBroker,
) -> None:
    broker = start_broker("polylog.scrub.interval.ms=1000")
    broker.expected_complaints.append(TOLD)
    file = written(broker)[1]
    damaged = int(file.stem)

    flip(file, 200)

    wait_until(lambda: TOLD in broker.stderr(), "the scrub has logged the damage", WAIT_TIMEOUT_S)
    with WireClient(broker.address) as client:
        _, health = get(broker, "/health/cluster")
        [reason] = [each for each in health["reasons"] if each["reason"] == "damaged_records"]
        assert reason["examples"] == ["topic-0"]
        assert value_of(broker, "polylog_damaged_logs") == 1
        assert fetch_error(client, damaged) == STORAGE_ERROR
        for offset in (offset for offset in range(BATCHES) if offset != damaged):
            batches = wire_requests.fetch(client, "topic", 0, offset)
            assert int.from_bytes(batches[:8]) == offset


def test_damage_found_by_a_scrub_is_refused_after_a_restart_before_any_scrub(
    start_broker: StartBroker,
) -> None:
    broker = start_broker("polylog.scrub.interval.ms=1000")
    broker.expected_complaints += [TOLD, STILL]
    file = written(broker)[1]
    flip(file, 200)
    wait_until(
        file.with_suffix(".damage").exists, "the scrub has stored the damage", WAIT_TIMEOUT_S
    )
    broker.settings = (*broker.settings, NEVER)
    damaged = int(file.stem)

    for stop in (broker.stop, broker.kill):
        stop()
        broker.start()

        with WireClient(broker.address) as client:
            assert fetch_error(client, damaged) == STORAGE_ERROR
            assert fetch_error(client, damaged - 1) == 0
            assert fetch_error(client, damaged + 1) == 0
        assert value_of(broker, "polylog_damaged_logs") == 1


def test_a_corrupt_batch_length_makes_only_its_batch_unreadable(
    start_broker: StartBroker,
) -> None:
    broker = start_broker(NEVER)
    broker.expected_complaints += [TOLD, BROKEN]
    file = written(broker)[1]
    damaged = int(file.stem) + 1
    flip(file, file.stat().st_size // batches_of(file) + LENGTH)

    with WireClient(broker.address) as client:
        assert fetch_error(client, damaged + 1) == STORAGE_ERROR  # no index entry points there
        assert fetch_error(client, damaged) == STORAGE_ERROR
        assert fetch_error(client, damaged - 1) == 0
        assert wire_requests.produce(client, "topic", Batch().encode())[0] == 0
        wait_until(lambda: fetch_error(client, damaged + 1) == 0, "all but that batch is served")
        assert fetch_error(client, damaged) == STORAGE_ERROR
        for offset in (offset for offset in range(BATCHES) if offset != damaged):
            assert int.from_bytes(wire_requests.fetch(client, "topic", 0, offset)[:8]) == offset
    assert broker.stderr().count(BROKEN) == broker.stderr().count(TOLD) == 1


def batches_of(file: Path) -> int:
    """Return how many batches of one record a closed segment has."""
    bases = sorted(int(each.stem) for each in file.parent.glob("*.log"))
    return bases[bases.index(int(file.stem)) + 1] - int(file.stem)


def test_a_bit_flip_that_no_crc_covers_is_found_by_the_segments_digest(
    start_broker: StartBroker,
) -> None:
    """The flip is in the leader epoch of a segment's last batch: no later epoch reveals it."""
    broker = start_broker(NEVER)
    broker.expected_complaints.append(TOLD)
    files = written(broker)
    size = files[0].stat().st_size
    batches = int(files[1].stem)
    flip(files[0], size - size // batches + EPOCH_END)
    broker.settings = (*broker.settings, "polylog.scrub.interval.ms=1000")

    broker.restart()

    wait_until(lambda: TOLD in broker.stderr(), "the scrub has logged the damage", WAIT_TIMEOUT_S)
    with WireClient(broker.address) as client:
        assert fetch_error(client, batches - 1) == STORAGE_ERROR
        assert wire_requests.fetch(client, "topic", 0, batches)

"""The wall clock of a real broker steps by a day: nothing is deleted early, nobody expires."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.compatibility.operation.test_retention import earliest, fill
from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.metrics_page import value_of
from tests.support.stepping_clock import SteppingClock
from tests.support.wire_client import WireClient

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
TIMEOUT_S = 60
OF_BROKER = 4
RECORDS = 60  # about 8 segments
STEPPED, BELIEVED = "the wall clock has stepped", "the wall clock is believed"
SETTINGS = (
    "log.retention.check.interval.ms=100",
    "log.segment.delete.delay.ms=0",
    "log.segment.bytes=2048",
    "log.message.timestamp.after.max.ms=9223372036854775807",
)


@pytest.fixture
def clock(tmp_path: Path) -> SteppingClock:
    """Make a wall clock that is correct at first."""
    return SteppingClock(tmp_path)


@pytest.fixture
def broker(tmp_path: Path, clock: SteppingClock) -> Iterator[BrokerProcess]:
    """Start a broker that has that clock."""
    made = BrokerProcess(tmp_path, settings=SETTINGS)
    made.wrap = clock.shown_to
    made.start()
    yield made
    made.stop()
    made.check()


def has_said(broker: BrokerProcess, text: str, times: int) -> bool:
    return sum(text in line for line in broker.log_lines()) >= times


def keep_for_half_a_day(client: WireClient, topic: str, age_ms: int = 0) -> None:
    """Fill a topic with records of that age."""
    wire_requests.create_topic(client, topic, retention_ms=str(DAY_MS // 2))
    fill(client, topic, 0, RECORDS, time.time_ns() // 1_000_000 - age_ms)


def wait_for_retention(client: WireClient, topic: str) -> None:
    """Wait until all logs were checked since now: a log with a tiny size limit has lost records."""
    wire_requests.create_topic(client, topic, retention_ms="-1", retention_bytes="4096")
    fill(client, topic, 0, RECORDS)
    for until in (2 * RECORDS, 3 * RECORDS):  # a running check may not have seen the rest
        seen = earliest(client, topic)
        fill(client, topic, until - RECORDS, until)
        wait_for_loss(client, topic, seen)


def wait_for_loss(client: WireClient, topic: str, seen: int) -> None:
    wait_until(lambda: earliest(client, topic) > seen, "retention by bytes")


def counted(broker: BrokerProcess) -> tuple[float, float]:
    """Return how many steps were counted, and whether the clock is held; a second old at most."""
    return value_of(broker, "polylog_clock_jumps_total"), value_of(broker, "polylog_clock_held")


@pytest.mark.parametrize("days", [1, -1])
def test_a_clock_step_of_a_day_and_back_deletes_nothing_early_and_expires_nobody(
    broker: BrokerProcess, clock: SteppingClock, days: int
) -> None:
    bootstrap = {"bootstrap.servers": broker.address}
    member = Consumer(
        bootstrap | {"group.id": "members", "auto.offset.reset": "earliest",
                     "enable.auto.commit": False, "session.timeout.ms": 10_000}
    )  # fmt: skip
    producer = Producer(bootstrap | {"transactional.id": "open", "linger.ms": 0})
    assignments: list[int] = []
    with WireClient(broker.address) as client:
        keep_for_half_a_day(client, "kept")
        keep_for_half_a_day(client, "old", age_ms=DAY_MS)
        wait_until(lambda: earliest(client, "old") == RECORDS, "old records are deleted")
        member.subscribe(["kept"], on_assign=lambda _, places: assignments.append(len(places)))
        read = member.consume(RECORDS, TIMEOUT_S)
        assert len(read) == RECORDS
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce("kept", b"in a transaction")
        assert producer.flush(TIMEOUT_S) == 0

        clock.set(days * DAY_MS)
        wait_until(lambda: has_said(broker, STEPPED, 1), "the step is logged")
        wait_until(lambda: counted(broker) == (1, 1), "the step is counted, and the clock held")
        fill(client, "old", RECORDS, 2 * RECORDS, time.time_ns() // 1_000_000 - DAY_MS)
        wait_for_retention(client, "small")

        assert earliest(client, "kept") == 0
        assert earliest(client, "old") == RECORDS
        member.commit(message=read[-1], asynchronous=False)
        assert wire_requests.committed_offset(client, "members", "kept")[1] == RECORDS
        producer.produce("kept", b"and another")
        producer.commit_transaction(TIMEOUT_S)
        values = [each.value() for each in member.consume(2, TIMEOUT_S)]
        assert values == [b"in a transaction", b"and another"]

        clock.set(0)
        wait_until(lambda: earliest(client, "old") == 2 * RECORDS, "old records are deleted again")
        wait_for_retention(client, "small-too")

        wait_until(lambda: counted(broker) == (1, 0), "the clock is held no more")
        assert earliest(client, "kept") == 0
    member.close()
    assert assignments == [1]
    assert [has_said(broker, text, 2) for text in (STEPPED, BELIEVED)] == [False, False]


def test_a_clock_step_while_the_broker_was_down_waits_for_an_operator_across_restarts(
    broker: BrokerProcess, clock: SteppingClock
) -> None:
    with WireClient(broker.address) as client:
        keep_for_half_a_day(client, "kept")
    wait_until((broker.data_dir / "clock.properties").exists, "the clock state is stored")
    broker.kill()
    clock.set(DAY_MS)
    broker.start()
    broker.restart()
    wait_until(lambda: has_said(broker, STEPPED, 2), "the step is logged at each start")
    with WireClient(broker.address) as client:
        wait_for_retention(client, "small")
        assert earliest(client, "kept") == 0

        confirm(client, clock.wall_ms() - DAY_MS)
        wait_for_retention(client, "small-too")
        assert earliest(client, "kept") == 0
        confirm(client, clock.wall_ms())

        wait_until(lambda: earliest(client, "kept") == RECORDS, "the clock is trusted")
        written = broker.data_dir / "clock.properties"
        wait_until(lambda: "is.held=0" in written.read_text(), "the clock state is stored")
        broker.kill()
    broker.start()
    assert has_said(broker, f"{BELIEVED}, what is old is deleted again: confirmed", 1)
    assert not has_said(broker, STEPPED, 3)


def confirm(client: WireClient, wall_ms: int) -> None:
    """Confirm the time, as kafka-configs.sh --alter --add-config does."""
    setting = {"name": "polylog.clock.confirmed.ms", "config_operation": 0, "value": str(wall_ms)}
    resource = {"resource_type": OF_BROKER, "resource_name": "", "configs": [setting]}
    body = {"resources": [resource], "validate_only": False}
    answer = client.request("IncrementalAlterConfigs", 1, body)
    assert answer["responses"][0]["error_code"] == 0, answer

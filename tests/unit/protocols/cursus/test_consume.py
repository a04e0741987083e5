"""CONSUME with unreadable records, and waiting for records."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest

from broker._native.log.partition_log import PartitionLog
from broker.codec.control_records import Marker, encode_marker
from broker.codec.encoding import encode
from broker.model import limits
from broker.model.limits import CURSUS_READ_BYTES_PER_STEP
from broker.protocols.base import Immediate
from broker.protocols.cursus.dispatch import PROTOCOL
from broker.protocols.cursus.handlers import consume as consume_handler
from tests.support.cursus_client import Batch, read_batch
from tests.support.fakes import FakeBroker
from tests.support.native_log import Logs

WAIT_S = 20


class Broker:
    """A broker whose topics have real logs, of a partition each."""

    def __init__(self, folder: Path) -> None:
        self.fakes = FakeBroker()
        self._logs = Logs(folder)

    def create(self, name: str) -> PartitionLog:
        log = self._logs.create(len(self.fakes.topics.names()), is_group_commit=False)
        self.fakes.create(name).logs[0] = log
        return log

    def append(self, log: PartitionLog, *values: bytes, codec: str = "gzip") -> None:
        for batch in encode(values, timestamp_ms=0, batch_bytes_max=1 << 30, compression=codec):
            assert log.append(batch)[0] == 0
        self._logs.turn.end()


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Broker:
    """Batches that decompress to more than 17 MiB cannot be read."""
    monkeypatch.setattr(limits, "READ_DECOMPRESSED_BYTES_MAX", 17 << 20)
    return Broker(tmp_path)


async def ask(broker: Broker, command: str) -> Immediate:
    answer = PROTOCOL().handle(0, 0, None, command.encode(), broker.fakes.session)
    assert isinstance(answer, Awaitable)
    answered: Immediate = await answer
    return answered


def read(answer: Immediate) -> Batch | str:
    """Return the batch of a response, or the text of an error."""
    assert isinstance(answer, bytes)
    return answer.decode() if answer.startswith(b"E") else read_batch(answer, is_original=True)


def consume(broker: Broker, command: str) -> Batch | str:
    return read(asyncio.run(ask(broker, command)))


def offsets(answer: Batch | str) -> list[int]:
    assert isinstance(answer, Batch), answer
    return [each.offset for each in answer.messages]


def test_compressed_batches_are_read_between_plain_ones(broker: Broker) -> None:
    log = broker.create("t")
    broker.append(log, b"a", b"b", codec="none")
    broker.append(log, b"c", b"d")
    broker.append(log, b"e", codec="zstd")
    broker.append(log, b"f", codec="none")

    answer = consume(broker, "CONSUME t 0 3")

    assert isinstance(answer, Batch)
    assert [(each.offset, each.payload) for each in answer.messages] == [
        (3, b"d"),
        (4, b"e"),
        (5, b"f"),
    ]
    assert offsets(consume(broker, "CONSUME t 0 1 batch=2")) == [1, 2]


def test_an_offset_that_no_log_can_have_is_refused(broker: Broker) -> None:
    broker.create("t")

    for offset in (1 << 63, 10**19):
        assert consume(broker, f"CONSUME t 0 {offset}") == (
            f'ERROR: command_failed reason="invalid offset value: {offset}"'
        )


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_records_before_unreadable_ones_are_returned(broker: Broker, codec: str) -> None:
    log = broker.create("t")
    broker.append(log, b"a", b"b", codec=codec)
    broker.append(log, bytes(20 << 20), b"lost")
    broker.append(log, b"c", codec=codec)

    assert offsets(consume(broker, "CONSUME t 0 0")) == [0, 1]
    assert offsets(consume(broker, "CONSUME t 0 4")) == [4]


@pytest.mark.parametrize("offset", [2, 3])
def test_a_read_of_unreadable_records_is_told_their_range_and_where_to_continue(
    broker: Broker, offset: int
) -> None:
    log = broker.create("t")
    broker.append(log, b"a", b"b")
    broker.append(log, bytes(20 << 20), b"lost")

    answer = consume(broker, f"CONSUME t 0 {offset}")

    assert isinstance(answer, str)
    assert answer.startswith(
        f"ERROR: command_failed reason=\"records {offset}-3 of topic 't' partition 0 cannot be"
        " read, go on at offset 4: "
    )


def test_damaged_records_are_unreadable(broker: Broker, tmp_path: Path) -> None:
    log = broker.create("t")
    broker.append(log, b"a", codec="none")
    broker.append(log, b"damaged", b"b", codec="none")
    broker.append(log, b"c", codec="none")
    [file] = tmp_path.rglob("*.log")
    file.write_bytes(file.read_bytes().replace(b"damaged", b"DAMAGED"))

    assert offsets(consume(broker, "CONSUME t 0 0")) == [0]
    assert consume(broker, "CONSUME t 0 1") == (
        "ERROR: command_failed reason=\"records 1-2 of topic 't' partition 0 cannot be read, go on"
        ' at offset 3: they are damaged"'
    )
    assert offsets(consume(broker, "CONSUME t 0 3")) == [3]


def test_an_error_of_a_pattern_read_names_the_topic_with_unreadable_records(broker: Broker) -> None:
    broker.append(broker.create("t-a"), b"a")
    broker.append(broker.create("t-b"), bytes(20 << 20))

    answer = consume(broker, "CONSUME t-? 0 0")

    assert isinstance(answer, str)
    assert "records 0-0 of topic 't-b' partition 0 cannot be read" in answer


def test_a_failing_disk_is_reported(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    log = broker.create("t")
    broker.append(log, b"a", codec="none")
    monkeypatch.setattr(consume_handler, "log_of", lambda *_: log)
    log.take_offline("the test")

    assert consume(broker, "CONSUME t 0 0") == 'ERROR: command_failed reason="kafka storage error"'


def test_records_deleted_during_a_read_are_reported_by_the_next(broker: Broker) -> None:
    log = broker.create("t")
    broker.append(log, b"a", codec="none")
    broker.append(log, b"v" * CURSUS_READ_BYTES_PER_STEP, codec="none")
    broker.append(log, b"c", codec="none")

    async def found() -> Batch | str:
        reading = asyncio.ensure_future(ask(broker, "CONSUME t 0 0"))
        await asyncio.sleep(0)
        log.move_log_start(2)
        return read(await reading)

    assert offsets(asyncio.run(found())) == [0]
    assert consume(broker, "CONSUME t 0 1") == (
        "ERROR: OFFSET_OUT_OF_RANGE requested=1 earliest=2 latest=3"
    )


def test_the_latest_records_are_those_appended_after_the_request(broker: Broker) -> None:
    log = broker.create("t")
    broker.append(log, b"before")

    async def found() -> Batch | str:
        waiting = asyncio.ensure_future(ask(broker, f"CONSUME t 0 -1 wait_ms={WAIT_S * 1000}"))
        while not broker.fakes.broker.log_waiters._waiting:
            await asyncio.sleep(0)
        broker.append(log, b"behind")
        return read(await asyncio.wait_for(waiting, WAIT_S / 2))

    assert offsets(asyncio.run(found())) == [1]


def test_records_appended_during_a_read_end_its_wait(broker: Broker) -> None:
    log = broker.create("t")
    log.append_internal(encode_marker(Marker(7, 0, False, 0), timestamp_ms=0))  # it is not visible
    broker.append(log)

    async def found() -> Batch | str:
        waiting = asyncio.ensure_future(ask(broker, f"CONSUME t 0 0 wait_ms={WAIT_S * 1000}"))
        await asyncio.sleep(0)
        broker.append(log, b"late")
        return read(await asyncio.wait_for(waiting, WAIT_S / 2))

    assert offsets(asyncio.run(found())) == [1]

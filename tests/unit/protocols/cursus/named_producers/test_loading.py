"""Named producers loaded from a log, where it is whole and where it is not."""

import asyncio
import logging

import pytest

from broker.model import limits
from broker.protocols.cursus.named_producers import loading
from broker.protocols.cursus.named_producers.sequences import ProducerCheckpoint, Run, Sequences
from tests.support.native_log import NOW_MS
from tests.unit.protocols.cursus.named_producers.partitions import Partition, known


def test_a_producers_sequence_continues_after_a_damaged_batch(
    partition: Partition, caplog: pytest.LogCaptureFixture
) -> None:
    partition.append(1, 2)
    partition.append(3, 4, value=b"damaged")
    partition.append(5, name=b"q")
    partition.append(5)
    partition.append(7)
    partition.damage(b"damaged", b"DAMAGED")

    with caplog.at_level(logging.WARNING):
        found = partition.known(partition.fresh())

    assert found == [known(5, name=b"q"), known(5, ((7, 7),), largest=2)]
    assert "batch not read for its named producers: offset=2" in caplog.text


def test_a_producers_sequence_continues_after_a_batch_that_decompresses_above_the_limit(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "READ_DECOMPRESSED_BYTES_MAX", 17 << 20)
    partition.append(1)
    partition.append(2, value=bytes(20 << 20), compression="gzip")
    partition.append(3, value=bytes(10 << 20), compression="gzip")

    assert partition.known(partition.fresh()) == [known(3)]


def test_records_lost_below_the_log_start_are_not_a_gap(partition: Partition) -> None:
    for sequence in (1, 2, 3, 5):
        partition.append(sequence)
    partition.log.move_log_start(2)

    assert partition.known(partition.fresh()) == [known(3, ((5, 5),))]


def test_a_gap_after_records_lost_from_the_log_is_a_gap(partition: Partition) -> None:
    partition.append(1)
    partition.append(2)
    partition.log.move_log_start(1)
    named = partition.fresh()

    async def image() -> list[ProducerCheckpoint]:
        async with named.of(partition.topic, partition.log) as sequences:
            sequences.replay([Run(b"new", 1, 3, 3, 1), Run(b"p", 1, 5, 5, 1)], NOW_MS)
            return sequences.image()

    assert partition.run(image()) == [known(0, ((3, 3),), name=b"new"), known(2, ((5, 5),))]


def test_a_gap_in_a_complete_log_is_a_gap(partition: Partition) -> None:
    partition.append(5)
    partition.append(1)

    assert partition.known(partition.fresh()) == [known(1, ((5, 5),))]


def test_sequence_headers_in_batches_of_a_kafka_producer_are_ignored(partition: Partition) -> None:
    partition.append(1, 2, producer_id=7, producer_epoch=0, base_sequence=0)

    assert partition.known(partition.fresh()) == []


def test_other_tasks_run_while_a_log_is_read(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "READ_BYTES_PER_STEP", 1)
    for sequence in range(1, 101):
        partition.append(sequence)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def read() -> None:
        counting = asyncio.ensure_future(count())
        await loading.read(partition.log, Sequences(1), 0, partition.recompression.run)
        counting.cancel()

    asyncio.run(read())

    assert turns > 100

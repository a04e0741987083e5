"""Named producers across a restart: from the log, from a checkpoint, and from both."""

import asyncio
import logging

import pytest

from broker.codec.encoding import encode
from broker.protocols.cursus.named_producers.sequences import ProducerCheckpoint
from tests.support.native_log import NOW_MS
from tests.unit.protocols.cursus.named_producers.partitions import EXPIRATION_MS, Partition, known


def test_producers_are_loaded_from_the_log(partition: Partition) -> None:
    partition.append(1, 2, 3, 5)
    partition.append(1, name=b"q")

    assert partition.known(partition.fresh()) == [
        known(3, ((5, 5),), largest=3),
        known(1, name=b"q"),
    ]


def test_records_without_a_producer_are_ignored(partition: Partition) -> None:
    for batch in encode([b"v", (b"k", b"v", [("cursus.seq_num", b"1")])], timestamp_ms=NOW_MS):
        partition.log.append(batch)

    assert partition.known(partition.fresh()) == []


def test_a_checkpoint_outlives_the_records_it_was_made_from(partition: Partition) -> None:
    partition.append(1, 2, 3)
    partition.run(partition.fresh().cover(partition.places))
    partition.append(4, 6)
    partition.log.move_log_start(3)

    assert partition.known(partition.fresh()) == [known(4, ((6, 6),), largest=3)]


def test_an_unchanged_checkpoint_is_written_once(partition: Partition) -> None:
    named = partition.fresh()
    partition.append(1)
    partition.run(named.cover(partition.places))
    partition.file.unlink()

    partition.run(named.cover(partition.places))
    assert not partition.file.exists()

    partition.append(2)
    partition.run(named.cover(partition.places))
    assert partition.file.exists()


def test_a_checkpoint_ahead_of_the_log_is_ignored(partition: Partition) -> None:
    partition.append(1)
    partition.file.write_text(
        '{"version": 1, "offset": 2, "producers": 1}\n["p", 1, 9, 1, 0, []]\n'
    )

    assert partition.known(partition.fresh()) == [known(1)]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "x",
        "{}",
        "[]\n",
        '{"version": 1}\n',
        '{"version": 2, "offset": 1, "producers": 0}\n',
        '{"version": 1, "offset": 1, "producers": 2}\n["p", 1, 9, 1, 0, []]\n',
    ],
)
def test_a_damaged_checkpoint_counts_as_missing(
    partition: Partition, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    partition.append(1)
    partition.file.write_text(content)

    with caplog.at_level(logging.WARNING):
        assert partition.known(partition.fresh()) == [known(1)]
    assert "damaged checkpoint" in caplog.text


def test_a_producer_name_that_is_not_utf_8_is_restored(partition: Partition) -> None:
    partition.append(1, name=b'\xff"\n')
    partition.run(partition.fresh().cover(partition.places))
    partition.log.move_log_start(1)

    assert partition.known(partition.fresh()) == [known(1, name=b'\xff"\n')]


def test_an_expired_producer_is_not_written(partition: Partition) -> None:
    partition.append(1)
    partition.clock.advance(EXPIRATION_MS + 1)

    partition.run(partition.fresh().cover(partition.places))

    assert partition.file.read_text() == '{"version": 1, "offset": 1, "producers": 0}\n'


def test_an_offline_log_is_skipped(partition: Partition) -> None:
    partition.append(1)
    partition.log.take_offline("a test")

    partition.run(partition.fresh().cover(partition.places))

    assert not partition.file.exists()


def test_the_producers_of_a_log_that_fails_before_its_sync_are_not_written(
    partition: Partition,
) -> None:
    named = partition.fresh()
    partition.append(1)
    partition.known(named)

    async def cover() -> None:
        covering = asyncio.ensure_future(named.cover(partition.places))
        await asyncio.sleep(0)  # it waits for the sync, which comes with the end of a turn
        assert not covering.done()
        partition.log.take_offline("a test")
        await covering

    asyncio.run(cover())

    assert not partition.file.exists()


def test_a_deleted_topic_is_forgotten(partition: Partition) -> None:
    named = partition.fresh()
    partition.append(1)
    partition.known(named)

    named.forget_topic("other")
    assert len(named._tables) == 1
    named.forget_topic("topic")
    assert len(named._tables) == 0


# ---- records of a topic that was not idempotent ------------------------------------------------


def test_records_appended_while_the_topic_was_not_idempotent_are_known_when_it_is_again(
    partition: Partition,
) -> None:
    named = partition.fresh()
    partition.append(1)
    assert partition.known(named) == [known(1)]
    partition.append(2)
    partition.append(4)

    partition.alter_topic()

    assert partition.known(named) == [known(2, ((4, 4),))]


def test_loading_waits_until_appended_records_are_visible(partition: Partition) -> None:
    named = partition.fresh()
    partition.known(named)
    partition.append(1, ends_turn=False)
    partition.alter_topic()

    async def image() -> list[ProducerCheckpoint]:
        async with named.of(partition.topic, partition.log) as sequences:
            return sequences.image()

    async def found() -> list[ProducerCheckpoint]:
        waiting = asyncio.ensure_future(image())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        partition.end_turn()
        return await waiting

    assert asyncio.run(found()) == [known(1)]


def test_a_checkpoint_covers_records_appended_while_the_topic_was_not_idempotent(
    partition: Partition,
) -> None:
    named = partition.fresh()
    partition.append(1)
    partition.known(named)
    partition.append(2)
    partition.alter_topic()

    partition.run(named.cover(partition.places))
    partition.log.move_log_start(2)

    assert partition.known(partition.fresh()) == [known(2)]


def test_producers_are_read_again_in_another_leader_epoch(partition: Partition) -> None:
    """Another leader has appended since then, and what this one had may have been truncated."""
    partition.append(1, 2, 3)
    named = partition.fresh()
    assert partition.known(named) == [known(3, largest=3)]

    partition.append(4)
    partition.log.follow(1)
    partition.log.lead(2, 1, [1], [1])

    assert partition.known(named) == [known(4, largest=3)]


def test_the_checkpoint_of_a_log_that_follows_covers_what_its_leader_has_committed(
    partition: Partition,
) -> None:
    partition.append(1, 2, 3)
    partition.log.follow(1)

    partition.run(partition.fresh().cover(partition.places))

    assert partition.file.exists()
    partition.log.lead(2, 1, [1], [1])
    partition.log.move_log_start(3)
    assert partition.known(partition.fresh()) == [known(3, largest=3)]

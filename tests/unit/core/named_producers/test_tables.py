"""Named producers over a restart: from the log, from a checkpoint, and from both."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker._native.wire.cursus_batch import SEQUENCE, sequence_of
from broker.codec.encoding import encode
from broker.core import reading
from broker.core.io_thread import IoThread
from broker.core.named_producers import loading
from broker.core.named_producers.loading import Words
from broker.core.named_producers.sequences import Known, Run, Sequences
from broker.core.named_producers.tables import NamedProducers
from broker.core.recompression import Recompression
from broker.core.topic import Topic
from broker.model.clock import ManualClock
from broker.model.config import load
from broker.model.topic_config import TopicConfig
from broker.storage.named_producers import FILE_NAME
from tests.native_log import NOW_MS, TOPIC_ID, Logs

EXPIRATION_MS = 1_000


class Partition:
    """A log of named producers' records, whose turns a test ends."""

    def __init__(self, path: Path) -> None:
        self._logs = Logs(path)
        self.log: Any = self._logs.create(is_group_commit=False)
        self.topic = Topic("topic", TOPIC_ID, TopicConfig({}, load()), [self.log])
        self.io_thread = IoThread()
        self.recompression = Recompression()
        self.clock = ManualClock(NOW_MS)

    def append(
        self,
        *sequences: int,
        name: bytes = b"p",
        epoch: int = 1,
        value: bytes = b"v",
        ends_turn: bool = True,
        **encoding: Any,
    ) -> None:
        headers = [
            [
                ("cursus.producer_id", name),
                ("cursus.seq_num", b"%d" % each),
                ("cursus.epoch", b"%d" % epoch),
            ]
            for each in sequences
        ]
        rows: Any = [(None, value, each) for each in headers]
        for batch in encode(rows, timestamp_ms=NOW_MS, batch_bytes_max=1 << 30, **encoding):
            assert self.log.append(batch)[0] == 0
        if ends_turn:
            self.end_turn()

    def end_turn(self) -> None:
        """What was appended can be read."""
        self._logs.turn.end()

    @property
    def places(self) -> list[tuple[Topic, Any]]:
        return [(self.topic, self.log)]

    def alter_topic(self) -> None:
        """Its configuration is another one now, whatever it says."""
        self.topic.config = TopicConfig({}, load())

    def damage(self, old: bytes, new: bytes) -> None:
        """Let the disk have other bytes."""
        [file] = self._logs.folder().glob("*.log")
        file.write_bytes(file.read_bytes().replace(old, new))

    @property
    def file(self) -> Path:
        return self._logs.folder() / FILE_NAME

    def fresh(self) -> NamedProducers:
        """Return what a start makes."""
        return NamedProducers(
            self.clock,
            self.io_thread,
            lambda: EXPIRATION_MS,
            Words(SEQUENCE, sequence_of),
            self.recompression.run,
        )

    def known(self, named: NamedProducers) -> list[Known]:
        async def image() -> list[Known]:
            async with named.of(self.topic, self.log) as sequences:
                return sequences.image()

        return self.run(image())

    def run(self, work: Any) -> Any:
        async def synced() -> Any:
            task = asyncio.ensure_future(work)
            while not task.done():
                self._logs.turn.end()
                self._logs.turn.poll_synced()
                await asyncio.sleep(0.001)
            return await task

        return asyncio.run(synced())


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    partition = Partition(tmp_path)
    yield partition
    partition.io_thread.stop()
    partition.recompression.stop()


def known(
    done: int, ahead: tuple[tuple[int, int], ...] = (), name: bytes = b"p", largest: int = 1
) -> Known:
    return Known(name, 1, done, largest, NOW_MS, ahead)


def test_a_log_says_who_wrote_it(partition: Partition) -> None:
    partition.append(1, 2, 3, 5)
    partition.append(1, name=b"q")

    assert partition.known(partition.fresh()) == [
        known(3, ((5, 5),), largest=3),
        known(1, name=b"q"),
    ]


def test_records_of_others_say_nothing(partition: Partition) -> None:
    for batch in encode([b"v", (b"k", b"v", [("cursus.seq_num", b"1")])], timestamp_ms=NOW_MS):
        partition.log.append(batch)

    assert partition.known(partition.fresh()) == []


def test_a_checkpoint_survives_the_records_that_it_was_made_of(partition: Partition) -> None:
    partition.append(1, 2, 3)
    partition.run(partition.fresh().cover(partition.places))
    partition.append(4, 6)
    partition.log.move_log_start(3)

    assert partition.known(partition.fresh()) == [known(4, ((6, 6),), largest=3)]


def test_a_checkpoint_is_written_once_for_what_has_not_changed(partition: Partition) -> None:
    named = partition.fresh()
    partition.append(1)
    partition.run(named.cover(partition.places))
    partition.file.unlink()

    partition.run(named.cover(partition.places))
    assert not partition.file.exists()

    partition.append(2)
    partition.run(named.cover(partition.places))
    assert partition.file.exists()


def test_a_checkpoint_ahead_of_the_log_is_not_believed(partition: Partition) -> None:
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


def test_a_producer_with_a_name_that_is_no_text_comes_back(partition: Partition) -> None:
    partition.append(1, name=b'\xff"\n')
    partition.run(partition.fresh().cover(partition.places))
    partition.log.move_log_start(1)

    assert partition.known(partition.fresh()) == [known(1, name=b'\xff"\n')]


def test_who_was_silent_for_long_is_not_written(partition: Partition) -> None:
    partition.append(1)
    partition.clock.advance(EXPIRATION_MS + 1)

    partition.run(partition.fresh().cover(partition.places))

    assert partition.file.read_text() == '{"version": 1, "offset": 1, "producers": 0}\n'


def test_a_log_that_is_offline_is_passed_over(partition: Partition) -> None:
    partition.append(1)
    partition.log.take_offline("a test")

    partition.run(partition.fresh().cover(partition.places))

    assert not partition.file.exists()


def test_a_deleted_topic_is_forgotten(partition: Partition) -> None:
    named = partition.fresh()
    partition.append(1)
    partition.known(named)

    named.forget_topic("other")
    assert len(named._tables) == 1
    named.forget_topic("topic")
    assert len(named._tables) == 0


# ---- what came while nobody asked ----------------------------------------------------------------


def test_records_that_came_while_the_topic_did_not_ask_are_known_when_it_does_again(
    partition: Partition,
) -> None:
    named = partition.fresh()
    partition.append(1)
    assert partition.known(named) == [known(1)]
    partition.append(2)
    partition.append(4)

    partition.alter_topic()

    assert partition.known(named) == [known(2, ((4, 4),))]


def test_what_is_not_visible_yet_is_waited_for(partition: Partition) -> None:
    named = partition.fresh()
    partition.known(named)
    partition.append(1, ends_turn=False)
    partition.alter_topic()

    async def image() -> list[Known]:
        async with named.of(partition.topic, partition.log) as sequences:
            return sequences.image()

    async def found() -> list[Known]:
        waiting = asyncio.ensure_future(image())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        partition.end_turn()
        return await waiting

    assert asyncio.run(found()) == [known(1)]


def test_what_came_meanwhile_is_in_the_checkpoint_too(partition: Partition) -> None:
    named = partition.fresh()
    partition.append(1)
    partition.known(named)
    partition.append(2)
    partition.alter_topic()

    partition.run(named.cover(partition.places))
    partition.log.move_log_start(2)

    assert partition.known(partition.fresh()) == [known(2)]


# ---- what cannot be read -------------------------------------------------------------------------


def test_a_producer_goes_on_behind_a_damaged_batch(
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


def test_a_producer_goes_on_behind_a_batch_that_unfolds_too_far(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "READ_UNFOLDED_BYTES_MAX", 17 << 20)
    partition.append(1)
    partition.append(2, value=bytes(20 << 20), compression="gzip")
    partition.append(3, value=bytes(10 << 20), compression="gzip")

    assert partition.known(partition.fresh()) == [known(3)]


def test_what_the_log_has_lost_before_its_start_is_no_gap(partition: Partition) -> None:
    for sequence in (1, 2, 3, 5):
        partition.append(sequence)
    partition.log.move_log_start(2)

    assert partition.known(partition.fresh()) == [known(3, ((5, 5),))]


def test_a_gap_that_comes_behind_a_log_that_lacks_records_is_one(partition: Partition) -> None:
    partition.append(1)
    partition.append(2)
    partition.log.move_log_start(1)
    named = partition.fresh()

    async def image() -> list[Known]:
        async with named.of(partition.topic, partition.log) as sequences:
            sequences.replay([Run(b"new", 1, 3, 3, 1), Run(b"p", 1, 5, 5, 1)], NOW_MS)
            return sequences.image()

    assert partition.run(image()) == [known(0, ((3, 3),), name=b"new"), known(2, ((5, 5),))]


def test_a_gap_in_a_log_that_lacks_nothing_is_one(partition: Partition) -> None:
    partition.append(5)
    partition.append(1)

    assert partition.known(partition.fresh()) == [known(1, ((5, 5),))]


def test_copies_that_a_producer_of_kafkas_brings_say_nothing(partition: Partition) -> None:
    partition.append(1, 2, producer_id=7, producer_epoch=0, base_sequence=0)

    assert partition.known(partition.fresh()) == []


def test_a_log_is_read_with_turns_in_between(
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
        words = Words(SEQUENCE, sequence_of)
        await loading.read(partition.log, Sequences(1), 0, words, partition.recompression.run)
        counting.cancel()

    asyncio.run(read())

    assert turns > 100

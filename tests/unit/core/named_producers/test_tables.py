"""Named producers over a restart: from the log, from a checkpoint, and from both."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker._native.wire.cursus_batch import sequence_of
from broker.codec.encoding import encode
from broker.core.io_thread import IoThread
from broker.core.named_producers.sequences import Known
from broker.core.named_producers.tables import NamedProducers
from broker.model.clock import ManualClock
from broker.storage.named_producers import FILE_NAME
from tests.native_log import NOW_MS, Logs

EXPIRATION_MS = 1_000


class Partition:
    """A log of named producers' records, whose turns a test ends."""

    def __init__(self, path: Path) -> None:
        self._logs = Logs(path)
        self.log: Any = self._logs.create(is_group_commit=False)
        self.io_thread = IoThread()
        self.clock = ManualClock(NOW_MS)

    def append(self, *sequences: int, name: bytes = b"p", epoch: int = 1) -> None:
        headers = [
            [
                ("cursus.producer_id", name),
                ("cursus.seq_num", b"%d" % each),
                ("cursus.epoch", b"%d" % epoch),
            ]
            for each in sequences
        ]
        rows: Any = [(None, b"v", each) for each in headers]
        for batch in encode(rows, timestamp_ms=NOW_MS):
            assert self.log.append(batch)[0] == 0
        self._logs.turn.end()

    @property
    def file(self) -> Path:
        return self._logs.folder() / FILE_NAME

    def fresh(self) -> NamedProducers:
        """Return what a start makes."""
        return NamedProducers(
            self.clock,
            self.io_thread,
            lambda: EXPIRATION_MS,
            sequence_of,
        )

    def known(self, named: NamedProducers) -> list[Known]:
        async def image() -> list[Known]:
            async with named.of(self.log) as sequences:
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


def known(done: int, ahead: tuple[tuple[int, int], ...] = (), name: bytes = b"p") -> Known:
    return Known(name, 1, done, 1, NOW_MS, ahead)


def test_a_log_says_who_wrote_it(partition: Partition) -> None:
    partition.append(1, 2, 3, 5)
    partition.append(1, name=b"q")

    assert partition.known(partition.fresh()) == [
        known(3, ((5, 5),)),
        known(1, name=b"q"),
    ]


def test_records_of_others_say_nothing(partition: Partition) -> None:
    for batch in encode([b"v", (b"k", b"v", [("cursus.seq_num", b"1")])], timestamp_ms=NOW_MS):
        partition.log.append(batch)

    assert partition.known(partition.fresh()) == []


def test_a_checkpoint_survives_the_records_that_it_was_made_of(partition: Partition) -> None:
    partition.append(1, 2, 3)
    partition.run(partition.fresh().cover([partition.log]))
    partition.append(4, 6)
    partition.log.move_log_start(3)

    assert partition.known(partition.fresh()) == [known(4, ((6, 6),))]


def test_a_checkpoint_is_written_once_for_what_has_not_changed(partition: Partition) -> None:
    named = partition.fresh()
    partition.append(1)
    partition.run(named.cover([partition.log]))
    partition.file.unlink()

    partition.run(named.cover([partition.log]))
    assert not partition.file.exists()

    partition.append(2)
    partition.run(named.cover([partition.log]))
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
    partition.run(partition.fresh().cover([partition.log]))
    partition.log.move_log_start(1)

    assert partition.known(partition.fresh()) == [known(1, name=b'\xff"\n')]


def test_who_was_silent_for_long_is_not_written(partition: Partition) -> None:
    partition.append(1)
    partition.clock.advance(EXPIRATION_MS + 1)

    partition.run(partition.fresh().cover([partition.log]))

    assert partition.file.read_text() == '{"version": 1, "offset": 1, "producers": 0}\n'


def test_a_log_that_is_offline_is_passed_over(partition: Partition) -> None:
    partition.append(1)
    partition.log.take_offline("a test")

    partition.run(partition.fresh().cover([partition.log]))

    assert not partition.file.exists()


def test_a_deleted_topic_is_forgotten(partition: Partition) -> None:
    named = partition.fresh()
    partition.append(1)
    partition.known(named)

    named.forget_topic("other")
    assert len(named._tables) == 1
    named.forget_topic("topic")
    assert len(named._tables) == 0

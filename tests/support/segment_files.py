"""Logs for the readers of segments: written by the native log, then damaged or compacted."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from broker._native.log import recovery
from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from tests.support.batches import header
from tests.support.native_log import Logs, appended, records


class Stored(NamedTuple):
    """A batch as brute force finds it."""

    segment: int
    position: int
    data: bytes
    base_offset: int
    last_offset: int
    max_timestamp: int


@contextmanager
def writing(path: Path, **settings: int) -> Iterator[tuple[Logs, PartitionLog]]:
    """Lend a log that is being written to, in path/topic-0."""
    logs = Logs(path, CommitThread(1))
    try:
        yield logs, logs.create(**settings)
    finally:
        logs.commit.stop()
        logs.turn.poll_synced()


def write(path: Path, batches: list[bytes], *, close: bool = True, **settings: int) -> Path:
    """Return the folder of a log with these batches, closed cleanly or left as a kill leaves it."""
    with writing(path, **settings) as (logs, log):
        for batch in batches:
            appended(log, batch)
        logs.sync(log)
        if close:
            recovery.close(log)
        return logs.folder()


def write_ascending(path: Path, count: int = 50, segment_bytes_max: int = 20_000) -> Path:
    """Return the folder of a log of batches of 10 records, with timestamps 0, 1, 2 and so on."""
    batches = [records(10, size=90, timestamp=time) for time in range(count)]
    return write(path, batches, segment_bytes_max=segment_bytes_max, index_interval_bytes=2_000)


def stored(folder: Path) -> list[Stored]:
    """Return all batches of all segments, read from the start."""
    return [batch for file in segment_files(folder) for batch in batches_of(file)]


def segment_files(folder: Path) -> list[Path]:
    """Return the `.log` files in order."""
    return sorted(folder.glob("*.log"))


def batches_of(file: Path) -> list[Stored]:
    """Return the batches of one file, up to its reserved tail."""
    data = file.read_bytes()
    found = []
    position = 0
    while any(data[position : position + 12]):
        head = header(data, position)
        last_offset = head.last_offset
        content = data[position : position + head.size]
        found.append(
            Stored(
                int(file.stem),
                position,
                content,
                head.base_offset,
                last_offset,
                head.max_timestamp,
            )
        )
        position += head.size
    return found


def restore_batch(folder: Path, batch: bytes) -> None:
    """Add a batch to the log of a stopped broker, as an operator who restores files does.

    Clients cannot write one that does not decompress: a broker refuses it.
    """
    file = segment_files(folder)[-1]
    last = batches_of(file)[-1]
    base_offset, leader_epoch = last.last_offset + 1, last.data[12:16]
    with file.open("ab") as log:
        log.write(base_offset.to_bytes(8) + batch[8:12] + leader_epoch + batch[16:])


def first_at(batches: list[Stored], offset: int) -> Stored | None:
    """Return the first batch that ends at or after an offset."""
    return next((batch for batch in batches if batch.last_offset >= offset), None)


def first_as_new(batches: list[Stored], timestamp: int) -> Stored | None:
    """Return the first batch with a record at or after a timestamp."""
    return next((batch for batch in batches if batch.max_timestamp >= timestamp), None)


def open_files(folder: Path) -> list[str]:
    """Return the files of a folder that this process has open or mapped."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor that lists them
            found.append(descriptor.readlink())
    return sorted(file.name for file in found if file.is_relative_to(folder))


@contextmanager
def folder_for_an_example() -> Iterator[Path]:
    """Lend a folder to one example of a property: all examples share tmp_path."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)

"""The files of a log: batches, and indexes with arbitrary entries."""

import tempfile
from functools import partial
from pathlib import Path

from broker import codec, segments
from broker.model.errors import CodecError
from broker.segments import Segment
from tests.fuzz.inputs import Options, exact, outcome

BASE_OFFSET = 0
ENTRY_SIZES = (8, 12)  # of the offset index, of the time index


def memory_folder() -> Path | None:
    """Return a folder in memory; None if there is none."""
    found = Path("/dev/shm")  # noqa: S108 - for folders of our own in it
    return found if found.is_dir() else None


_folder = tempfile.TemporaryDirectory(dir=memory_folder())  # one for all inputs
_log = Path(_folder.name) / f"{BASE_OFFSET:020}.log"


def segment(data: bytes) -> None:
    """Read a segment with false indexes: a search may take longer, but its result is the same."""
    options = Options(data)
    sizes = [options.byte(place) % 8 * size for place, size in enumerate(ENTRY_SIZES)]
    offsets, times, log = cut(options.content, sizes)
    write(_log, log)
    write(_log.with_suffix(".index"), offsets)
    write(_log.with_suffix(".timeindex"), times)
    with Segment(_log) as indexed:
        compare(indexed, log, options)


def cut(content: bytes, sizes: list[int]) -> tuple[bytes, bytes, bytes]:
    """Split an input into the contents of both indexes and of the log."""
    first, second = sizes[0], sum(sizes)
    return content[:first], content[first:second], content[second:]


def write(file: Path, content: bytes) -> None:
    """Write a new file, so that the mapping of an older one is unaffected."""
    file.unlink(missing_ok=True)
    file.write_bytes(content)


def compare(found: Segment, log: bytes, options: Options) -> None:
    """Read it in chunks and look offsets up; chunks are consecutive whole batches."""
    size_max = 1 << options.byte(2) % 16
    chunks = outcome(len(log), lambda: list(found.chunks(size_max)))
    end = outcome(len(log), found.end)
    if not isinstance(chunks, CodecError):
        position = 0
        for chunk in chunks:
            assert chunk.position == position
            assert chunk.base_offset < chunk.next_offset
            # Batches in the middle that an index leads past are checked only by the decoder.
            inside = chunk.data.tobytes()
            headers = outcome(len(inside), partial(codec.scan_headers, exact(inside)))
            assert len(inside) <= size_max or (
                not isinstance(headers, CodecError) and len(headers) == 1
            )
            position += len(inside)
        assert b"".join(chunk.data.tobytes() for chunk in chunks) == log[:position]
        # The end is searched after the last indexed batch, whatever precedes that.
        assert isinstance(end, CodecError) or end.position >= position
    for place in (3, 4):
        batch = outcome(len(log), partial(found.locate, options.number(place)))
        if batch is not None and not isinstance(batch, CodecError):
            assert batch.last_offset >= options.number(place)
            assert 0 <= batch.position < batch.position + batch.size <= len(log)
        newest = outcome(len(log), partial(found.locate_time, options.number(place)))
        if newest is not None and not isinstance(newest, CodecError):
            assert newest.max_timestamp >= options.number(place)
    with segments.open(_log) as log_of_one:
        outcome(len(log), lambda: list(log_of_one.chunks(size_max, copy=True)))

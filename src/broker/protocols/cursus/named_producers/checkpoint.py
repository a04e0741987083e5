"""`named-producers` in a partition's folder: the state of its named producers at an offset.

    {"version": 1, "offset": 42, "producers": 1}
    ["id", 7, 30, 10, 1700000000000, [[35, 40]]]

A line per producer: id, epoch, the sequence up to which all have arrived, the largest batch, the
time of its last batch, and the ranges that have arrived after a gap. Writes are atomic. An invalid
file counts as missing, with a warning: the log is then read from its start.
"""

import json
import logging
from pathlib import Path

from broker._native.kernel import file_ops
from broker.protocols.cursus.named_producers.sequences import ProducerCheckpoint

FILE_NAME = "named-producers"
_VERSION = 1
_log = logging.getLogger(__name__)


def write(folder: Path, offset: int, producers: list[ProducerCheckpoint]) -> None:
    """Write the file; StorageError when that fails."""
    head = {"version": _VERSION, "offset": offset, "producers": len(producers)}
    lines = [json.dumps(head), *map(_line, producers)]
    file_ops.write_file_atomic(folder / FILE_NAME, "".join(f"{each}\n" for each in lines).encode())


def read(folder: Path) -> tuple[int, list[ProducerCheckpoint]]:
    """Return the offset and the producers; 0 and none when the file is missing or invalid."""
    try:
        lines = file_ops.read_file(folder / FILE_NAME).decode().splitlines()
        head = json.loads(lines[0])
        if head["version"] != _VERSION or head["producers"] != len(lines) - 1:
            raise ValueError(f"version {head['version']}, {len(lines) - 1} producers")
        return int(head["offset"]), [_parsed(line) for line in lines[1:]]
    except FileNotFoundError:
        return 0, []
    except (ValueError, KeyError, IndexError, TypeError) as error:
        _log.warning("damaged checkpoint, taken as missing: folder=%s error=%s", folder, error)
        return 0, []


def _line(producer: ProducerCheckpoint) -> str:
    name = producer.producer_id.decode("utf-8", "surrogateescape")
    return json.dumps([name, *producer[1:]])


def _parsed(line: str) -> ProducerCheckpoint:
    name, epoch, done, largest, seen_ms, ahead = json.loads(line)
    ranges = tuple((int(first), int(last)) for first, last in ahead)
    producer_id = str(name).encode("utf-8", "surrogateescape")
    return ProducerCheckpoint(
        producer_id, int(epoch), int(done), int(largest), int(seen_ms), ranges
    )

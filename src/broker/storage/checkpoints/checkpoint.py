"""Writes Kafka's small text files, byte for byte, so that both sides' tools read them.

`segments.text_files` reads them, and has their formats. A write is atomic: a temporary file, fsync,
rename, fsync of the folder.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from broker._native.kernel import file_ops
from broker.model.identifiers import id_to_text
from broker.segments.text_files import CLEAN_SHUTDOWN, PARTITION_METADATA, VERSION


def write_offsets(file: Path, offsets: Mapping[tuple[str, int], int]) -> None:
    """Write these offsets to the file."""
    _write(file, _table(f"{topic} {n} {offset}" for (topic, n), offset in sorted(offsets.items())))


def leader_epochs(epochs: Iterable[tuple[int, int]]) -> str:
    """Return the text of a leader-epoch-checkpoint file."""
    return _table(f"{epoch} {start}" for epoch, start in epochs)


def write_swap(file: Path, kept: int | None, gone: Iterable[int]) -> None:
    """Record durably that segments have been replaced."""
    kept_rows = [] if kept is None else [f"kept {kept}"]
    _write(file, _table([*kept_rows, *(f"gone {base}" for base in gone)]))


def write_partition_metadata(folder: Path, topic_id: bytes) -> None:
    """Write the id of the topic that a partition's folder belongs to."""
    _write(folder / PARTITION_METADATA, partition_metadata(topic_id))


def partition_metadata(topic_id: bytes) -> str:
    """Return the text of a partition.metadata file."""
    return f"version: 0\ntopic_id: {id_to_text(topic_id)}"


def write_properties(file: Path, properties: Mapping[str, str]) -> None:
    """Write a .properties file."""
    _write(file, "".join(f"{name}={text}\n" for name, text in sorted(properties.items())))


def write_clean_shutdown(folder: Path) -> None:
    """Mark a data directory as cleanly stopped: the last write of a stop."""
    _write(folder / CLEAN_SHUTDOWN, '{"version":0,"brokerEpoch":-1}')


def take_clean_shutdown(folder: Path) -> bool:
    """Return whether the last stop was clean, and remove the marker durably."""
    try:
        file_ops.remove(folder / CLEAN_SHUTDOWN)
    except FileNotFoundError:
        return False
    file_ops.sync_folder(folder)
    return True


def _write(file: Path, text: str) -> None:
    file_ops.write_file_atomic(file, text.encode())


def _table(rows: Iterable[str]) -> str:
    lines = list(rows)
    return "".join(f"{line}\n" for line in (VERSION, str(len(lines)), *lines))

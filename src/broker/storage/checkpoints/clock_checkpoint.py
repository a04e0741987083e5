"""The state of the clock guard, as a .properties file of the data directory.

    boot.id         the machine's boot id when the state was taken
    boot.ms         CLOCK_BOOTTIME at that moment
    wall.ms         the wall clock at that moment
    ahead.ms        how far ahead of that line the clock is trusted
    is.held         1: the clock is not trusted
    confirmed.ms    the last known polylog.clock.confirmed.ms

An invalid file counts as missing, with a warning: the clock is then trusted.
"""

import logging
from pathlib import Path

from broker._native.kernel import file_ops
from broker.model.clock_guard import ClockState, Reading
from broker.model.errors import StorageError
from broker.segments import text_files
from broker.storage.checkpoints import checkpoint

FILE_NAME = "clock.properties"
BOOT_ID = "/proc/sys/kernel/random/boot_id"  # changes with each boot of the machine

_log = logging.getLogger(__name__)


def boot_id() -> str:
    """Return the machine's boot id; empty where the kernel provides none."""
    try:
        return file_ops.read_range(BOOT_ID, 0, 64).decode().strip()
    except (StorageError, FileNotFoundError):
        return ""


def read(folder: Path) -> ClockState | None:
    """Return the state of an earlier run, or None. StorageError when the file cannot be read."""
    file = folder / FILE_NAME
    found = text_files.read_properties(file)
    if found is None:
        return None
    try:
        return ClockState(
            found["boot.id"],
            Reading(int(found["wall.ms"]), int(found["boot.ms"])),
            int(found["ahead.ms"]),
            bool(int(found["is.held"])),
            int(found["confirmed.ms"]),
        )
    except (KeyError, ValueError) as error:
        _log.warning("damaged checkpoint, taken as missing: file=%s error=%r", file, error)
        return None


def write(folder: Path, seen: ClockState) -> None:
    """Write the state durably. StorageError when that fails."""
    numbers = {
        "boot.ms": seen.line.boot_ms,
        "wall.ms": seen.line.wall_ms,
        "ahead.ms": seen.ahead_ms_max,
        "is.held": int(seen.is_held),
        "confirmed.ms": seen.confirmed_ms,
    }
    texts = {name: str(number) for name, number in numbers.items()}
    checkpoint.write_properties(folder / FILE_NAME, {"boot.id": seen.boot_id, **texts})

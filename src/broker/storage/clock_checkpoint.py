"""What the wall clock was seen to show, as a .properties file of the data directory.

    boot.id         the machine's boot in which the rest was seen
    boot.ms         CLOCK_BOOTTIME at that moment
    wall.ms         the wall time that belongs to it
    ahead.ms        how far ahead of that another clock is believed
    is.held         1: the clock is not believed
    confirmed.ms    polylog.clock.confirmed.ms as it was heard of last

One that cannot be understood counts as missing, with a warning: the clock is believed then.
"""

import logging
from pathlib import Path

from broker._native.kernel import file_ops
from broker.model.clock_guard import ClockState, Reading
from broker.model.errors import StorageError
from broker.storage import checkpoint

FILE_NAME = "clock.properties"
BOOT_ID = "/proc/sys/kernel/random/boot_id"  # another one after each boot of the machine

_log = logging.getLogger(__name__)


def boot_id() -> str:
    """Which boot of the machine this is; empty where nobody says so."""
    try:
        return file_ops.read_range(BOOT_ID, 0, 64).decode().strip()
    except (StorageError, FileNotFoundError):
        return ""


def read(folder: Path) -> ClockState | None:
    """What an earlier life has seen, or None. StorageError when the file cannot be read."""
    file = folder / FILE_NAME
    found = checkpoint.read_properties(file)
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
    """Replace it durably. StorageError when that fails."""
    numbers = {
        "boot.ms": seen.line.boot_ms,
        "wall.ms": seen.line.wall_ms,
        "ahead.ms": seen.ahead_ms_max,
        "is.held": int(seen.is_held),
        "confirmed.ms": seen.confirmed_ms,
    }
    texts = {name: str(number) for name, number in numbers.items()}
    checkpoint.write_properties(folder / FILE_NAME, {"boot.id": seen.boot_id, **texts})

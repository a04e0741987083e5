"""Offsets of groups in files: what is restored when a seek or a deletion is taken back.

Lines are TOPIC,PARTITION,OFFSET as kafka-consumer-groups.sh --export writes them; -1 is for a
partition in which nothing was committed. Before offsets of a group are changed, the earlier ones
are kept in $XDG_STATE_HOME/polylog/offsets/CLUSTER/GROUP/ (~/.local/state without it), the last
SAVED_OFFSETS_MAX times.
"""

import csv
import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from broker.cli.text_files import read_text
from broker.model.clock import SystemClock
from broker.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.client.metadata import Partition

SAVED_OFFSETS_MAX: Final = 20  # files of a group
NOTHING: Final = -1
_FIELDS: Final = 3
# Of a group in the name of a folder, which has 255 bytes at most; 64 are those of a digest.
_NAME_MAX: Final = 150


def folder_of(cluster_id: str, group: str) -> Path:
    """Return where the offsets of a group are kept."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    name = quote(group, safe="", errors="surrogateescape")
    if len(name) > _NAME_MAX:
        name = f"{name[:_NAME_MAX]}-{sha256(name.encode()).hexdigest()}"
    return Path(home) / "polylog" / "offsets" / quote(cluster_id, safe="") / f"group-{name}"


def save(cluster_id: str, group: str, offsets: "Mapping[Partition, int | None]") -> Path:
    """Keep offsets in a new file and return it; the oldest files beyond the limit are deleted.

    Raises ConfigError: the file cannot be written.
    """
    folder = folder_of(cluster_id, group)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = _unused(folder)
        written = file.with_suffix(".new")
        written.write_text(text_of(offsets), encoding="utf-8")
        written.replace(file)
        for old in sorted(folder.glob("*.csv"))[:-SAVED_OFFSETS_MAX]:
            old.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the earlier offsets cannot be kept in {folder}: {error}; set XDG_STATE_HOME to a"
            " folder that can be written"
        ) from None
    return file


def forget(file: Path) -> None:
    """Delete a file whose offsets nobody needs to restore."""
    file.unlink(missing_ok=True)


def _unused(folder: Path) -> Path:
    """Return a file whose name is after those that exist, also if the clock was set back."""
    newest = max(
        (int(each.stem) for each in folder.glob("*.csv") if each.stem.isdigit()), default=0
    )
    return folder / f"{max(SystemClock().wall_ms(), newest + 1):015}.csv"


def newest(cluster_id: str, group: str) -> Path | None:
    """Return the file that was kept last."""
    return max(folder_of(cluster_id, group).glob("*.csv"), default=None)


def text_of(offsets: "Mapping[Partition, int | None]") -> str:
    """Return the lines of a file."""
    return "".join(
        f"{topic},{partition},{NOTHING if offset is None else offset}\n"
        for (topic, partition), offset in sorted(offsets.items())
    )


def read(file: Path) -> "dict[Partition, int | None]":
    """Read a file; None is for a partition in which nothing was committed.

    Raises ConfigError: it cannot be read, or a line is invalid.
    """
    found: dict[Partition, int | None] = {}
    lines = csv.reader(read_text(file).splitlines())
    try:
        rows = list(enumerate(lines, 1))
    except csv.Error as error:
        raise ConfigError(f"{file}, line {lines.line_num}: {error}") from None
    for number, line in rows:
        if not line or line[0].startswith("#"):
            continue
        try:
            topic, partition, offset = line if len(line) == _FIELDS else ("", "", "")
            value = int(offset)
            key = topic, int(partition)
        except ValueError:
            raise ConfigError(f"{file}, line {number}: expected TOPIC,PARTITION,OFFSET") from None
        if value < NOTHING or key[1] < 0 or not topic:
            raise ConfigError(f"{file}, line {number}: expected TOPIC,PARTITION,OFFSET")
        found[key] = None if value == NOTHING else value
    return found

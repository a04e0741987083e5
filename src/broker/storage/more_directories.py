"""Opens the directories of log.dirs after the first, which have folders of partitions only.

Each has a lock and an identity, as the data directory. `log-directories` in the data directory has
the id and the last path of each since its first use. A directory that cannot be opened, that is
named no more, or whose place has an unknown one now (a disk that is not mounted leaves an empty
folder) is missing. One that was given another path is known by its id.
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from broker.model.errors import DataDirError, StorageError
from broker.segments import text_files
from broker.storage.checkpoints import checkpoint
from broker.storage.log_dir import LogDir, UnusableDirError

KNOWN = "log-directories"
_log = logging.getLogger(__name__)


def open_more(home: LogDir, paths: Iterable[Path] | None, *, is_standalone: bool = True) -> None:
    """Open or create more directories of a broker.

    Those of a standalone one join the cluster of its data directory; others do so with it, when the
    store tells which cluster that is (LogDir.join_cluster).

    Raises DataDirError if one is another broker's, or if there may be none (`paths` is None) and
    there were some.
    """
    file = home.path / KNOWN
    stored = text_files.read_properties(file) or {}
    if paths is None:
        _check_none(home, stored)
        return
    known = {Path(path): directory_id for directory_id, path in stored.items()}
    opened: dict[Path, LogDir] = {}
    missing = dict.fromkeys(known, "log.dirs does not name it any more")
    try:
        for path in paths:
            missing.pop(path, None)
            try:
                opened[path] = _open(home, path, known.get(path))
            except (UnusableDirError, StorageError, OSError) as error:
                missing[path] = str(error)
        found = _by_id(home, opened)
        missing |= _without_strangers(opened, found, known)
        if is_standalone:
            missing |= _joined(home, opened, found)
        missing = {path: missing[path] for path in missing if known.get(path) not in found}
        if missing or opened:
            now = stored | {directory_id: str(path) for directory_id, path in found.items()}
            if now != stored:
                checkpoint.write_properties(file, now)
            home.use(opened, missing)
    except BaseException:
        for each in opened.values():
            each.close()
        raise
    for path, reason in missing.items():
        _log.error("directory is missing: path=%s reason=%s", path, reason)


def _check_none(home: LogDir, stored: Mapping[str, str]) -> None:
    if stored:
        raise DataDirError(
            f"{home.path} has partitions in {', '.join(stored.values())}, which workers do not use:"
            f" move their folders into it, and delete {home.path / KNOWN}"
        )


def _open(home: LogDir, path: Path, known_id: str | None) -> LogDir:
    if known_id is not None and not (path / text_files.META_PROPERTIES).exists():
        raise UnusableDirError(f"it is not the one used before, {known_id}: is the disk mounted?")
    return LogDir(path, home.node_id)


def _by_id(home: LogDir, opened: Mapping[Path, LogDir]) -> dict[str, Path]:
    """Return the paths of directories by their ids; DataDirError if one is a copy of another."""
    found = {home.directory_id: home.path}
    for path, each in opened.items():
        other = found.setdefault(each.directory_id, path)
        if other != path:
            raise DataDirError(
                f"{other} and {path} have the same directory.id in {text_files.META_PROPERTIES},"
                " one is a copy: leave it out of log.dirs"
            )
    del found[home.directory_id]
    return found


def _without_strangers(
    opened: dict[Path, LogDir], found: dict[str, Path], known: Mapping[Path, str]
) -> dict[Path, str]:
    """Close directories in the place of one that is nowhere else; return that these are missing."""
    missing: dict[Path, str] = {}
    while strangers := [path for path in opened if path in known and known[path] not in found]:
        for path in strangers:
            stranger = opened.pop(path)
            stranger.close()
            del found[stranger.directory_id]
            missing[path] = (
                f"it is not the one used before: its id is {stranger.directory_id}, not"
                f" {known[path]}"
            )
    return missing


def _joined(home: LogDir, opened: dict[Path, LogDir], found: dict[str, Path]) -> dict[Path, str]:
    """Let directories join the cluster of the first one; return those that cannot be written."""
    missing: dict[Path, str] = {}
    for path, each in list(opened.items()):
        try:
            each.join_cluster(home.cluster_id)
        except (StorageError, OSError) as error:
            missing[path] = str(error)
            del opened[path], found[each.directory_id]
            each.close()
    return missing


def known_directories(home: LogDir) -> dict[str, Path | None]:
    """Return all directories after the first by their ids, once opened; None: one is missing."""
    stored = text_files.read_properties(home.path / KNOWN) or {}
    usable = set(home.directories)
    return {each: path if (path := Path(text)) in usable else None for each, text in stored.items()}

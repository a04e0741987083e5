"""Opens the directories of log.dirs after the first, which have folders of partitions only.

Each has a lock and an identity, as the data directory. `log-directories` in the data directory has
the id of each since its first use. A directory that cannot be opened, that is named no more, or
whose place has another one now (a disk that is not mounted leaves an empty folder) is missing.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

from broker.model.errors import DataDirError, StorageError
from broker.segments import text_files
from broker.storage.checkpoints import checkpoint
from broker.storage.log_dir import LogDir, UnusableDirError

KNOWN = "log-directories"
_log = logging.getLogger(__name__)


def open_more(home: LogDir, paths: Iterable[Path] | None) -> None:
    """Open or create more directories of a broker.

    Raises DataDirError if one is another broker's, or if there may be none (`paths` is None) and
    there were some.
    """
    file = home.path / KNOWN
    stored = text_files.read_properties(file) or {}
    if paths is None:
        if stored:
            raise DataDirError(
                f"{home.path} has partitions in {', '.join(stored.values())}, which a broker of a"
                f" cluster does not use: move their folders into it, and delete {file}"
            )
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
        if missing or opened:
            now = known | {path: each.directory_id for path, each in opened.items()}
            if now != known:
                checkpoint.write_properties(file, {now[path]: str(path) for path in now})
            home.use(opened, missing)
    except BaseException:
        for each in opened.values():
            each.close()
        raise
    for path, reason in missing.items():
        _log.error("directory is missing: path=%s reason=%s", path, reason)


def _open(home: LogDir, path: Path, known_id: str | None) -> LogDir:
    if known_id is not None and not (path / text_files.META_PROPERTIES).exists():
        raise UnusableDirError(f"it is not the one used before, {known_id}: is the disk mounted?")
    opened = LogDir(path, home.node_id)
    try:
        if known_id not in (None, opened.directory_id):
            raise UnusableDirError(
                f"it is not the one used before: its id is {opened.directory_id}, not {known_id}"
            )
        opened.join_cluster(home.cluster_id)
    except BaseException:
        opened.close()
        raise
    return opened

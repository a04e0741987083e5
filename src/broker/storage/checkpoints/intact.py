"""Since when a data directory has everything that its broker has acknowledged as a replica.

    since       a revision of the metadata store
    import      the id of the import that has made that store, if one has
    directories the ids of all other directories of log.dirs that had partitions then

in `intact.properties` of the data directory. A broker registers with that revision: it may be
elected for partitions whose state was stored later, because it had everything then that it was an
in-sync replica of. A new or emptied directory has no such file and registers with 0, which counts
as the registration's own revision; that one is then written here. A start whose recovery finds that
durable records are gone, or damaged, resets the file: what the broker lacks, another replica may
have, and must be elected. A directory that was put back in the place of a later one registers with
0, too (core/cluster/membership.py).

Revisions of a store from before an import mean nothing afterwards: a directory that was intact then
has been so before all that the new store has (core/cluster/transfer.py). A revision that the store
has not reached is one that was lost with the end of a restored store: the directory was emptied
after the backup, and what the store says of it is from before.

The file of the first directory is for all of them, so that there is one revision, also when disks
come and go and change their places. Each other one has a file that says `first=no`, written before
the first one lists it: one that is listed and has none has been emptied, and the broker begins
anew. So it does if one is listed and not known any more: its partitions are made anew. A directory
that is missing loses nothing: the broker does not make what may be there, and gives up what it is
for it (core/cluster/failed_logs.py). A new one has nothing to lose, unless it has partitions: those
may be old. One that is named first some day has no revision of its own.
"""

import logging
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from broker._native.kernel import file_ops
from broker.model.errors import StorageError
from broker.segments import text_files
from broker.storage.checkpoints import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

FILE_NAME = "intact.properties"
UNKNOWN = 0  # registered with it, a broker counts as intact since that registration
BEFORE_ALL = 1  # of a directory that is older than its store: revisions begin with it
NO_IMPORT = "none"
_FIRST = "first"  # in the files of other directories than the first one

_log = logging.getLogger(__name__)


def read(folder: Path, imported: str = NO_IMPORT) -> int:
    """Return the revision, 0 if unknown. StorageError when the file cannot be read.

    `imported` is the id of the import that has made the store.
    """
    file = folder / FILE_NAME
    found = text_files.read_properties(file)
    if found is None or _FIRST in found:
        return UNKNOWN
    since = found.get("since", "")
    if not (since.isascii() and since.isdecimal()):
        _log.warning("damaged checkpoint, taken as missing: file=%s since=%r", file, since)
        return UNKNOWN
    if int(since) != UNKNOWN and found.get("import", NO_IMPORT) != imported:
        return BEFORE_ALL
    return int(since)


def write(
    folder: Path, since: int, imported: str = NO_IMPORT, directories: "Iterable[str]" = ()
) -> None:
    """Write the revision durably, with the ids of other directories. StorageError: it fails."""
    properties = {"since": str(since)}
    if imported != NO_IMPORT:
        properties["import"] = imported
    if ids := ",".join(sorted(directories)):
        properties["directories"] = ids
    checkpoint.write_properties(folder / FILE_NAME, properties)


def reset(folder: Path) -> None:
    """Forget the revision durably. StorageError when that fails."""
    with suppress(FileNotFoundError):
        file_ops.remove(folder / FILE_NAME)
    file_ops.sync_folder(folder)


def _listed(folder: Path) -> set[str]:
    """Return the ids of the other directories that had partitions when a file was written."""
    found = text_files.read_properties(folder / FILE_NAME) or {}
    return set(filter(None, found.get("directories", "").split(",")))


def _is_marked(folder: Path) -> bool:
    """Return whether another directory than the first one is what it was; no file: emptied."""
    try:
        return _FIRST in (text_files.read_properties(folder / FILE_NAME) or {})
    except StorageError as error:
        _log.warning("damaged checkpoint, taken as missing: file=%s error=%s", folder, error)
        return False


def _may_have_partitions(folder: Path) -> bool:
    try:
        return text_files.has_partitions(folder)
    except (StorageError, FileNotFoundError):
        return True


def _mark(folder: Path) -> None:
    """Say that a directory is not the first one; if that fails, it counts as emptied next time."""
    try:
        checkpoint.write_properties(folder / FILE_NAME, {_FIRST: "no"})
    except (StorageError, FileNotFoundError) as error:
        _log.warning("directory not noted as intact: path=%s error=%s", folder, error)


class Intact:
    """What a running broker knows of its directories.

    Attributes:
        since: to register with.
        losses: how many were found in this run; they make an earlier registration worthless.
        when_lost: called after each, in the thread that has found it.
    """

    def __init__(
        self,
        folder: Path,
        imported: str = NO_IMPORT,
        revision: int | None = None,
        others: "Mapping[str, Path | None] | None" = None,
    ) -> None:
        """Read the files, and list new directories. StorageError when that fails.

        Args:
            folder: the data directory.
            imported: the id of the import that has made the metadata store, NO_IMPORT if none has.
            revision: of that store now; None: not known.
            others: the other directories with partitions, by their ids; None: one that is missing.
        """
        known = dict(others or {})
        self._folder = folder
        self._imported = imported
        self._changing = Lock()
        self._directories = frozenset(known)
        self.losses = 0
        self._is_reset = False  # the file is gone: many logs may have lost records at once
        self.when_lost: Callable[[], None] | None = None
        self.since = read(folder, imported)
        if revision is not None and self.since > revision:
            self.since = UNKNOWN
        listed = _listed(folder)
        self._unmarked = {
            each: path for each, path in known.items() if path is not None and not _is_marked(path)
        }
        if self.since == UNKNOWN:
            return
        emptied, added = listed.intersection(self._unmarked), self._directories - listed
        paths = [path for each in added if (path := known[each]) is not None]
        if not listed <= self._directories or emptied or any(map(_may_have_partitions, paths)):
            _log.warning(
                "directories are not those that were intact: this broker begins anew, and leads no"
                " partition that others have more of: first=%s",
                folder,
            )
            self.since = UNKNOWN
            self._reset()  # before anything is made anew
        elif added:
            self._write(self.since)

    def _reset(self) -> None:
        if not self._is_reset:
            reset(self._folder)
            self._is_reset = True

    def _write(self, since: int) -> None:
        while self._unmarked:
            _mark(self._unmarked.popitem()[1])
        write(self._folder, since, self._imported, self._directories)

    def lost(self) -> None:
        """Note that durable records are gone; in any thread. StorageError: it is not durable."""
        with self._changing:
            self.losses += 1
            self.since = UNKNOWN
            self._reset()
        if self.when_lost is not None:
            self.when_lost()

    def registered(self, since: int, losses: int) -> None:
        """Write since when the broker is registered as intact, after so many losses.

        Nothing is written if more were found since. StorageError when the write fails.
        """
        with self._changing:
            if self.since != since and losses == self.losses:
                self._is_reset = False
                self._write(since)
                self.since = since

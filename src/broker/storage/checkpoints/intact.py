"""Since when a data directory has everything that its broker has acknowledged as a replica.

    since       a revision of the metadata store
    import      the id of the import that has made that store, if one has

in `intact.properties` of the data directory. A broker registers with that revision: it may be
elected for partitions whose state was stored later, because it had everything then that it was an
in-sync replica of. A new or emptied directory has no such file and registers with 0, which counts
as the registration's own revision; that one is then written here. A start whose recovery finds that
durable records are gone, or damaged, resets the file: what the broker lacks, another replica may
have, and must be elected.

Revisions of a store from before an import mean nothing afterwards: a directory that was intact then
has been so before all that the new store has (core/cluster/transfer.py). A revision that the store
has not reached is one that was lost with the end of a restored store: the directory was emptied
after the backup, and what the store says of it is from before.
"""

import logging
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from broker._native.kernel import file_ops
from broker.segments import text_files
from broker.storage.checkpoints import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

FILE_NAME = "intact.properties"
UNKNOWN = 0  # registered with it, a broker counts as intact since that registration
BEFORE_ALL = 1  # of a directory that is older than its store: revisions begin with it
NO_IMPORT = "none"

_log = logging.getLogger(__name__)


def read(folder: Path, imported: str = NO_IMPORT) -> int:
    """Return the revision, 0 if unknown. StorageError when the file cannot be read.

    `imported` is the id of the import that has made the store.
    """
    file = folder / FILE_NAME
    found = text_files.read_properties(file)
    if found is None:
        return UNKNOWN
    since = found.get("since", "")
    if not (since.isascii() and since.isdecimal()):
        _log.warning("damaged checkpoint, taken as missing: file=%s since=%r", file, since)
        return UNKNOWN
    if int(since) != UNKNOWN and found.get("import", NO_IMPORT) != imported:
        return BEFORE_ALL
    return int(since)


def write(folder: Path, since: int, imported: str = NO_IMPORT) -> None:
    """Write the revision durably. StorageError when that fails."""
    properties = {"since": str(since)}
    if imported != NO_IMPORT:
        properties["import"] = imported
    checkpoint.write_properties(folder / FILE_NAME, properties)


def reset(folder: Path) -> None:
    """Forget the revision durably. StorageError when that fails."""
    with suppress(FileNotFoundError):
        file_ops.remove(folder / FILE_NAME)
    file_ops.sync_folder(folder)


class Intact:
    """What a running broker knows of its directory.

    Attributes:
        since: to register with.
        losses: how many were found in this run; they make an earlier registration worthless.
        when_lost: called after each, in the thread that has found it.
    """

    def __init__(
        self, folder: Path, imported: str = NO_IMPORT, revision: int | None = None
    ) -> None:
        """Read the file. StorageError when that fails.

        Args:
            folder: the data directory.
            imported: the id of the import that has made the metadata store, NO_IMPORT if none has.
            revision: of that store now; None: not known.
        """
        self._folder = folder
        self._imported = imported
        self._changing = Lock()
        self.since = read(folder, imported)
        if revision is not None and self.since > revision:
            self.since = UNKNOWN
        self.losses = 0
        self._is_reset = False  # the file is gone: many logs may have lost records at once
        self.when_lost: Callable[[], None] | None = None

    def lost(self) -> None:
        """Note that durable records are gone; in any thread. StorageError: it is not durable."""
        with self._changing:
            self.losses += 1
            self.since = UNKNOWN
            if not self._is_reset:
                reset(self._folder)
                self._is_reset = True
        if self.when_lost is not None:
            self.when_lost()

    def registered(self, revision: int, losses: int) -> None:
        """Write the revision of a registration that was made with 0, after so many losses.

        Nothing is written if more were found since. StorageError when the write fails.
        """
        with self._changing:
            if self.since == UNKNOWN and losses == self.losses:
                self._is_reset = False
                write(self._folder, revision, self._imported)
                self.since = revision

"""The newest state of its metadata store that a broker has seen: a .properties file.

    cluster.id      of the cluster
    revision        the highest revision of the metadata store
    changed         the revision of its key `changed`
    restores        ids of the restores of that store, the present one last, separated by commas

A store whose backup was restored has a lower revision, or, when leases have ended since or other
programs have used the same etcd, at least a lower one of `changed`. `broker metadata bump-epochs`
and an import give the store a new id (core/cluster/records.py): from then on other revisions count.
A store with an id that was replaced before is older, too, whatever its revisions are.

An invalid file counts as missing, with a warning: the next start accepts any revision.
"""

import logging
from pathlib import Path
from typing import NamedTuple

from broker.model.limits import RESTORES_KNOWN_MAX
from broker.segments import text_files
from broker.storage.checkpoints import checkpoint

FILE_NAME = "metadata-seen.properties"

_log = logging.getLogger(__name__)


class StoreSeen(NamedTuple):
    """A state of a metadata store."""

    cluster_id: str
    revision: int
    changed: int  # revision of the last change of topics, configurations or producer ids
    restores: tuple[str, ...]  # ids, the present one last

    def is_older_than(self, seen: "StoreSeen") -> bool:
        """Return whether a store with this state lacks changes that a broker has seen before."""
        if seen.cluster_id != self.cluster_id:
            return False
        if self.restores[-1] == seen.restores[-1]:
            return self.revision < seen.revision or self.changed < seen.changed
        return self.restores[-1] in seen.restores

    def with_restores_of(self, seen: "StoreSeen | None") -> "StoreSeen":
        """Return this state with the restores that a broker has seen before it."""
        if seen is None or seen.cluster_id != self.cluster_id:
            return self
        earlier = [each for each in seen.restores if each not in self.restores]
        return self._replace(restores=(*earlier, *self.restores)[-RESTORES_KNOWN_MAX:])


def read(folder: Path) -> StoreSeen | None:
    """Return what was written, or None. StorageError when the file cannot be read."""
    file = folder / FILE_NAME
    found = text_files.read_properties(file)
    if found is None:
        return None
    try:
        restores = tuple(found["restores"].split(","))
        revision, changed = int(found["revision"]), int(found["changed"])
        return StoreSeen(found["cluster.id"], revision, changed, restores)
    except (KeyError, ValueError) as error:
        _log.warning("damaged checkpoint, taken as missing: file=%s error=%r", file, error)
        return None


def write(folder: Path, seen: StoreSeen) -> None:
    """Write the state durably. StorageError when that fails."""
    properties = {
        "cluster.id": seen.cluster_id,
        "revision": str(seen.revision),
        "changed": str(seen.changed),
        "restores": ",".join(seen.restores),
    }
    checkpoint.write_properties(folder / FILE_NAME, properties)

"""Who may do what, as the metadata store has it: entries of several kinds, and who watches them.

    key                                 kind    of
    security/acl/<uuid>                 ACL     one access control entry
    security/scram/<mechanism>/<user>   SCRAM   the credential of a user
    security/token/<id>                 TOKEN   a delegation token
    security/quota/<entity>             QUOTA   the quotas of a user, a client id or an address

This file does not read the values: each kind has an owner that does, which watches it. A watcher is
called after the change is in the image, on each broker of a cluster, and in the order of changes.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from itertools import chain
from typing import TypeAlias

from broker.core.cluster.slices import Slices
from broker.model import security_limits
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import CLUSTER_PARTITIONS_PER_STEP
from broker.model.security_limits import SECURITY_ENTRIES_TOLD_PER_STEP
from broker.storage import metadata
from broker.storage.metadata import Guard, KeyValue, Operation


class Kind(Enum):
    """A kind of entry: the part of its keys, and how many the broker keeps."""

    ACL = "acl", security_limits.ACLS_MAX
    SCRAM = "scram", security_limits.SCRAM_CREDENTIALS_MAX
    TOKEN = "token", security_limits.DELEGATION_TOKENS_MAX
    QUOTA = "quota", security_limits.CLIENT_QUOTAS_MAX

    def __init__(self, text: str, entries_max: int) -> None:
        """Keep both."""
        self.text = text
        self.entries_max = entries_max


# Gets the kind, the name and the new value; None: the entry was deleted.
Watcher: TypeAlias = Callable[[Kind, str, bytes | None], None]
# Returns when a watcher is told of a change among those of a load, from the values before and after
# it: the smallest is first.
Rank: TypeAlias = Callable[[bytes | None, bytes | None], int]
_KINDS = {each.text: each for each in Kind}


class SecurityEntries:
    """The entries of all kinds, by name.

    Attributes:
        values: what is stored.
        revisions: of the last change of each entry.
    """

    __slots__ = ("_ranks", "_watchers", "revisions", "values")

    def __init__(self) -> None:
        """Begin without entries and watchers."""
        self.values: dict[Kind, dict[str, bytes]] = {kind: {} for kind in Kind}
        self.revisions: dict[Kind, dict[str, int]] = {kind: {} for kind in Kind}
        self._watchers: list[tuple[Kind, Watcher]] = []
        self._ranks: dict[Kind, Rank] = {}

    # ---- reading
    # ---------------------------------------------------------------------------------------------

    def entries(self, kind: Kind) -> Mapping[str, bytes]:
        """Return the values of one kind by name, as they are at any moment."""
        return self.values[kind]

    def watch(self, kind: Kind, watcher: Watcher, rank: Rank | None = None) -> None:
        """Have `watcher` called after each change of an entry of this kind; it does not raise.

        It is told of the changes of a load in steps, by `rank` if their order matters to it.
        """
        self._watchers.append((kind, watcher))
        if rank is not None:
            self._ranks[kind] = rank

    def guard(self, kind: Kind, name: str) -> Guard:
        """Return the guard that an entry is as it is here."""
        key = metadata.security_key(kind.text, name)
        revision = self.revisions[kind].get(name)
        return metadata.Absent(key) if revision is None else metadata.Unchanged(key, revision)

    def check_room(self, kind: Kind, added: int) -> None:
        """Raise RequestError if there is no room for so many more entries."""
        if len(self.values[kind]) + added > kind.entries_max:
            text = f"there is room for {kind.entries_max} entries of kind {kind.text}, and no more"
            raise RequestError(ErrorCode.POLICY_VIOLATION, text)

    # ---- changing
    # ---------------------------------------------------------------------------------------------

    def set(self, key: bytes, entry: KeyValue | None) -> None:
        """Change one key; an entry of None was deleted. Kinds of newer versions are not kept."""
        text, _, name = key.removeprefix(metadata.SECURITY).decode(errors="replace").partition("/")
        kind = _KINDS.get(text)
        if kind is None:
            return
        if entry is None:
            self.values[kind].pop(name, None)
            self.revisions[kind].pop(name, None)
        else:
            self.values[kind][name] = entry.value
            self.revisions[kind][name] = entry.mod_revision
        self._tell(kind, name)

    def changed_in(self, other: "SecurityEntries") -> Slices[Iterable[tuple[Kind, str]]]:
        """Return what is different in `other`, in the order in which watchers are told of it."""
        changed: dict[int, list[tuple[Kind, str]]] = {}
        spent = 0
        for kind in Kind:
            old, new, rank = self.values[kind], other.values[kind], self._ranks.get(kind)
            for name in {**old, **new}:
                before, after = old.get(name), new.get(name)
                if before != after:
                    place = 0 if rank is None else rank(before, after)
                    changed.setdefault(place, []).append((kind, name))
                spent += 1
                if spent % CLUSTER_PARTITIONS_PER_STEP == 0:
                    yield
        return chain.from_iterable(changed[place] for place in sorted(changed))

    def replace(self, other: "SecurityEntries") -> None:
        """Take the entries of `other`; the watchers are told by `tell` of what is different."""
        self.values, self.revisions = other.values, other.revisions

    def tell(self, changed: Iterable[tuple[Kind, str]]) -> Slices[None]:
        """Tell the watchers of entries that have changed."""
        for number, (kind, name) in enumerate(changed, 1):
            self._tell(kind, name)
            if number % SECURITY_ENTRIES_TOLD_PER_STEP == 0:
                yield

    def _tell(self, kind: Kind, name: str) -> None:
        for watched, watcher in self._watchers:
            if watched is kind:
                watcher(kind, name, self.values[kind].get(name))


def put(kind: Kind, name: str, value: bytes) -> Operation:
    """Return the operation that stores an entry; RequestError for one that is too large."""
    if len(name.encode()) > security_limits.SECURITY_NAME_BYTES_MAX:
        text = f"a name of {security_limits.SECURITY_NAME_BYTES_MAX} bytes at most"
        raise RequestError(ErrorCode.INVALID_REQUEST, text)
    if len(value) > security_limits.SECURITY_VALUE_BYTES_MAX:
        text = f"an entry of {security_limits.SECURITY_VALUE_BYTES_MAX} bytes at most"
        raise RequestError(ErrorCode.INVALID_REQUEST, text)
    return metadata.Put(metadata.security_key(kind.text, name), value)


def delete(kind: Kind, name: str) -> Operation:
    """Return the operation that deletes an entry."""
    return metadata.Delete(metadata.security_key(kind.text, name))

"""The security entries of the image: what watchers are told, guards, bounds."""

import itertools

import pytest

from broker.core.cluster.image import ClusterImage
from broker.core.cluster.security_entries import Kind, delete, put
from broker.core.cluster.slices import complete
from broker.model import security_limits
from broker.model.errors import RequestError
from broker.storage.metadata import Changes
from tests.support.memory_store import MemoryStore


class Followed:
    """An image that follows a store, and what a watcher of one kind was told."""

    def __init__(self, kind: Kind = Kind.ACL) -> None:
        self.store = MemoryStore()
        self.image = ClusterImage()
        self.told: list[tuple[str, bytes | None]] = []
        self.image.security.watch(kind, self._changed)

    def _changed(self, kind: Kind, name: str, value: bytes | None) -> None:
        assert self.image.security.entries(kind).get(name) == value
        self.told.append((name, value))

    def transact(self, *operations: object) -> int | None:
        return self.store.transact([], operations)  # type: ignore[arg-type]

    def follow(self) -> None:
        for changes in self.store.changes(self.image.revision):
            complete(self.image.apply(Changes(changes.revision, changes.events)))

    def load(self) -> None:
        complete(self.image.load(*self.store.scan()))


def test_a_watcher_is_told_each_change_of_its_kind_in_their_order() -> None:
    followed = Followed()
    followed.transact(put(Kind.ACL, "a", b"1"), put(Kind.SCRAM, "a", b"other"))
    followed.transact(put(Kind.ACL, "a", b"2"))
    followed.transact(delete(Kind.ACL, "a"))

    followed.follow()

    assert followed.told == [("a", b"1"), ("a", b"2"), ("a", None)]
    assert followed.image.security.entries(Kind.SCRAM) == {"a": b"other"}


def test_a_watcher_is_told_after_a_load_what_was_missed_and_nothing_else() -> None:
    followed = Followed()
    followed.transact(*(put(Kind.ACL, name, b"1") for name in "abc"))
    followed.follow()
    followed.told.clear()
    followed.transact(put(Kind.ACL, "a", b"2"), delete(Kind.ACL, "b"), put(Kind.ACL, "d", b"1"))

    followed.load()

    assert sorted(followed.told) == [("a", b"2"), ("b", None), ("d", b"1")]
    assert followed.image.security.entries(Kind.ACL) == {"a": b"2", "c": b"1", "d": b"1"}


def test_a_load_tells_of_many_entries_in_steps() -> None:
    followed = Followed()
    count = 4 * security_limits.SECURITY_ENTRIES_TOLD_PER_STEP
    followed.transact(*(put(Kind.ACL, f"{number}", b"1") for number in range(count)))
    told = [len(followed.told) for _ in followed.image.load(*followed.store.scan())]

    steps = [end - begin for begin, end in itertools.pairwise([0, *told, len(followed.told)])]
    assert sum(steps) == count
    assert max(steps) == security_limits.SECURITY_ENTRIES_TOLD_PER_STEP


def test_a_watcher_is_still_told_of_changes_after_a_load() -> None:
    followed = Followed()
    followed.load()
    followed.transact(put(Kind.ACL, "a", b"1"))

    followed.follow()

    assert followed.told == [("a", b"1")]


def test_a_guard_holds_until_another_broker_changes_the_entry() -> None:
    followed = Followed()
    absent = followed.image.security.guard(Kind.ACL, "a")
    assert followed.store.transact([absent], [put(Kind.ACL, "a", b"1")]) is not None
    assert followed.store.transact([absent], [put(Kind.ACL, "a", b"2")]) is None

    followed.follow()
    unchanged = followed.image.security.guard(Kind.ACL, "a")

    assert followed.store.transact([unchanged], [put(Kind.ACL, "a", b"2")]) is not None
    assert followed.store.transact([unchanged], [put(Kind.ACL, "a", b"3")]) is None


@pytest.mark.parametrize("name", ["SCRAM-SHA-256/alice", "a/b/c", "ü", "User:CN=a,O=b", ""])
def test_a_name_is_what_follows_the_kind_whatever_it_contains(name: str) -> None:
    followed = Followed(Kind.SCRAM)
    followed.transact(put(Kind.SCRAM, name, b"1"))

    followed.follow()

    assert followed.told == [(name, b"1")]


def test_entries_of_a_kind_have_a_limit() -> None:
    followed = Followed()
    followed.transact(put(Kind.QUOTA, "a", b"1"))
    followed.follow()
    room = security_limits.CLIENT_QUOTAS_MAX - 1

    followed.image.security.check_room(Kind.QUOTA, room)
    with pytest.raises(RequestError):
        followed.image.security.check_room(Kind.QUOTA, room + 1)


def test_names_and_values_have_a_limit() -> None:
    put(Kind.ACL, "a" * security_limits.SECURITY_NAME_BYTES_MAX, b"")
    with pytest.raises(RequestError):
        put(Kind.ACL, "a" * (security_limits.SECURITY_NAME_BYTES_MAX + 1), b"")
    with pytest.raises(RequestError):
        put(Kind.ACL, "a", bytes(security_limits.SECURITY_VALUE_BYTES_MAX + 1))

"""The latest changes: within their limits, in whole revisions, without a gap."""

from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from pathlib import Path

import pytest

from broker.storage.metadata import Compacted, Delete, Put, store_limits
from broker.storage.metadata.sqlite.database import SqliteMetaStore
from broker.storage.metadata.sqlite.shared import SharedSqliteMetaStore


@pytest.fixture(params=[SqliteMetaStore, SharedSqliteMetaStore], ids=["alone", "shared"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SqliteMetaStore]:
    monkeypatch.setattr(store_limits, "METADATA_HISTORY_ROWS_MAX", 100)
    monkeypatch.setattr(store_limits, "METADATA_HISTORY_BYTES_MAX", 10_000)
    opened: SqliteMetaStore = request.param(tmp_path / "metadata.db")
    opened.follow(None)
    yield opened
    opened.close()


def first_known(store: SqliteMetaStore) -> int:
    try:
        store.changes(b"", 1)
    except Compacted as error:
        return error.revision
    return 1


Writer = Callable[[SqliteMetaStore, int], object]
WRITERS: dict[str, Writer] = {
    "one key": lambda store, n: store.transact([], [Put(b"a", b"%d" % n)]),
    "seven keys": lambda store, n: store.transact(
        [], [Put(b"%d" % k, b"%d" % n) for k in range(7)]
    ),
    "long values": lambda store, _: store.transact([], [Put(b"a", bytes(900)), Put(b"b", b"")]),
    "put and deleted": lambda store, n: store.transact(
        [], [Put(b"a", b"") if n % 2 else Delete(b"a")]
    ),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=list(WRITERS))
def test_the_history_is_bounded_and_has_the_latest_whole_revisions(
    store: SqliteMetaStore, write: Writer
) -> None:
    everything: list[tuple[int, bytes]] = []
    for number in range(1, 300):
        write(store, number)
        last = store.changes(b"", number).events
        everything += [(each.revision, each.key) for each in last]

        first = first_known(store)
        kept = []
        revision, is_all = first, False
        while not is_all:
            events, revision, is_all = store.changes(b"", revision)
            kept += events
        sizes = [len(each.key) + len(each.entry.value if each.entry else b"") for each in kept]
        assert len(kept) <= 100
        assert sum(sizes) <= 10_000
        assert [(each.revision, each.key) for each in kept] == [
            each for each in everything if each[0] >= first
        ]
    assert first_known(store) > 1


def test_a_transaction_beyond_the_limits_is_not_kept_and_is_reported(
    store: SqliteMetaStore,
) -> None:
    store.transact([], [Put(b"a", b"1")])
    store.transact([], [Put(b"b", bytes(20_000))])

    with pytest.raises(Compacted) as raised:
        store.changes(b"", 2)

    assert raised.value.revision == 3
    store.transact([], [Put(b"c", b"3")])
    assert [each.key for each in store.changes(b"", 3).events] == [b"c"]


def test_a_watch_of_few_keys_advances_past_the_changes_of_others(store: SqliteMetaStore) -> None:
    store.transact([], [Put(b"mine", b"")])
    revision = store.changes(b"mine", 1).following
    for number in range(300):
        store.transact([], [Put(b"others", b"%d" % number)])
        events, revision, is_all = store.changes(b"mine", revision)
        assert (events, revision, is_all) == ([], number + 3, True)


def test_a_long_history_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_limits, "METADATA_EVENTS_PER_READ", 10)
    store = SharedSqliteMetaStore(tmp_path / "metadata.db")
    for number in range(30):
        store.transact([], [Put(b"%d" % key, b"%d" % number) for key in range(3)])

    revision, is_all, reads = 1, False, []
    while not is_all:
        events, revision, is_all = store.changes(b"", revision)
        reads.append([each.revision for each in events])

    assert list(chain(*reads)) == [number // 3 + 1 for number in range(90)]
    assert max(map(len, reads)) <= 12
    assert all(one[-1] < two[0] for one, two in pairwise(reads) if two)
    store.close()

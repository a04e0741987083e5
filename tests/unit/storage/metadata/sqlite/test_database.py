"""metadata.db: guarded transactions, revisions, and files that cannot be used."""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.model import limits
from broker.model.errors import DataDirError, DiskFull, StorageError
from broker.segments.text_files import PARTITION_METADATA
from broker.storage import metadata
from broker.storage.metadata import Absent, Delete, KeyValue, Put, Unchanged
from broker.storage.metadata.sqlite import SqliteMetaStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteMetaStore]:
    opened = SqliteMetaStore(tmp_path / "metadata.db")
    yield opened
    opened.close()


def test_a_stored_value_is_found_with_the_revision_of_its_change(store: SqliteMetaStore) -> None:
    first = store.transact([], [Put(b"topic/a", b"1"), Put(b"topic/b", b"1")])
    second = store.transact([], [Put(b"topic/a", b"2")])

    assert (first, second) == (1, 2)
    assert store.get(b"topic/a") == (b"topic/a", b"2", 1, 2)
    assert store.get(b"topic/b") == (b"topic/b", b"1", 1, 1)
    assert store.get(b"topic/c") is None


def test_scan_returns_the_keys_of_a_prefix_in_order(store: SqliteMetaStore) -> None:
    keys = [b"topic/b", b"topic/a", b"topicid/a", b"topic/\xc3\xa9", b"conf/topic/a"]
    store.transact([], [Put(key, b"") for key in keys])

    found, revision = store.scan(b"topic/")
    everything, _ = store.scan(b"")

    assert [one.key for one in found] == [b"topic/a", b"topic/b", b"topic/\xc3\xa9"]
    assert revision == 1
    assert [one.key for one in everything] == sorted(keys)


def test_a_deleted_key_is_absent_and_can_be_put_again(store: SqliteMetaStore) -> None:
    store.transact([], [Put(b"a", b"1")])
    store.transact([], [Delete(b"a")])
    assert store.get(b"a") is None

    store.transact([Absent(b"a")], [Put(b"a", b"2")])

    assert store.get(b"a") == (b"a", b"2", 3, 3)


def test_deleting_a_missing_key_changes_nothing_else(store: SqliteMetaStore) -> None:
    assert store.transact([], [Delete(b"a")]) == 1


@pytest.mark.parametrize(
    ("guard", "holds"),
    [
        (Absent(b"a"), False),
        (Absent(b"b"), True),
        (Unchanged(b"a", 2), True),
        (Unchanged(b"a", 1), False),
        (Unchanged(b"b", 0), False),
    ],
)
def test_a_transaction_is_applied_only_if_its_guard_holds(
    store: SqliteMetaStore, guard: metadata.Guard, holds: bool
) -> None:
    store.transact([], [Put(b"a", b"1")])
    store.transact([], [Put(b"a", b"2")])

    revision = store.transact([guard], [Put(b"z", b"")])

    assert revision == (3 if holds else None)
    assert (store.get(b"z") is not None) is holds


def test_one_failing_guard_prevents_every_operation(store: SqliteMetaStore) -> None:
    store.transact([], [Put(b"a", b"1")])

    assert store.transact([Absent(b"b"), Absent(b"a")], [Put(b"b", b""), Delete(b"a")]) is None

    assert store.get(b"a")
    assert store.get(b"b") is None
    assert store.scan(b"")[1] == 1


def test_a_failing_operation_rolls_back_the_whole_transaction(store: SqliteMetaStore) -> None:
    store._connection.execute(
        "CREATE TEMP TRIGGER full_disk BEFORE INSERT ON kv WHEN NEW.key = x'62'"
        " BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    )

    with pytest.raises(StorageError, match=r"cannot write .*metadata\.db: disk full"):
        store.transact([], [Put(b"a", b"1"), Put(b"b", b"1")])

    assert store.get(b"a") is None
    assert store.transact([], [Put(b"c", b"")]) == 1


def test_limits_are_those_of_the_cluster_store(store: SqliteMetaStore) -> None:
    too_many = [Put(b"%d" % n, b"") for n in range(limits.METADATA_OPS_PER_TRANSACTION_MAX + 1)]
    for operations in (
        too_many,
        [Put(b"k" * (limits.METADATA_KEY_BYTES_MAX + 1), b"")],
        [Put(b"k", b"v" * (limits.METADATA_VALUE_BYTES_MAX + 1))],
    ):
        with pytest.raises(ValueError, match="metadata"):
            store.transact([], operations)


def test_a_reopened_store_holds_the_same_values(tmp_path: Path) -> None:
    store = SqliteMetaStore(tmp_path / "metadata.db")
    store.transact([], [Put(b"a", b"1")])
    store.close()

    again = SqliteMetaStore(tmp_path / "metadata.db")

    assert again.get(b"a") == (b"a", b"1", 1, 1)
    assert again.transact([], [Put(b"a", b"2")]) == 2
    again.close()


def test_committed_changes_survive_a_kill(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys, pathlib\n"
        "from broker.storage.metadata import Put\n"
        "from broker.storage.metadata.sqlite import SqliteMetaStore\n"
        "store = SqliteMetaStore(pathlib.Path(sys.argv[1]))\n"
        "for n in range(20): store.transact([], [Put(b'n', b'%d' % n)])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = tmp_path / "metadata.db"

    ended = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    store = SqliteMetaStore(path)

    assert ended.returncode == -signal.SIGKILL
    assert store.get(b"n") == (b"n", b"19", 1, 20)
    store.close()


def test_no_file_is_mapped(tmp_path: Path) -> None:
    store = SqliteMetaStore(tmp_path / "metadata.db")
    store.transact([], [Put(b"a", b"1")])

    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
    store.close()


def test_changes_are_written_to_a_write_ahead_log(tmp_path: Path) -> None:
    store = SqliteMetaStore(tmp_path / "metadata.db")

    assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


@pytest.mark.parametrize("reopened", [False, True])
def test_synchronous_full_is_set_for_new_and_existing_files(tmp_path: Path, reopened: bool) -> None:
    if reopened:
        SqliteMetaStore(tmp_path / "metadata.db").close()

    store = SqliteMetaStore(tmp_path / "metadata.db")

    assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    store.close()


@pytest.mark.parametrize("damage", [b"", b"\x00" * 4096, b"not a database" * 500])
def test_a_damaged_file_is_refused_with_the_remedy(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "metadata.db"
    store = SqliteMetaStore(path)
    store.transact([], [Put(b"%d" % n, b"v" * 2000) for n in range(50)])
    store.close()
    content = path.read_bytes()
    path.write_bytes(damage + content[len(damage) :] if damage else content[:8192])

    with pytest.raises(DataDirError, match="restore"):
        SqliteMetaStore(path)


@pytest.mark.parametrize("is_there", [False, True])
def test_no_store_is_created_where_partitions_exist(tmp_path: Path, is_there: bool) -> None:
    path, folder = tmp_path / "metadata.db", tmp_path / "orders-0"
    folder.mkdir()
    (folder / PARTITION_METADATA).write_text("version: 0")
    if is_there:
        path.write_bytes(b"")

    with pytest.raises(DataDirError, match=r"1 partitions \(such as orders-0.*restore it"):
        SqliteMetaStore(path)

    assert path.exists() == is_there
    assert not is_there or path.read_bytes() == b""


def test_strays_deleted_folders_and_foreign_folders_need_no_store(tmp_path: Path) -> None:
    for name in ("orders-0.3-stray", "orders-0.abc-delete", "photos-7"):
        (tmp_path / name).mkdir()
    (tmp_path / "orders-0.3-stray" / PARTITION_METADATA).write_text("version: 0")

    SqliteMetaStore(tmp_path / "metadata.db").close()


def test_a_store_locked_by_another_program_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metadata.db"
    SqliteMetaStore(path).close()
    monkeypatch.setattr(limits, "METADATA_BUSY_SECONDS", 0)
    other = sqlite3.connect(path)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(DataDirError, match="another program has it open"):
        SqliteMetaStore(path)

    other.close()


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("disk I/O error", sqlite3.SQLITE_IOERR_READ, StorageError),
        ("database or disk is full", sqlite3.SQLITE_FULL, DiskFull),
    ],
)
def test_a_read_error_of_the_disk_is_not_reported_as_damage(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    code: int,
    expected: type[StorageError],
) -> None:
    path = tmp_path / "metadata.db"
    SqliteMetaStore(path).close()
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code

    def fail(_: SqliteMetaStore) -> None:
        raise error

    monkeypatch.setattr(SqliteMetaStore, "_prepare", fail)

    with pytest.raises(expected, match=rf"cannot read .*metadata\.db: {text}"):
        SqliteMetaStore(path)


def test_a_change_refused_by_the_disk_changes_nothing_and_the_next_one_succeeds(
    tmp_path: Path,
) -> None:
    path = tmp_path / "metadata.db"
    store = SqliteMetaStore(path)
    store.transact([], [Put(b"a", b"1")])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "metadata.db-wal").stat().st_size, hard))
    try:
        with pytest.raises(StorageError, match=r"cannot write .*metadata\.db: disk I/O error"):
            store.transact([], [Put(b"a", b"2")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert store.get(b"a") == KeyValue(b"a", b"1", 1, 1)
    assert store.transact([], [Put(b"a", b"3")]) == 2
    store.close()


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    SqliteMetaStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 3")
    connection.close()

    with pytest.raises(DataDirError, match="schema version 3, this broker knows 2"):
        SqliteMetaStore(path)


def test_a_database_of_another_program_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE songs (name TEXT)")
    connection.close()
    content = path.read_bytes()

    with pytest.raises(DataDirError, match="another program"):
        SqliteMetaStore(path)

    assert path.read_bytes() == content


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "metadata.db").mkdir()

    with pytest.raises(DataDirError):
        SqliteMetaStore(tmp_path / "metadata.db")


def test_a_creation_interrupted_by_a_crash_is_started_again(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    os.close(os.open(path, os.O_CREAT))

    store = SqliteMetaStore(path)

    assert store.transact([], [Put(b"a", b"")]) == 1
    store.close()


def test_leftover_files_of_an_interrupted_creation_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    for name in ("metadata.db.new", "metadata.db.new-journal", "metadata.db.new-wal"):
        (tmp_path / name).write_bytes(b"half of it")

    store = SqliteMetaStore(path)

    assert store.transact([], [Put(b"a", b"")]) == 1
    store.close()
    assert [file.name for file in tmp_path.iterdir()] == ["metadata.db"]


def test_a_new_store_does_not_apply_the_write_ahead_log_of_a_removed_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "metadata.db"
    removed = SqliteMetaStore(path)
    removed.transact([], [Put(b"a", b"")])
    wal = (tmp_path / "metadata.db-wal").read_bytes()
    removed.close()
    path.unlink()
    (tmp_path / "metadata.db-wal").write_bytes(wal)

    store = SqliteMetaStore(path)

    assert store.scan(b"") == ([], 0)
    store.close()


def test_keys_are_the_cluster_stores() -> None:
    topic_id = bytes(range(16))

    assert metadata.topic_key("orders") == b"topic/orders"
    assert metadata.topic_config_key("orders") == b"conf/topic/orders"
    assert metadata.broker_config_key("1") == metadata.BROKER_CONFIGS + b"1"
    assert metadata.topic_id_key(topic_id) == b"topicid/AAECAwQFBgcICQoLDA0ODw"

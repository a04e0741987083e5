"""What keeps a broker from joining a cluster at its start, each with a sentence that helps."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.core.cluster import records
from broker.model.config import load
from broker.model.errors import ConfigError, DataDirError, StorageError, Unreachable
from broker.server.cluster import offline, opening
from broker.server.cluster.opening import join_cluster, open_store
from broker.server.opening import open_metadata
from broker.storage.checkpoints import checkpoint, store_seen
from broker.storage.log_dir import LogDir
from broker.storage.metadata import Put, topic_key
from broker.storage.metadata.sqlite import SqliteMetaStore
from tests.support.certificates import Authority
from tests.support.etcd import Etcd

pytestmark = pytest.mark.etcd
SECONDS = 60


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """One member; each test has a prefix of its own."""
    running = Etcd(tmp_path_factory.mktemp("etcd"))
    yield running
    running.close()


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.storage.metadata.etcd.store.METADATA_CALL_SECONDS", 1)
    monkeypatch.setattr(opening, "METADATA_START_SECONDS", 1)


def join(etcd: Etcd, path: Path, prefix: str, *settings: str) -> str:
    """Let the broker of a directory join; return its cluster's id."""
    return asyncio.run(asyncio.wait_for(joining(etcd, path, prefix, *settings), SECONDS))


async def joining(etcd: Etcd, path: Path, prefix: str, *settings: str) -> str:
    store_name = f"etcd://{','.join(map(str, etcd.endpoints))}/{prefix}"
    config = load([f"polylog.metadata.store={store_name}", *settings])
    log_dir = LogDir(path, 1)
    address = config.metadata_address
    assert address is not None
    store, known = open_store(config, address)
    try:
        await join_cluster(known, log_dir, store_name)
        return log_dir.cluster_id
    finally:
        log_dir.close()
        await store.close()


def put(etcd: Etcd, prefix: str, key: bytes, value: bytes) -> None:
    async def scenario() -> None:
        store_name = f"etcd://{etcd.endpoints[0]}/{prefix}"
        address = load([f"polylog.metadata.store={store_name}"]).metadata_address
        assert address is not None
        store, _ = open_store(load(), address)
        assert await store.transact([], [Put(key, value)])
        await store.close()

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))


def add_partition(path: Path) -> None:
    (path / "a-0").mkdir()
    checkpoint.write_partition_metadata(path / "a-0", bytes(range(16)))


def test_the_first_broker_founds_the_cluster_and_others_join_it(etcd: Etcd, tmp_path: Path) -> None:
    founded = join(etcd, tmp_path / "1", "found")

    assert join(etcd, tmp_path / "2", "found") == founded
    assert join(etcd, tmp_path / "1", "found") == founded


def test_a_directory_with_partitions_founds_no_cluster(etcd: Etcd, tmp_path: Path) -> None:
    """Its partitions would be strays of it: the prefix is mistyped, or the store has lost all."""
    join(etcd, tmp_path, "known")
    add_partition(tmp_path)

    with pytest.raises(DataDirError, match=r"no cluster in .*/mistyped: name the store"):
        join(etcd, tmp_path, "mistyped")

    assert (tmp_path / "a-0").is_dir()
    join(etcd, tmp_path, "known")


def test_a_cluster_that_replaces_a_lost_one_has_another_id(etcd: Etcd, tmp_path: Path) -> None:
    """The first to start has no partition yet and founds it; the others keep their folders."""
    join(etcd, tmp_path / "1", "before")
    join(etcd, tmp_path / "2", "before")
    add_partition(tmp_path / "2")
    join(etcd, tmp_path / "1", "after")

    with pytest.raises(DataDirError, match=r"belongs to cluster .* is of cluster"):
        join(etcd, tmp_path / "2", "after")

    assert (tmp_path / "2" / "a-0").is_dir()


def test_a_directory_of_another_cluster_is_refused(etcd: Etcd, tmp_path: Path) -> None:
    join(etcd, tmp_path / "1", "one")
    join(etcd, tmp_path / "2", "other")
    add_partition(tmp_path / "1")

    with pytest.raises(DataDirError, match=r"belongs to cluster .* is of cluster"):
        join(etcd, tmp_path / "1", "other")


def test_a_store_that_is_older_than_what_the_directory_has_seen_is_refused(
    etcd: Etcd, tmp_path: Path
) -> None:
    """The revision of etcd has no way back in this test, so the directory has seen a later one."""
    join(etcd, tmp_path, "old")
    seen = store_seen.read(tmp_path)
    assert seen is not None
    newer = seen._replace(revision=seen.revision + 1_000_000)
    store_seen.write(tmp_path, newer)

    with pytest.raises(DataDirError, match=r"stop all brokers, restore .*bump-epochs"):
        join(etcd, tmp_path, "old")
    assert store_seen.read(tmp_path) == newer

    bump_epochs(etcd, "old")
    join(etcd, tmp_path, "old")
    after = store_seen.read(tmp_path)
    assert after is not None
    assert seen.revision < after.revision < newer.revision
    assert after.restores[:-1] == newer.restores == (records.NO_RESTORE,)

    etcd.delete(f"old/{records.RESTORE.decode()}")  # as a backup from before has it
    with pytest.raises(DataDirError, match="older than what"):
        join(etcd, tmp_path, "old")
    bump_epochs(etcd, "old")
    join(etcd, tmp_path, "old")


def test_a_store_that_lacks_a_change_is_refused_although_its_revision_is_higher(
    etcd: Etcd, tmp_path: Path
) -> None:
    """Leases of a restored store end, and each end increases its revision."""
    join(etcd, tmp_path, "changed")
    seen = store_seen.read(tmp_path)
    assert seen is not None
    assert seen.changed == 0
    store_seen.write(tmp_path, seen._replace(changed=seen.revision))
    etcd.put("another-program", b"")

    with pytest.raises(DataDirError, match="older than what"):
        join(etcd, tmp_path, "changed")
    etcd.put("changed/changed", records.changed_value())
    join(etcd, tmp_path, "changed")


def bump_epochs(etcd: Etcd, prefix: str) -> None:
    config = load([f"polylog.metadata.store=etcd://{etcd.endpoints[0]}/{prefix}"])
    offline.run(config, offline.bump_epochs)


def test_a_stop_remembers_the_revision_that_the_broker_has_seen(etcd: Etcd, tmp_path: Path) -> None:
    config = load([f"polylog.metadata.store=etcd://{etcd.endpoints[0]}/stop"])

    async def scenario() -> int:
        log_dir = LogDir(tmp_path, 1)
        opened = await open_metadata(config, log_dir)
        assert opened.cluster is not None
        try:
            known = opened.cluster.node.metadata
            etcd.put("stop/changed", records.changed_value())
            await known.load()
            assert known.image.changed_revision == known.image.revision
        finally:
            await opened.cluster.member.release()
            closing = opened.close()
            assert closing is not None
            await closing
            opened.io_thread.stop()
            log_dir.close()
        return opened.cluster.node.metadata.image.revision

    revision = asyncio.run(asyncio.wait_for(scenario(), SECONDS))

    seen = store_seen.read(tmp_path)
    assert seen is not None
    assert seen.revision == seen.changed == revision


def test_the_directory_of_a_standalone_broker_is_refused(etcd: Etcd, tmp_path: Path) -> None:
    SqliteMetaStore(tmp_path / "metadata.db").close()

    with pytest.raises(DataDirError, match="standalone broker"):
        join(etcd, tmp_path, "standalone")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (records.CLUSTER, b'{"version": 2, "cluster_id": "x"}'),
        (topic_key("a"), b'{"version": 2}'),
    ],
)
def test_a_newer_format_is_refused(etcd: Etcd, tmp_path: Path, key: bytes, value: bytes) -> None:
    put(etcd, f"newer-{key.decode()}", key, value)

    with pytest.raises(StorageError, match=r"version 2.*start a newer version of the broker"):
        join(etcd, tmp_path, f"newer-{key.decode()}")


def test_a_store_that_does_not_answer_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(opening, "METADATA_START_SECONDS", 2)
    stopped = Etcd(tmp_path / "etcd")
    stopped.kill(0)

    with pytest.raises(Unreachable, match=r"has not answered for 2 s .*: start it, or correct"):
        join(stopped, tmp_path / "1", "wait")
    assert "waiting for the metadata store" in caplog.text

    async def scenario() -> str:
        started = asyncio.ensure_future(joining(stopped, tmp_path / "1", "wait"))
        await asyncio.sleep(0)
        stopped.start(0)
        return await started

    monkeypatch.setattr(opening, "METADATA_START_SECONDS", SECONDS)
    assert asyncio.run(asyncio.wait_for(scenario(), SECONDS))
    stopped.close()


def test_a_user_that_etcd_refuses_is_told_which_settings_are_wrong(tmp_path: Path) -> None:
    etcd = Etcd(tmp_path / "etcd")
    password = tmp_path / "password"
    password.touch(0o600)
    as_user = ("polylog.metadata.user=root", f"polylog.metadata.password.file={password}")
    as_nobody = ("polylog.metadata.user=nobody", as_user[1])
    password.write_text("secret\n")
    with pytest.raises(ConfigError, match=r"not enabled.*check polylog\.metadata\.user"):
        join(etcd, tmp_path / "1", "users", *as_user)
    etcd.ask("auth/user/add", name="nobody", password="secret")
    etcd.enable_passwords()
    assert join(etcd, tmp_path / "1", "users", *as_user)
    for settings, reason in (((), "user name is empty"), (as_nobody, "permission denied")):
        with pytest.raises(ConfigError, match=rf"{reason}.*check polylog\.metadata\.user"):
            join(etcd, tmp_path / "1", "users", *settings)
    password.write_text("wrong")
    with pytest.raises(ConfigError, match=r"authentication failed.*check polylog"):
        join(etcd, tmp_path / "1", "users", *as_user)
    etcd.close()


def test_certificates_that_one_side_does_not_trust_are_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # a handshake may take longer than the short waits
    authority = Authority(tmp_path)
    server, client = authority.issue("server"), authority.issue("client")
    options = ["--cert-file", str(server.certificate), "--key-file", str(server.key)]
    options += ["--trusted-ca-file", str(authority.own.certificate), "--client-cert-auth"]
    tls = authority.client_context(authority.issue("member"))
    etcd = Etcd(tmp_path / "etcd", options=options, tls=tls)
    both = tmp_path / "client.pem"
    both.touch(0o600)
    both.write_text(client.certificate.read_text() + client.key.read_text())
    ours = f"polylog.metadata.tls.ca.file={authority.own.certificate}"
    foreign = Authority(tmp_path, "other").own.certificate
    own = f"polylog.metadata.tls.certificate.file={both}"

    assert join(etcd, tmp_path / "1", "tls", ours, own)
    for settings in ((f"polylog.metadata.tls.ca.file={foreign}", own), (ours,)):
        with pytest.raises(ConfigError, match=r"not trusted .*polylog\.metadata\.tls\.ca\.file"):
            join(etcd, tmp_path / "1", "tls", *settings)
    monkeypatch.setattr(opening, "METADATA_START_SECONDS", 0)
    with pytest.raises(Unreachable, match=r"correct its address or the polylog\.metadata\.tls"):
        join(etcd, tmp_path / "1", "tls")
    etcd.close()

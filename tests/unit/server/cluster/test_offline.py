"""`broker metadata`: a store that no broker uses is exported, imported and repaired."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cli import main
from broker.core.cluster import records
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import NO_LEADER, BrokerState, Registration, TopicRecord
from broker.model.config import load
from broker.model.errors import DataDirError
from broker.model.limits import LEADER_EPOCHS_BUMPED
from broker.server.cluster.opening import join_cluster, open_store
from broker.server.opening import open_metadata
from broker.server.workers.layout import share_directory
from broker.storage import metadata
from broker.storage.checkpoints import checkpoint, intact, store_seen
from broker.storage.log_dir import LogDir
from broker.storage.metadata import Put
from broker.storage.metadata.sqlite import SqliteMetaStore
from tests.support.etcd import Etcd

TOPIC_ID = bytes(range(16))
SECONDS = 60


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """One member; each test has a prefix of its own."""
    running = Etcd(tmp_path_factory.mktemp("etcd"))
    yield running
    running.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The data directory of a standalone broker with a topic."""
    path = tmp_path / "data"
    log_dir = LogDir(path, 1)
    store = SqliteMetaStore(path / "metadata.db")
    record = TopicRecord(TOPIC_ID, 2, (), {})
    store.transact([], [Put(metadata.topic_key("t"), records.topic_value(record))])
    store.transact([], [Put(b"node/1", b'{"version": 1, "unclean_starts": 4}')])
    store.close()
    (path / "t-0").mkdir()
    checkpoint.write_partition_metadata(path / "t-0", TOPIC_ID)
    log_dir.close()
    return path


def address(etcd: Etcd, prefix: str) -> str:
    return f"etcd://{etcd.endpoints[0]}/{prefix}"


def image_of(store_name: str) -> ClusterImage:
    async def scenario() -> ClusterImage:
        config = load([f"polylog.metadata.store={store_name}"])
        assert config.metadata_address is not None
        store, known = open_store(config, config.metadata_address)
        await known.load()
        await store.close()
        return known.image

    return asyncio.run(asyncio.wait_for(scenario(), SECONDS))


def put(store_name: str, key: bytes, value: bytes) -> None:
    async def scenario() -> None:
        config = load([f"polylog.metadata.store={store_name}"])
        assert config.metadata_address is not None
        store, _ = open_store(config, config.metadata_address)
        await store.transact([], [Put(key, value)])
        await store.close()

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))


def join(path: Path, store_name: str) -> None:
    async def scenario() -> None:
        config = load([f"polylog.metadata.store={store_name}"])
        assert config.metadata_address is not None
        store, known = open_store(config, config.metadata_address)
        log_dir = LogDir(path, 1)
        try:
            await join_cluster(known, log_dir, store_name)
        finally:
            log_dir.close()
            await store.close()

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))


def start_standalone(path: Path) -> None:
    async def scenario() -> None:
        log_dir = LogDir(path, 1)
        try:
            opened = await open_metadata(load([f"log.dirs={path}"]), log_dir)
            opened.close()
            opened.io_thread.stop()
        finally:
            log_dir.close()

    asyncio.run(asyncio.wait_for(scenario(), SECONDS))


def cluster_id(path: Path) -> str:
    log_dir = LogDir(path, 1)
    log_dir.close()
    return log_dir.cluster_id


@pytest.mark.etcd
def test_a_standalone_broker_becomes_the_first_of_a_cluster(
    etcd: Etcd, directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store_name, file = address(etcd, "moved"), tmp_path / "metadata.jsonl"
    of_store = ["--set", f"polylog.metadata.store={store_name}"]
    with pytest.raises(DataDirError, match="metadata of a standalone broker"):
        join(directory, store_name)
    command = ["metadata", "export", str(file), "--data-dir", str(directory)]

    assert main([*command, "--moved-to", store_name]) == 0
    with pytest.raises(DataDirError, match=f"has moved: start with --set .*{store_name}"):
        start_standalone(directory)
    assert main(["metadata", "import", str(file), *of_store]) == 0

    assert '"keys": 2' in capsys.readouterr().out
    join(directory, store_name)
    image = image_of(store_name)
    state = image.state(TOPIC_ID, 1)
    assert state is not None
    assert (state.leader, state.leader_epoch, state.replicas) == (NO_LEADER, 4, (1,))
    assert main(["metadata", "import", str(file), *of_store]) == 2
    assert "keys: import into an empty one" in capsys.readouterr().err


@pytest.mark.etcd
def test_a_cluster_is_restored_from_its_export(
    etcd: Etcd, directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, moved = (address(etcd, each) for each in ("first", "second", "third"))
    one, other = tmp_path / "one", tmp_path / "other"
    main(["metadata", "export", str(one), "--data-dir", str(directory)])
    main(["metadata", "import", str(one), "--set", f"polylog.metadata.store={first}"])
    command = ["--set", f"polylog.metadata.store={first}"]

    assert main(["metadata", "export", str(other), *command, "--moved-to", moved]) == 0
    restored = ["metadata", "import", str(other), "--set", f"polylog.metadata.store={second}"]
    assert main(restored) == 0

    assert image_of(second).cluster_id == image_of(first).cluster_id
    assert image_of(second).state(TOPIC_ID, 0) == image_of(first).state(TOPIC_ID, 0)
    with pytest.raises(DataDirError, match=f"{first} has moved to {moved}"):
        join(tmp_path / "new", first)
    capsys.readouterr()
    into_sqlite = ["metadata", "import", str(other), "--data-dir", str(tmp_path / "new")]
    assert main(into_sqlite) == 2
    assert "metadata is of a cluster, and this is a standalone" in capsys.readouterr().err


@pytest.mark.etcd
def test_directories_follow_the_metadata_into_a_store_with_lower_revisions(
    etcd: Etcd, directory: Path, tmp_path: Path
) -> None:
    first, second = address(etcd, "higher"), address(etcd, "lower")
    one, other = tmp_path / "one", tmp_path / "other"
    main(["metadata", "export", str(one), "--data-dir", str(directory), "--moved-to", first])
    main(["metadata", "import", str(one), "--set", f"polylog.metadata.store={first}"])
    join(directory, first)
    seen = store_seen.read(directory)
    assert seen is not None
    store_seen.write(directory, seen._replace(revision=seen.revision + 1_000_000))

    main(["metadata", "export", str(other), "--set", f"polylog.metadata.store={first}"])
    main(["metadata", "import", str(other), "--set", f"polylog.metadata.store={second}"])

    join(directory, second)
    with pytest.raises(DataDirError, match="older than what"):
        join(directory, first)


@pytest.mark.etcd
def test_an_intact_directory_is_older_than_the_store_into_which_its_metadata_moves(
    etcd: Etcd, directory: Path, tmp_path: Path
) -> None:
    store_name, file = address(etcd, "imported"), tmp_path / "file"
    main(["metadata", "export", str(file), "--data-dir", str(directory), "--moved-to", store_name])
    main(["metadata", "import", str(file), "--set", f"polylog.metadata.store={store_name}"])
    intact.write(directory, 4711)

    assert intact_since(directory, store_name) == intact.BEFORE_ALL
    assert main(["metadata", "bump-epochs", "--set", f"polylog.metadata.store={store_name}"]) == 0
    assert intact_since(directory, store_name) == intact.BEFORE_ALL


def intact_since(directory: Path, store_name: str) -> int:
    """Return what a broker that starts with a directory registers of it."""

    async def scenario() -> int:
        log_dir = LogDir(directory, 1)
        try:
            opened = await open_metadata(load([f"polylog.metadata.store={store_name}"]), log_dir)
            assert opened.cluster is not None
            assert opened.cluster._directory is not None
            await opened.cluster.node.store.close()
            return opened.cluster._directory.intact.since
        finally:
            log_dir.close()

    return asyncio.run(scenario())


def test_a_standalone_store_is_restored_from_its_export(directory: Path, tmp_path: Path) -> None:
    file, again = tmp_path / "metadata.jsonl", tmp_path / "again"
    main(["metadata", "export", str(file), "--data-dir", str(directory)])

    assert main(["metadata", "import", str(file), "--data-dir", str(again)]) == 0

    start_standalone(again)
    stores = [SqliteMetaStore(path / "metadata.db") for path in (directory, again)]
    one, other = ([each[:2] for each in store.scan(b"")[0]] for store in stores)
    assert one == other
    for store in stores:
        store.close()
    assert cluster_id(directory) == cluster_id(again)


@pytest.mark.etcd
def test_leader_epochs_and_producer_ids_of_a_restored_store_are_raised(
    etcd: Etcd, directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store_name, file = address(etcd, "old"), tmp_path / "metadata.jsonl"
    of_store = ["--set", f"polylog.metadata.store={store_name}"]
    main(["metadata", "export", str(file), "--data-dir", str(directory)])
    main(["metadata", "import", str(file), *of_store])

    before = next_producer_id(etcd, "old")
    assert main(["metadata", "bump-epochs", "--dry-run", *of_store]) == 0
    assert next_producer_id(etcd, "old") == before
    capsys.readouterr()

    assert main(["metadata", "bump-epochs", *of_store]) == 0

    # An id that is assigned again would have batches of another producer: they count as repeated.
    assert next_producer_id(etcd, "old") == before + (1 << 40)
    assert json.loads(capsys.readouterr().out) == {"partitions": 2, "is_dry_run": False}
    states = [image_of(store_name).state(TOPIC_ID, number) for number in range(2)]
    assert [state and state.leader_epoch for state in states] == [1_000_004] * 2
    assert main(["metadata", "bump-epochs", "--data-dir", str(directory)]) == 2


def next_producer_id(etcd: Etcd, prefix: str) -> int:
    found = etcd.entries(f"{prefix}/pid_block")
    return sum(json.loads(each)["next_producer_id"] for each in found.values())


@pytest.mark.etcd
@pytest.mark.parametrize("command", [["export", "FILE"], ["import", "FILE"], ["bump-epochs"]])
def test_nothing_is_done_while_a_broker_runs(
    etcd: Etcd,
    directory: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
) -> None:
    store_name, file = address(etcd, f"runs-{command[0]}"), tmp_path / "metadata.jsonl"
    value = records.registration_value(Registration("i", (), None, "h", BrokerState.RUNNING))
    put(store_name, records.broker_key(7), value)
    if command[0] == "import":
        main(["metadata", "export", str(file), "--data-dir", str(directory)])
    words = [str(file) if each == "FILE" else each for each in command]

    assert main(["metadata", *words, "--set", f"polylog.metadata.store={store_name}"]) == 2

    assert "run (7): stop them first" in capsys.readouterr().err
    holder = LogDir(directory, 1)
    capsys.readouterr()
    assert main(["metadata", *words, "--data-dir", str(directory)]) == 73
    assert "is in use by a broker" in capsys.readouterr().err
    holder.close()


@pytest.mark.parametrize("command", ["export", "bump-epochs"])
def test_a_directory_without_metadata_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    words = [command, str(tmp_path / "file")] if command == "export" else [command]

    assert main(["metadata", *words, "--data-dir", str(tmp_path / "none")]) == 73

    assert "name the broker's --data-dir" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_export_never_overwrites_a_file(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "there"
    file.write_text("kept")

    assert main(["metadata", "export", str(file), "--data-dir", str(directory)]) == 2

    assert "exists: name a new file" in capsys.readouterr().err
    assert file.read_text() == "kept"


@pytest.fixture
def workers_directory(directory: Path) -> Path:
    """The same directory, shared by two workers that do not run."""
    assert share_directory(directory, [1, 2]) == 0
    return directory


def test_leader_epochs_of_workers_are_raised(
    workers_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log with an epoch above that of the store names this command."""
    assert main(["metadata", "bump-epochs", "--data-dir", str(workers_directory)]) == 0

    assert json.loads(capsys.readouterr().out)["partitions"] == 2
    store = SqliteMetaStore(workers_directory / "metadata.db")
    entry = store.get(records.partition_key(TOPIC_ID, 1))
    store.close()
    assert entry is not None
    assert records.parse_partition(entry).leader_epoch == 5 + LEADER_EPOCHS_BUMPED


def test_the_metadata_of_workers_becomes_that_of_one_broker_before_it_moves(
    workers_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "metadata.jsonl"
    command = ["metadata", "export", str(file), "--data-dir", str(workers_directory)]

    assert main([*command, "--moved-to", "etcd://127.0.0.1:1/p"]) == 2
    assert "start it with --workers 1" in capsys.readouterr().err
    assert not file.exists()

    start_standalone(workers_directory)
    assert main([*command, "--moved-to", "etcd://127.0.0.1:1/p"]) == 0

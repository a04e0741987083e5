"""Damaged files in the data directory, while the broker is stopped or while it runs.

All partitions of a topic hold the same; each is damaged differently, and must return the same
responses as before.
"""

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.faults.disk_load import TRANSACTIONAL, init_transaction
from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.wire_client import ConnectionClosedError, WireClient
from tests.support.wire_records import TIMESTAMP, Batch, read_batches

TOPIC, OTHER, FLAT = "damaged", "other", "flat"
BATCHES = 30
VALUE_BYTES = 3_000
STEP_MS = 10
STORAGE_ERROR = 56
SETTINGS = (
    "log.retention.ms=-1",
    "log.retention.check.interval.ms=86400000",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "group.initial.rebalance.delay.ms=0",
)
SEGMENT = {"segment_bytes": "24000"}
Damage = Callable[[Path], None]


def each(suffix: str, change: Callable[[bytes], bytes]) -> Damage:
    """Change the content of all files of a kind."""

    def damage(folder: Path) -> None:
        files = sorted(folder.glob(f"*{suffix}"))
        assert files, f"there is no {suffix}"
        for file in files:
            file.write_bytes(change(file.read_bytes()))

    return damage


def without(suffix: str) -> Damage:
    """Remove all files of a kind."""

    def damage(folder: Path) -> None:
        files = sorted(folder.glob(f"*{suffix}"))
        assert files, f"there is no {suffix}"
        for file in files:
            file.unlink()

    return damage


def flipped(seed: int) -> Callable[[bytes], bytes]:
    """Return a function that flips one bit, a different one in each file."""
    bits = random.Random(seed)

    def flip(data: bytes) -> bytes:
        bit = bits.randrange(len(data) * 8)
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        return bytes(changed)

    return flip


def half(size: int) -> Callable[[bytes], bytes]:
    """Return a function that keeps the first half of the entries of a size."""
    return lambda data: data[: len(data) // size // 2 * size]


def first_version(data: bytes) -> bytes:
    """Return transactions of which the first has another format version."""
    return b"\xff" + data[1:]


DAMAGES: dict[str, Damage] = {
    "none": lambda _: None,
    "no .index": without(".index"),
    "no .timeindex": without(".timeindex"),
    "half an .index": each(".index", half(8)),
    "half a .timeindex": each(".timeindex", half(12)),
    "a torn .index": each(".index", lambda data: data[:-3]),
    "a torn .timeindex": each(".timeindex", lambda data: data[:-3]),
    "zeros for an .index": each(".index", lambda data: bytes(len(data))),
    "a torn .txnindex": each(".txnindex", lambda data: data[:-5]),
    "another .txnindex": each(".txnindex", first_version),
    "another .snapshot": each(".snapshot", lambda data: b"\x00\x07" + data[2:]),
    "no .snapshot": without(".snapshot"),
    "another leader-epoch-checkpoint": each("leader-epoch-checkpoint", lambda _: b"0\n9\n?\n"),
    "another partition.metadata": each("partition.metadata", lambda _: b"\x00\xff nothing"),
    "no partition.metadata": without("partition.metadata"),
    "a foreign file": lambda folder: (folder / "notes.txt").write_text("mine") and None,
    "a foreign folder": lambda folder: (folder / "photos").mkdir(),
} | {
    f"a bit of an .{kind}, {seed}": each(f".{kind}", flipped(seed))
    for kind in ("index", "timeindex")
    for seed in range(4)
}
# Damage that can be done under a running broker.
LIVE = [name for name in DAMAGES if "index" in name and "txn" not in name]


def fill(client: WireClient, topic: str, partition: int) -> None:
    """Write batches with increasing timestamps, three of them in aborted transactions."""
    for number in range(BATCHES):
        fields: dict[str, Any] = {"timestamp": TIMESTAMP + number * STEP_MS}
        value = f"{number} ".encode().ljust(VALUE_BYTES, b"x")
        if number % 9 == 5:
            abort(client, topic, partition, value, fields)
        else:
            batch = Batch((value,), **fields)
            assert wire_requests.produce(client, topic, batch.encode(), partition)[0] == 0


def abort(
    client: WireClient, topic: str, partition: int, value: bytes, fields: dict[str, Any]
) -> None:
    """Write a batch in an aborted transaction."""
    producer_id, epoch = transactional(client, topic)
    added = client.request(
        "AddPartitionsToTxn",
        3,
        {
            "v3_and_below_transactional_id": topic,
            "v3_and_below_producer_id": producer_id,
            "v3_and_below_producer_epoch": epoch,
            "v3_and_below_topics": [{"name": topic, "partitions": [partition]}],
        },
    )
    [result] = added["results_by_topic_v3_and_below"][0]["results_by_partition"]
    assert result["partition_error_code"] == 0
    fields |= {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": 0}
    batch = Batch((value,), attributes=TRANSACTIONAL, **fields)
    body = wire_requests.produce_body(topic, [(partition, batch.encode())])
    answer = client.request("Produce", 9, {**body, "transactional_id": topic})
    assert wire_requests.produced(answer)[0] == 0
    end = {"transactional_id": topic, "producer_id": producer_id, "producer_epoch": epoch}
    assert client.request("EndTxn", 3, {**end, "committed": False})["error_code"] == 0


def transactional(client: WireClient, name: str) -> tuple[int, int]:
    """Return the id and epoch of a transactional producer, once it can be initialised."""
    found: list[tuple[int, int]] = []

    def begins() -> bool:
        producer = init_transaction(client, name)
        found.extend([producer] if producer else [])
        return producer is not None

    wait_until(begins, "a transaction may begin")
    return found[-1]


def answers(client: WireClient, topic: str, partition: int) -> list[Any]:
    """Return a partition's responses for every offset and every timestamp."""
    end = wire_requests.list_offset(client, topic, partition, -1)["offset"]
    found: list[Any] = [end]
    for offset in range(end):
        for size in (100, 200_000):
            body = wire_requests.fetch_body(topic, partition, offset, size)
            answer = client.request("Fetch", 11, {**body, "isolation_level": 1})
            part = answer["responses"][0]["partitions"][0]
            batches = [(each.base_offset, each.values) for each in read_batches(part["records"])]
            aborted = [each["first_offset"] for each in part["aborted_transactions"]]
            found.append((offset, part["error_code"], batches, aborted))
    for number in range(-1, BATCHES + 1):
        time = TIMESTAMP + number * STEP_MS
        answer = wire_requests.list_offset(client, topic, partition, time - 1)
        found.append((time, answer["error_code"], answer["offset"], answer["timestamp"]))
    return found


def are_loaded(client: WireClient, topic: str, partitions: int) -> bool:
    return wire_requests.is_led(client, topic, partitions)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """A stopped broker's data directory whose partitions all answer alike, and their responses."""
    settings = (*SETTINGS, "polylog.durability=os")
    broker = BrokerProcess(tmp_path_factory.mktemp("filled"), settings=settings)
    broker.start()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, TOPIC, len(DAMAGES), **SEGMENT)
        wire_requests.create_topic(client, OTHER)
        wire_requests.create_topic(client, FLAT)
        wire_requests.find_coordinator(client, TOPIC)
        for partition in range(len(DAMAGES)):
            fill(client, TOPIC, partition)
        before = answers(client, TOPIC, 0)
        assert answers(client, TOPIC, len(DAMAGES) - 1) == before
    assert broker.stop() == 0
    return broker.data_dir, before


@pytest.fixture
def stopped(
    filled: tuple[Path, list[Any]], tmp_path: Path
) -> Iterator[tuple[BrokerProcess, list[Any]]]:
    """A stopped broker on a copy of those files."""
    broker = BrokerProcess(tmp_path, settings=SETTINGS)
    shutil.copytree(filled[0], broker.data_dir)
    yield broker, filled[1]
    if broker.is_running:
        broker.kill()


def logs_of(broker: BrokerProcess) -> dict[Path, bytes]:
    """Return the content of all segments."""
    return {file: file.read_bytes() for file in broker.data_dir.glob(f"{TOPIC}-*/*.log")}


@contextmanager
def loaded(broker: BrokerProcess) -> Iterator[WireClient]:
    """A client of a broker that has loaded every partition."""
    with WireClient(broker.address) as client:
        wait_until(lambda: are_loaded(client, TOPIC, len(DAMAGES)), "all is loaded")
        yield client


def check_answers(client: WireClient, before: list[Any], names: list[str]) -> None:
    """Fail unless the partitions with these damages answer as before."""
    wrong = {}
    for partition, name in enumerate(DAMAGES):
        if name in names:
            now = answers(client, TOPIC, partition)
            if now != before:
                changed = [pair for pair in zip(before, now, strict=False) if pair[0] != pair[1]]
                wrong[name] = str(changed[:1])[:300]
    assert wrong == {}
    assert wire_requests.produce(client, OTHER, Batch().encode())[0] == 0


def test_responses_are_the_same_after_any_file_was_damaged_while_the_broker_was_stopped(
    stopped: tuple[BrokerProcess, list[Any]],
) -> None:
    broker, before = stopped
    logs = logs_of(broker)
    for partition, damage in enumerate(DAMAGES.values()):
        damage(broker.data_dir / f"{TOPIC}-{partition}")
    (broker.data_dir / "notes.txt").write_text("mine")
    (broker.data_dir / "photos").mkdir()
    (broker.data_dir / "lost-and-found-7").write_text("a file with the name of a partition")
    shutil.rmtree(broker.data_dir / f"{FLAT}-0")
    (broker.data_dir / f"{FLAT}-0").write_text("a file where a folder should be")

    for _ in range(2):  # the rebuilt files are correct, too
        broker.start()
        with loaded(broker) as client:
            check_answers(client, before, list(DAMAGES))
            assert wire_requests.produce(client, FLAT, Batch().encode())[0] == STORAGE_ERROR
        assert broker.stop() == 0

    assert logs_of(broker) == logs
    assert (broker.data_dir / "notes.txt").read_text() == "mine"
    assert (broker.data_dir / "photos").is_dir()
    assert (broker.data_dir / f"{FLAT}-0").is_file()


def test_index_files_damaged_under_a_running_broker_are_rebuilt(
    stopped: tuple[BrokerProcess, list[Any]],
) -> None:
    broker, before = stopped
    broker.start()
    with loaded(broker) as client:
        for partition, (name, damage) in enumerate(DAMAGES.items()):
            if name in LIVE:
                damage(broker.data_dir / f"{TOPIC}-{partition}")
        check_answers(client, before, LIVE)
    assert broker.stop() == 0


def test_damaged_checkpoints_are_rebuilt(stopped: tuple[BrokerProcess, list[Any]]) -> None:
    broker, before = stopped
    damages = (b"", b"0\n1\nx\n", b"\x00\xff" * 100)
    for file, damage in zip(broker.data_dir.glob("*-checkpoint"), damages, strict=False):
        file.write_bytes(damage)

    broker.start()

    with loaded(broker) as client:
        check_answers(client, before, ["none"])


def test_a_start_that_cannot_read_a_checkpoint_names_it(
    stopped: tuple[BrokerProcess, list[Any]],
) -> None:
    broker, _ = stopped
    file = broker.data_dir / "recovery-point-offset-checkpoint"
    file.unlink(missing_ok=True)
    file.mkdir()

    broker.launch()

    assert broker.wait() in (73, 74)
    assert str(file) in broker.stderr().splitlines()[-1]


def test_a_segment_truncated_under_a_running_broker_affects_only_its_partition(
    stopped: tuple[BrokerProcess, list[Any]],
) -> None:
    broker, before = stopped
    broker.start()
    with loaded(broker) as client:
        for file in (broker.data_dir / f"{TOPIC}-0").glob("*.log"):
            file.write_bytes(b"")
    for offset, size in ((0, 100), (0, 200_000), (20, 200_000), (32, 100)):
        with WireClient(broker.address) as client:
            body = wire_requests.fetch_body(TOPIC, 0, offset, size)
            try:
                answer = client.request("Fetch", 11, body)["responses"][0]["partitions"][0]
            except ConnectionClosedError:
                continue  # the response had begun; the next one has the error
            assert answer["error_code"] in (0, STORAGE_ERROR)
            assert answer["error_code"] or not any(read_batches(answer["records"] or b""))

    with WireClient(broker.address) as client:
        check_answers(client, before, ["no .index"])  # none of which is damaged here
        assert wire_requests.produce(client, TOPIC, Batch().encode())[0] == STORAGE_ERROR


def test_no_file_of_the_data_directory_is_mapped(
    stopped: tuple[BrokerProcess, list[Any]],
) -> None:
    broker, before = stopped
    broker.start()
    with loaded(broker) as client:
        check_answers(client, before, ["none"])
        wire_requests.create_topic(client, "quick", polylog_durability="os")
        fill(client, "quick", 0)

        maps = Path(f"/proc/{broker.process.pid}/maps").read_text()

    # A failing disk under a mapping, or a truncated mapped file, would end the process.
    assert str(broker.data_dir) not in maps

"""kill -9 under the load of every protocol at once, repeatedly.

Meanwhile segments roll, retention and compaction delete records, topics are created and deleted,
groups commit and transactions end. The requests and responses of the clients are a history outside
the broker, which the checker of tests/histories judges: no acknowledged record is lost, none is
stored more often than its sender allows, transactions are atomic and committed offsets stay. The
page cache outlives the process, so this proves recovery and acknowledgements for both durability
values; power cuts are tested in tests/crash_states.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.compatibility.committed import committed
from tests.compatibility.faults.loads.cursus import (
    AgainBatches,
    AgainTexts,
    OnceBatches,
    OnceTexts,
)
from tests.compatibility.faults.loads.cursus import Reader as CursusReader
from tests.compatibility.faults.loads.kafka import (
    RETRIABLE,
    CommitWorker,
    EndsWorker,
    ProducerWorker,
    TopicWorker,
)
from tests.compatibility.faults.loads.load import Worker, kill_again_and_again, name_of, value_of
from tests.compatibility.faults.loads.sent_once import WRITERS, LineProducer, OnceWorker
from tests.compatibility.faults.loads.transactions import (
    PARTITIONS,
    Copier,
    Reader,
    Writer,
    original,
)
from tests.compatibility.protocol_clients import PROTOCOL_CLIENTS
from tests.histories.checker import check
from tests.histories.history import Recorder
from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.cursus_client import CursusClient
from tests.support.wire_client import WireClient

SETTINGS = (
    "log.segment.bytes=262144",  # segments roll under load too
    "log.retention.check.interval.ms=200",
    "log.retention.ms=-1",  # records are years old
    "log.cleaner.backoff.ms=200",
    "log.segment.delete.delay.ms=0",
)
# The cleanup policy, the number of partitions, and the topic's own settings.
TOPICS: dict[str, tuple[str, int, dict[str, str]]] = {
    "mixed": ("none", 1, {}),  # producers of every protocol write to one log
    "lines": ("none", 3, {}),
    "wire": ("none", 2, {}),
    "written": ("none", PARTITIONS, {}),
    "copied": ("none", PARTITIONS, {}),
    "short": ("delete", 1, {"retention_bytes": "65536", "segment_bytes": "16384"}),
    "keyed": (
        "compact",
        1,
        {
            "cleanup_policy": "compact",
            "segment_bytes": "16384",
            "min_cleanable_dirty_ratio": "0.01",
        },
    ),
}
CURSUS_TOPICS = {"plain": "false", "checked": "true"}  # whether they are idempotent
GROUP = "readers"
KEYS = 40


@pytest.mark.slow("kills and restarts a broker under load, --kill-cycles times")
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("durability", "protocol"), [("os", "consumer"), ("group-commit", "classic")]
)
def test_kill_9_under_every_load_keeps_everything_acknowledged(
    start_broker: Callable[..., BrokerProcess],
    tmp_path: Path,
    durability: str,
    protocol: str,
    choices: Random,
    request: pytest.FixtureRequest,
) -> None:
    cycles: int = request.config.getoption("--kill-cycles")
    broker = start_broker(f"polylog.durability={durability}", *SETTINGS)
    with Recorder(tmp_path / "history.jsonl") as history:
        make_topics(broker, history, durability)
        writers = [Writer(f"writer-{n}", broker.address, history, "written") for n in (1, 2)]
        others = workers_of(broker.address, history, protocol)
        for worker in (*writers, *others):
            worker.start()
        kill_again_and_again(
            broker, history, [*writers, *others], choices, cycles, lambda: look(broker, history)
        )
        stop(writers, others)
        read_everything(broker, history)
        findings = check(history.read())
        done = Counter((each.f, each.type) for each in history.read())

    print(f"{cycles} kills, {durability}: {dict(done)}")
    assert findings == []
    for f in ("send", "poll", "commit", "end", "create", "delete", "list_topics", "list_offsets"):
        assert done[f, "ok"] > 0, f"nobody was answered to {f}"


def make_topics(broker: BrokerProcess, history: Recorder, durability: str) -> None:
    """Create the topics that are never deleted."""
    with WireClient(broker.address) as client, CursusClient(broker.address) as cursus:
        for topic, (cleanup, partitions, configs) in TOPICS.items():
            wire_requests.create_topic(client, topic, partitions, **configs)
            what = {"topic": topic, "cleanup": cleanup, "durability": durability}
            history.write("admin", "create", "ok", **what)
        for topic, is_idempotent in CURSUS_TOPICS.items():
            answer = cursus.ask(f"CREATE topic={topic} partitions=2 idempotent={is_idempotent}")
            assert answer.startswith("OK "), answer
            history.write("admin", "create", "ok", topic=topic, durability=durability)


def workers_of(address: str, history: Recorder, protocol: str) -> list[Worker]:
    """Return all workers except the transactional writers."""
    at = (address, history)

    def produces(name: str, topic: str, partition: int = 0, keys: int = 0) -> Worker:
        place, is_idempotent = (topic, partition), name.startswith("again")
        return ProducerWorker(name, *at, place, idempotent=is_idempotent, keys=keys)

    return [
        # Idempotent and plain batches are written to one log.
        produces("again-wire", "wire"),
        produces("plain-wire", "wire"),
        produces("plain-alone", "wire", 1),
        produces("again-mixed", "mixed"),
        produces("again-short", "short"),
        produces("again-keyed", "keyed", keys=KEYS),
        *(OnceWorker(name, *at, "mixed") for name in WRITERS),
        LineProducer("line", *at, "lines", in_flight=1, acks="all"),
        LineProducer("lines", *at, "lines", in_flight=8, acks="1"),
        OnceBatches("once-batches", *at, "plain"),
        OnceTexts("once-texts", *at, "plain"),
        AgainBatches("again-batches", *at, "checked"),
        AgainTexts("again-texts", *at, "checked"),
        *(CursusReader(f"cursus-reader-{n}", *at, "plain") for n in (1, 2)),
        *(Copier(f"copier-{n}", *at, protocol, ("written", "copied")) for n in (1, 2)),
        *(Reader(f"reader-{n}", *at, protocol, (GROUP, "written")) for n in (1, 2)),
        CommitWorker("committer", *at, "committed", "wire"),
        TopicWorker("topics", *at),
        EndsWorker("ends", *at, [("short", 0), ("mixed", 0), ("written", 0), ("keyed", 0)]),
    ]


def look(broker: BrokerProcess, history: Recorder) -> None:
    """Fetch committed offsets and a producer id from a broker that has just started."""
    with WireClient(broker.address) as client:
        number, _ = wire_requests.init_producer_id(client)
        history.write("look", "init_producer", "ok", producer_id=number)
        for partition in range(PARTITIONS):
            what = {"group": GROUP, "topic": "written", "partition": partition}
            history.write("look", "fetch_committed", "invoke", **what)
            offset = committed_offset(client, partition)
            history.write("look", "fetch_committed", "ok", **what, offset=offset)


def committed_offset(client: WireClient, partition: int) -> int:
    """Return the readers' offset, as soon as their group is loaded."""
    answers: list[tuple[int, int]] = []

    def has_loaded() -> bool:
        answers.append(wire_requests.committed_offset(client, GROUP, "written", partition))
        return answers[-1][0] not in RETRIABLE

    wait_until(has_loaded, "the group has loaded")
    code, offset = answers[-1]
    assert code == 0, f"offset fetch got error {code}"
    return offset


def stop(writers: list[Writer], others: list[Worker]) -> None:
    """Stop all workers; the copiers when everything is copied."""
    copiers = [each for each in others if isinstance(each, Copier)]
    rest: list[Worker] = [*writers, *(each for each in others if not isinstance(each, Copier))]
    for worker in rest:
        worker.ask_to_stop()
    for worker in rest:
        worker.stop()
    address = copiers[0].address
    written = values(address, "written")
    wait_until(
        lambda: (
            sum(map(len, values(address, "copied").values())) >= sum(map(len, written.values()))
        ),
        "everything is copied",
    )
    for copier in copiers:
        copier.stop()
    copies = values(address, "copied")
    assert {
        partition: [name.split(",")[2] for name in of_partition]
        for partition, of_partition in copies.items()
    } == {
        partition: [original(name) for name in of_partition]
        for partition, of_partition in written.items()
    }, "copied once each, in order"


def values(address: str, topic: str) -> dict[int, list[str]]:
    """Return the names of the committed records of each partition."""
    found: dict[int, list[str]] = {}
    for message in committed(address, topic, at_least=0, partitions=PARTITIONS):
        found.setdefault(message.partition() or 0, []).append(name_of(message.value()) or "")
    return found


def read_everything(broker: BrokerProcess, history: Recorder) -> None:
    """Read every log from beginning to end; one of them through every protocol."""
    partitions = {topic: count for topic, (_, count, _) in TOPICS.items()}
    for topic, count in (partitions | dict.fromkeys(CURSUS_TOPICS, 2)).items():
        logs: dict[int, list[list[int | str | None]]] = {each: [] for each in range(count)}
        for message in committed(broker.address, topic, at_least=0, partitions=count):
            key = message.key()
            logs[message.partition() or 0].append(
                [message.offset() or 0, name_of(message.value()), key.decode() if key else None]
            )
        for partition, records in logs.items():
            is_trimmed = topic == "short" and records
            where = {"topic": topic, "partition": partition}
            start = records[0][0] if is_trimmed else 0
            history.write("reader of all", "assign", "ok", **where, position=start)
            history.write("reader of all", "poll", "ok", **where, records=records, end=True)
    read_through_every_protocol(broker.address, history)


def read_through_every_protocol(address: str, history: Recorder) -> None:
    """Read the log that all protocols write to, as each of them reads it."""
    clients = {name: connect(address) for name, connect in PROTOCOL_CLIENTS.items()}
    where = {"topic": "mixed", "partition": 0}
    last = {"values": ["mixed,0,last,0"], "delivery": "once"}
    history.write("last", "send", "invoke", **where, **last)
    [offset] = clients["V1"].write("mixed", [value_of("mixed,0,last,0")])
    history.write("last", "send", "ok", **where, **last, offset=offset)
    for name, client in clients.items():
        records = [[each, name_of(value)] for each, value in client.read("mixed", offset).items()]
        history.write(name, "assign", "ok", **where, position=0)
        history.write(name, "poll", "ok", **where, records=records, end=True)
        client.close()

"""The native log through the same interface as the fake one: it implements `core.logs.log.Log`."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker._native.log.turn import Turn
from broker.core.cluster.records import TopicRecord, topic_value
from broker.core.topics.rules import NewPartitions
from broker.model.topic_config import TopicConfig
from broker.storage import metadata
from broker.storage.files.deletion import DeletedFolders
from broker.storage.metadata.sqlite import SqliteMetaStore
from broker.storage.recovery.epochs import Epochs, UncleanStarts
from broker.storage.recovery.partitions import Partitions
from tests.support.batches import batch_of, records_of
from tests.support.fakes import NOW_MS, FakeBroker, only


def records(count: int = 1, **more: Any) -> bytes:
    each: list[Any] = [(None, b"value", [])] * count
    return batch_of(each, NOW_MS, **more)


class NativeBroker(FakeBroker):
    """A world whose logs are real; turns are ended by hand."""

    def __init__(
        self, path: Path, epochs: Epochs | None = None, node_id: int = 1, **more: Any
    ) -> None:
        self.commit = CommitThread(1)
        self.turn = Turn(self.commit)
        self.turn.now_ms = self.turn.steady_ms = NOW_MS
        self.native_store = SqliteMetaStore(path / "metadata.db")
        epochs = epochs or UncleanStarts(self.native_store, 1)
        self.partitions = Partitions(path, epochs, self.turn, 86_400_000)
        settings = {"polylog.durability": "os", "node.id": str(node_id)}
        super().__init__(settings, store=self.native_store, **more)
        self.deletions._folders = DeletedFolders(path)
        self.turn.schedule = lambda: asyncio.get_running_loop().call_soon(self.turn.end)

    def open_logs(self, *args: Any) -> Any:
        return self.partitions.open_topic(*args)

    def announce_logs(self, *args: Any) -> Any:
        logs = self.partitions.announce_topic(*args)
        for log in logs:
            assert self.partitions.load(log) is None
            assert self.partitions.settle([log]) == {}
            log.end_loading()
        return logs

    def configure_log(self, log: Any, config: TopicConfig) -> None:
        self.partitions.configure(log, config)

    async def persist_log_starts(self, planned: Sequence[tuple[Any, int]]) -> None:
        self.partitions.note_log_starts(planned)
        self.partitions.write_log_starts()

    def end_loading(self, log: Any) -> None:
        assert not log.is_loading

    def delete_log(self, log: Any) -> None:
        self.partitions.delete(log)

    def close(self) -> None:
        self.commit.stop()
        self.turn.poll_synced()
        self.partitions.close()
        self.native_store.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[NativeBroker]:
    broker = NativeBroker(tmp_path)
    broker.create("a")
    yield broker
    broker.close()


def produce(broker: FakeBroker, data: bytes | None, partition: int = 0) -> dict[str, Any]:
    topics = [{"name": "a", "partition_data": [{"index": partition, "records": data}]}]
    answer = broker.ask(0, 9, acks=-1, topic_data=topics)
    return only(only(answer["responses"])["partition_responses"])


def fetch(broker: FakeBroker, offset: int, **more: Any) -> dict[str, Any]:
    part = {
        "partition": 0,
        "fetch_offset": offset,
        "partition_max_bytes": 1 << 20,
        "current_leader_epoch": -1,
    }
    topics = [{"topic": "a", "partitions": [part]}]
    fields = {"max_bytes": 1 << 20, "min_bytes": 1, "topics": topics, **more}
    return only(only(broker.ask(1, 12, **fields)["responses"])["partitions"])


def test_produced_records_are_fetched(broker: NativeBroker) -> None:
    assert isinstance(broker.log("a"), PartitionLog)

    assert produce(broker, records(3))["base_offset"] == 0
    assert produce(broker, records(2))["base_offset"] == 3

    answer = fetch(broker, 4)
    assert [each[0] for each in records_of(answer["records"])] == [3, 4]
    assert answer["high_watermark"] == 5


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (None, 87),
        (records() + records(), 87),
        (records()[:16] + b"\x01" + records()[17:], 87),
        (records()[:-1], 2),
        (records()[:-1] + b"!", 2),
        (records(is_control=True), 87),
    ],
    ids=["null", "two batches", "magic 1", "truncated", "bad crc", "control"],
)
def test_bad_batches_give_the_same_errors_as_the_fake_log(
    broker: NativeBroker, data: bytes | None, error: int
) -> None:
    assert produce(broker, data)["error_code"] == error
    assert broker.log("a").log_end_offset == 0


def test_sequences_are_checked_and_repeats_answered_with_the_original(broker: NativeBroker) -> None:
    def send(sequence: int, epoch: int = 0) -> tuple[int, int]:
        data = records(2, producer_id=9, producer_epoch=epoch, base_sequence=sequence)
        answer = produce(broker, data)
        return answer["error_code"], answer["base_offset"]

    assert [send(0), send(2), send(0), send(2)] == [(0, 0), (0, 2), (0, 0), (0, 2)]
    assert send(5) == (45, -1)
    assert send(0, epoch=1) == (0, 4)
    assert send(4) == (47, -1)


def test_a_waiting_fetch_is_answered_when_the_native_log_grows(broker: NativeBroker) -> None:
    async def scenario() -> Any:
        part = {"partition": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
        topics = [{"topic": "a", "partitions": [part]}]
        fields: dict[str, Any] = {
            "max_bytes": 1 << 20,
            "min_bytes": 1,
            "max_wait_ms": 60_000,
            "topics": topics,
        }
        fetched = asyncio.create_task(broker.ask_soon(1, 12, **fields))
        await asyncio.sleep(0)
        data = [{"name": "a", "partition_data": [{"index": 0, "records": records()}]}]
        await broker.ask_soon(0, 9, acks=1, topic_data=data)
        return await fetched

    answer = asyncio.run(asyncio.wait_for(scenario(), 60))

    assert only(only(answer["responses"])["partitions"])["records"]


def test_log_append_time_survives_the_native_checks(tmp_path: Path) -> None:
    broker = NativeBroker(tmp_path)
    broker.create("a", config={"message.timestamp.type": "LogAppendTime"})
    broker.broker.clock.advance(5)  # type: ignore[attr-defined]

    answer = produce(broker, records(2))

    assert (answer["error_code"], answer["log_append_time_ms"]) == (0, NOW_MS + 5)
    broker.close()


def test_topics_are_reopened_with_their_records(tmp_path: Path) -> None:
    before = NativeBroker(tmp_path)
    topic_id = before.create("a").topic_id
    produce(before, records(3))
    before.close()

    after = NativeBroker(tmp_path)
    after.topics.load()

    topic = after.topics.get("a")
    assert topic is not None
    assert (topic.topic_id, after.log("a").log_end_offset) == (topic_id, 3)
    after.close()


def test_deleting_a_topic_removes_its_folder(broker: NativeBroker, tmp_path: Path) -> None:
    produce(broker, records())

    broker.ask(20, 5, topic_names=["a"])

    assert not (tmp_path / "a-0").exists()
    assert produce(broker, records())["error_code"] == 3


def test_new_partitions_get_folders_and_accept_records(
    broker: NativeBroker, tmp_path: Path
) -> None:
    produce(broker, records(3))
    topic = broker.topics.get("a")
    assert topic is not None

    asyncio.run(broker.topics.add_partitions(topic, NewPartitions(3)))

    assert all((tmp_path / f"a-{number}").is_dir() for number in range(3))
    assert produce(broker, records(), partition=2)["error_code"] == 0
    assert broker.log("a", 0).log_end_offset == 3


def test_a_crash_between_the_commit_and_the_folders_of_new_partitions_is_repaired(
    tmp_path: Path,
) -> None:
    before = NativeBroker(tmp_path)
    topic_id = before.create("a").topic_id
    put = metadata.Put(metadata.topic_key("a"), topic_value(TopicRecord(topic_id, 3, (), {})))
    before.native_store.transact([], [put])
    before.close()

    after = NativeBroker(tmp_path)
    after.topics.load()

    assert produce(after, records(), partition=2)["error_code"] == 0
    after.close()


def alter(broker: FakeBroker, **own: str) -> None:
    topic = broker.topics.get("a")
    assert topic is not None
    named = {name.replace("_", "."): text for name, text in own.items()}
    asyncio.run(broker.topics.alter_config(topic, lambda _: named))


def test_an_altered_size_limit_applies_to_the_next_batch(broker: NativeBroker) -> None:
    big = records(100)

    alter(broker, max_message_bytes=str(len(big) - 1))
    refused = produce(broker, big)
    alter(broker)
    accepted = produce(broker, big)

    assert (refused["error_code"], accepted["error_code"]) == (10, 0)


def test_an_altered_durability_applies_to_the_next_batch(broker: NativeBroker) -> None:
    log = broker.log("a")
    assert isinstance(log, PartitionLog)
    assert not log.is_group_commit

    alter(broker, polylog_durability="group-commit")

    assert log.is_group_commit


def test_deleted_records_stay_deleted_after_a_restart(tmp_path: Path) -> None:
    before = NativeBroker(tmp_path)
    before.create("a")
    produce(before, records(5))

    parts = [{"partition_index": 0, "offset": 3}]
    answer = before.ask(21, 2, topics=[{"name": "a", "partitions": parts}], timeout_ms=1)

    assert only(only(answer["topics"])["partitions"])["low_watermark"] == 3
    assert [fetch(before, offset)["error_code"] for offset in (2, 3)] == [1, 0]
    crash(before)
    after = NativeBroker(tmp_path)
    after.topics.load()
    assert (after.log("a").log_start_offset, after.log("a").log_end_offset) == (3, 5)
    after.close()


def crash(broker: NativeBroker) -> None:
    """End without a clean stop: nothing is written any more."""
    broker.commit.stop()
    broker.turn.poll_synced()
    broker.native_store.close()


def test_an_offset_outside_the_log_is_out_of_range(broker: NativeBroker) -> None:
    produce(broker, records(3))

    assert [fetch(broker, offset)["error_code"] for offset in (-1, 0, 3, 4)] == [1, 0, 0, 1]

"""Topics: the store says what exists, and the logs and the table follow."""

import asyncio
import json
from random import Random

import pytest

from broker.core.topics.rules import NewPartitions, NewTopic, check_name
from broker.core.topics.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topic
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.model.identifiers import id_to_text
from tests.support.fakes import FakeBroker, FakeLog, FakeStore


def refusal(broker: FakeBroker, new: NewTopic) -> ErrorCode:
    with pytest.raises(RequestError) as caught:
        asyncio.run(broker.topics.create(new))
    return caught.value.code


def test_a_topic_is_found_by_name_and_by_id() -> None:
    broker = FakeBroker()

    topic = broker.create("a")

    assert broker.table.topics["a"] == (topic.topic_id, topic.logs)
    assert broker.topics.by_id(topic.topic_id) is topic
    assert broker.topics.get("a") is topic


def test_the_version_changes_when_a_topic_is_created_extended_or_deleted() -> None:
    broker = FakeBroker()
    versions = [broker.topics.version]

    topic = broker.create("a")
    versions.append(broker.topics.version)
    asyncio.run(broker.topics.add_partitions(topic, NewPartitions(3)))
    versions.append(broker.topics.version)
    assert (list(broker.topics.names()), topic.partition_count) == (["a"], 3)
    asyncio.run(broker.topics.delete(topic))
    versions.append(broker.topics.version)

    assert sorted(set(versions)) == versions


def test_a_created_topic_is_in_the_store() -> None:
    broker = FakeBroker()

    topic = broker.create("a", 3, {"retention.ms": "5"})

    shown_id = id_to_text(topic.topic_id)
    values = {key: json.loads(value) for key, value in broker.store.values.items()}
    assert values == {
        b"topic/a": {"version": 1, "id": shown_id, "partitions": 3},
        b"topicid/" + shown_id.encode(): {"version": 1, "name": "a"},
        b"conf/topic/a": {"version": 1, "config": {"retention.ms": "5"}},
    }


def test_a_topic_is_not_visible_before_all_its_logs_are_open() -> None:
    broker = FakeBroker()

    async def scenario() -> None:
        creating = asyncio.create_task(broker.topics.create(NewTopic("a", 40)))
        while not creating.done():
            topic = broker.topics.get("a")
            assert topic is None or len(topic.logs) == 40
            assert ("a" in broker.table.topics) == (topic is not None)
            await asyncio.sleep(0)
        assert len((await creating).logs) == 40

    asyncio.run(scenario())


def test_topics_are_restored_from_the_store_with_id_partitions_and_config() -> None:
    store = FakeStore()
    before = FakeBroker(store=store).create("a", 2, {"retention.ms": "5"})
    after = FakeBroker(store=store)

    after.topics.load()

    topic = after.topics.get("a")
    assert topic is not None
    assert (topic.topic_id, len(topic.logs)) == (before.topic_id, 2)
    assert topic.config.integer("retention.ms") == 5
    assert refusal(after, NewTopic("a")) is ErrorCode.TOPIC_ALREADY_EXISTS


def test_the_logs_of_internal_topics_are_loaded_first() -> None:
    store = FakeStore()
    before = FakeBroker(store=store)
    for name in ("b", "A", OFFSETS_TOPIC):
        before.create(name)

    loading = FakeBroker(store=store).topics.load()

    names = list(dict.fromkeys(log.topic for log in loading))
    assert names == [OFFSETS_TOPIC, "A", "b"]


@pytest.mark.parametrize("value", [b"", b"[]", b'{"version": 2}', b'{"version": 1, "id": "x"}'])
def test_a_damaged_topic_record_stops_the_start(value: bytes) -> None:
    store = FakeStore()
    store.values[b"topic/a"] = value

    with pytest.raises(StorageError, match="the metadata store holds"):
        FakeBroker(store=store).topics.load()


@pytest.mark.parametrize("value", [b"", b"[]", b'{"version": 1, "config": 5}'])
def test_a_damaged_configuration_record_stops_the_start(value: bytes) -> None:
    store = FakeStore()
    FakeBroker(store=store).create("a")
    store.values[b"conf/topic/a"] = value

    with pytest.raises(StorageError, match="damaged"):
        FakeBroker(store=store).topics.load()


def test_a_failing_disk_leaves_nothing_behind() -> None:
    broker = FakeBroker()
    broker.broken_partition = 2

    assert refusal(broker, NewTopic("a", 3)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.store.values == {}
    assert broker.topics.get("a") is None


def test_a_topic_that_another_broker_created_exists() -> None:
    broker = FakeBroker()
    FakeBroker(store=broker.store).create("a")
    broker.reload()  # its image is ahead of its topics

    assert refusal(broker, NewTopic("a")) is ErrorCode.TOPIC_ALREADY_EXISTS


def test_an_internal_topic_is_always_created_with_group_commit() -> None:
    broker = FakeBroker({"polylog.durability": "os"})

    refused = NewTopic(OFFSETS_TOPIC, 1, config={"polylog.durability": "os"})
    assert refusal(broker, refused) is ErrorCode.INVALID_CONFIG
    assert asyncio.run(broker.topics.offsets_topic()).config.is_group_commit


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        (OFFSETS_TOPIC, "offsets.topic.num.partitions"),
        (TRANSACTIONS_TOPIC, "transaction.state.log.num.partitions"),
    ],
)
def test_an_internal_topic_is_the_same_whoever_creates_it(name: str, setting: str) -> None:
    broker = FakeBroker({setting: "7", "log.cleanup.policy": "delete"})

    topic = asyncio.run(broker.topics.create(NewTopic(name, config={"cleanup.policy": "delete"})))

    assert topic.partition_count == 7
    assert topic.config.words("cleanup.policy") == ("compact",)
    assert topic.config.is_group_commit


def test_an_internal_topic_has_as_many_partitions_as_configured() -> None:
    topic = asyncio.run(FakeBroker().topics.create(NewTopic(OFFSETS_TOPIC, 3)))

    assert topic.partition_count == 3


def test_concurrent_creations_of_one_topic_create_it_once() -> None:
    broker = FakeBroker()

    async def scenario() -> bool:
        first, second = await asyncio.gather(
            broker.topics.get_or_create("a"), broker.topics.get_or_create("a")
        )
        return first is second

    assert asyncio.run(scenario())


def test_a_create_is_finished_even_if_nobody_waits_for_it() -> None:
    broker = FakeBroker()

    async def scenario() -> None:
        asked = asyncio.create_task(broker.topics.create(NewTopic("a", 40)))
        await asyncio.sleep(0)
        asked.cancel()
        while broker.topics.get("a") is None:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_deleted_topic_is_forgotten_everywhere() -> None:
    broker = FakeBroker()
    topic = broker.create("a.b", 2, {"retention.ms": "5"})

    asyncio.run(broker.topics.delete(topic))

    assert broker.topics.get("a.b") is None
    assert broker.topics.by_id(topic.topic_id) is None
    assert broker.table.topics == {}
    deleted = {"version": 1, "name": "a.b", "partitions": 2}
    assert {key: json.loads(value) for key, value in broker.store.values.items()} == {
        b"deleted/" + id_to_text(topic.topic_id).encode(): deleted
    }
    assert broker.folders.put_aside == [("a.b", [0, 1])]
    assert broker.deleted_logs == topic.logs
    assert broker.groups.deleted_topics == ["a.b"]
    broker.create("a_b")  # no collision any more


def test_deleting_a_deleted_topic_is_an_unknown_topic() -> None:
    broker = FakeBroker()
    topic = broker.create("a")
    asyncio.run(broker.topics.delete(topic))

    with pytest.raises(RequestError) as caught:
        asyncio.run(broker.topics.delete(topic))
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_logs_of_a_large_topic_are_configured_in_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.model.limits.LOGS_CONFIGURED_PER_STEP", 2)
    broker = FakeBroker()
    topic = broker.create("a", 5)
    turns: list[int] = []

    async def count_turns() -> None:
        while True:
            turns.append(sum(log.config is topic.config for log in topic.logs))
            await asyncio.sleep(0)

    async def scenario() -> None:
        counting = asyncio.create_task(count_turns())
        await broker.topics.alter_config(topic, lambda _: {"retention.ms": "5"})
        counting.cancel()

    asyncio.run(scenario())

    assert [log.config.integer("retention.ms") for log in topic.logs] == [5] * 5
    assert {1, 3} <= set(turns)  # The topic itself is a step.


def test_the_logs_of_many_topics_are_configured_in_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.model.limits.LOGS_CONFIGURED_PER_STEP", 4)
    broker = FakeBroker()
    for name in "abcdef":
        broker.create(name, 3)
    configured = 0
    most = 0

    def configure(_log: object, _config: object) -> None:
        nonlocal configured
        configured += 1

    async def watch() -> None:
        nonlocal most
        while True:
            before = configured
            await asyncio.sleep(0)
            most = max(most, configured - before)

    async def scenario() -> None:
        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        config = broker.config.altered({"log.retention.ms": "5"}, {})
        await broker.topics.alter_defaults(config, commit)
        await asyncio.sleep(0)
        watching.cancel()

    broker.configure_log = configure  # type: ignore[assignment,method-assign]
    asyncio.run(scenario())

    assert configured == 18
    assert most <= 4


def test_the_number_of_partitions_of_a_broker_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.model.limits.PARTITIONS_PER_BROKER_MAX", 5)
    broker = FakeBroker()
    topic = broker.create("a", 3)

    assert refusal(broker, NewTopic("b", 3)) is ErrorCode.INVALID_PARTITIONS
    asyncio.run(broker.topics.delete(topic))
    assert len(broker.create("b", 3).logs) == 3


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "...", "__consumer_offsets"])
def test_valid_names(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a/b", "a b", "é", "a\n", "a\0"])
def test_invalid_names(name: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_name(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_logs_that_inherit_no_change_are_not_configured_again() -> None:
    broker = FakeBroker()
    own = broker.create("a", config={"retention.ms": "9"})
    broker.create("b")
    configured: list[str] = []

    def configure(log: FakeLog, _config: object) -> None:
        configured.append(log.topic)

    broker.configure_log = configure  # type: ignore[assignment,method-assign]

    asyncio.run(
        broker.topics.alter_defaults(broker.config.altered({"log.retention.ms": "5"}, {}), commit)
    )

    assert configured == ["b"]
    assert own.config.integer("retention.ms") == 9


async def commit() -> None:
    """Do nothing: nothing is to be made durable."""


def test_no_topic_is_created_while_all_are_altered() -> None:
    broker = FakeBroker()
    broker.create("a")
    config = broker.config.altered({"log.retention.ms": "5"}, {})
    seen: list[str] = []

    async def slow_commit() -> None:
        await asyncio.sleep(0.01)
        seen.extend(topic.name for topic in broker.topics)

    async def both() -> None:
        altering = asyncio.create_task(broker.topics.alter_defaults(config, slow_commit))
        await asyncio.sleep(0)
        await broker.topics.create(NewTopic("b"))
        await altering

    asyncio.run(both())

    assert seen == ["a"]
    assert broker.log("b").config.integer("retention.ms") == 5


def test_topics_are_loading_until_every_log_of_the_start_is_loaded() -> None:
    broker = FakeBroker()
    logs = broker.create("a", 2).logs
    for log in logs:
        log.is_loading = True

    for log in logs:
        assert broker.topics.is_loading
        log.is_loading = False
    assert not broker.topics.is_loading

    broker.create("b").logs[0].is_loading = True
    assert not broker.topics.is_loading  # it is not a log of the start


def test_an_operation_on_a_loading_topic_waits() -> None:
    broker = FakeBroker()
    broker.create("a")
    config = broker.config.altered({"log.retention.ms": "5"}, {})
    waited: list[object] = []

    async def until_loaded(logs: object) -> None:
        waited.append(logs)

    broker.until_loaded = until_loaded  # type: ignore[method-assign]

    asyncio.run(broker.topics.alter_defaults(config, commit))

    assert waited == [broker.topics.get("a").logs]  # type: ignore[union-attr]


def test_topics_stay_in_name_order() -> None:
    broker = FakeBroker()
    random = Random(1)
    expected: set[str] = set()
    for _ in range(200):
        name = f"t{random.randrange(40):02}"
        if name in expected:
            asyncio.run(broker.topics.delete(the_topic(broker, name)))
            expected.discard(name)
        else:
            broker.create(name)
            expected.add(name)
        assert [topic.name for topic in broker.topics] == sorted(expected)
        assert list(broker.topics.names()) == sorted(expected)
    after = [topic.name for topic in broker.topics.from_name("t2")]
    assert after == [name for name in sorted(expected) if name >= "t2"]


def test_a_topic_deleted_during_an_iteration_is_omitted_and_a_new_one_not_included() -> None:
    broker = FakeBroker()
    for name in ("a", "b", "c"):
        broker.create(name)

    topics = iter(broker.topics)
    assert next(topics).name == "a"
    asyncio.run(broker.topics.delete(the_topic(broker, "b")))
    broker.create("bb")

    assert [topic.name for topic in topics] == ["c"]


def the_topic(broker: FakeBroker, name: str) -> Topic:
    """The topic of that name."""
    topic = broker.topics.get(name)
    assert topic is not None
    return topic

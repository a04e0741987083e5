"""Quotas on the requests that Python serves: what counts, what is told, what is refused."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from broker.codec import schema
from broker.core.security.quotas.entities import Entity
from broker.protocols.base import Answer
from broker.protocols.kafka import throttling
from broker.protocols.kafka.api import Api
from broker.protocols.kafka.table import APIS
from broker.protocols.kafka.throttling import told
from tests.support.fakes import FakeBroker, batch, only

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 19, 20, 37
THROTTLING_QUOTA_EXCEEDED = 89
ANONYMOUS = Entity("ANONYMOUS")


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker({"controller.quota.window.num": "3", "quota.window.num": "2"})


def limit(broker: FakeBroker, **quotas: float) -> None:
    asyncio.run(broker.quotas.alter({ANONYMOUS: quotas}))


def advance(broker: FakeBroker, milliseconds: int) -> None:
    broker.broker.clock.advance(milliseconds)  # type: ignore[attr-defined]


def send_batch(broker: FakeBroker, version: int = 9, **fields: Any) -> Any:
    partition = {"index": 0, "records": batch(body=b"x" * 1_000)}
    topic = {"name": "t", "partition_data": [partition]}
    return broker.ask(PRODUCE, version, acks=-1, timeout_ms=1, topic_data=[topic], **fields)


def read_all(broker: FakeBroker, version: int = 11) -> Any:
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "t", "partitions": [wanted]}]
    return broker.ask(FETCH, version, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics)


@pytest.mark.parametrize("api", list(APIS.values()), ids=lambda api: api.name)
def test_every_version_with_a_throttle_time_tells_it(api: Api) -> None:
    message = schema.response(api.key)
    for version in api.versions:
        body = message.encode(version, {})

        fields, end = message.decode(version, told(api.key, version, body, 12_345))

        assert end == len(body)
        has_it = any(
            each.name == "throttle_time_ms" and version in each.versions for each in message.fields
        )
        assert fields.get("throttle_time_ms", 0) == (12_345 if has_it else 0)


@pytest.mark.parametrize("version", [3, 9, 12])
def test_a_produce_above_the_quota_is_done_and_told(broker: FakeBroker, version: int) -> None:
    broker.create("t")
    limit(broker, producer_byte_rate=500)

    answer = send_batch(broker, version)

    assert only(only(answer["responses"])["partition_responses"])["error_code"] == 0
    assert 1_000 < answer["throttle_time_ms"] < 2_000
    assert broker.throttle_ms == answer["throttle_time_ms"]


def test_a_produce_without_acks_is_throttled_without_an_answer(broker: FakeBroker) -> None:
    broker.create("t")
    limit(broker, producer_byte_rate=500)
    partition = {"index": 0, "records": batch(body=b"x" * 1_000)}
    topic = {"name": "t", "partition_data": [partition]}

    answer = broker.ask(PRODUCE, 9, acks=0, timeout_ms=1, topic_data=[topic])

    assert answer is None
    assert broker.throttle_ms > 1_000


def test_requests_below_the_quota_are_not_throttled(broker: FakeBroker) -> None:
    broker.create("t")
    limit(broker, producer_byte_rate=1e9, consumer_byte_rate=1e9, request_percentage=1e6)

    for answer in (send_batch(broker), read_all(broker)):
        assert answer["throttle_time_ms"] == 0
        assert broker.throttle_ms == 0


def test_a_fetch_above_the_quota_gets_nothing_and_does_not_count(broker: FakeBroker) -> None:
    broker.create("t")
    for _ in range(10):
        send_batch(broker)
    limit(broker, consumer_byte_rate=1_500)

    full, throttled = read_all(broker), read_all(broker)
    advance(broker, throttled["throttle_time_ms"])
    again = read_all(broker)

    assert only(only(full["responses"])["partitions"])["records"]
    assert (throttled["responses"], throttled["session_id"]) == ([], 0)
    assert 400 < throttled["throttle_time_ms"] <= 2_000
    assert only(only(again["responses"])["partitions"])["records"]


def test_no_fetch_is_larger_than_what_may_be_used_at_once(broker: FakeBroker) -> None:
    broker.create("t")
    for _ in range(10):
        send_batch(broker)
    limit(broker, consumer_byte_rate=5_000)

    answer = read_all(broker)

    assert 3_000 < len(only(only(answer["responses"])["partitions"])["records"]) <= 5_000


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_old_fetches_are_limited_likewise(broker: FakeBroker, version: int) -> None:
    broker.create("t")
    limit(broker, consumer_byte_rate=1)
    bucket = broker.quotas.find(broker.session, b"tester").reads
    assert bucket
    bucket.add(1_000, broker.broker.clock.monotonic_ms())

    answer = read_all(broker, version)

    assert answer["responses"] == []
    assert broker.throttle_ms > 1_000
    assert answer.get("throttle_time_ms", 0) == (broker.throttle_ms if version else 0)


def test_the_time_of_the_loop_is_told_for_every_api(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(broker, request_percentage=1.0)
    times = iter(range(0, 1 << 40, 30_000_000))
    monkeypatch.setattr(throttling, "monotonic_ns", lambda: next(times))

    for key, version in ((METADATA, 12), (API_VERSIONS, 3), (60, 0)):
        answer = broker.ask(key, version)
        assert 0 < answer["throttle_time_ms"] <= 1_000
        assert answer["throttle_time_ms"] == broker.throttle_ms
    assert broker.ask(METADATA, 2)
    assert broker.throttle_ms > 0


def test_waits_are_not_time_of_the_loop(broker: FakeBroker) -> None:
    broker.create("t")
    limit(broker, request_percentage=10.0)

    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "t", "partitions": [wanted]}]
    answer = broker.ask(FETCH, 11, max_wait_ms=300, min_bytes=1, max_bytes=1 << 20, topics=topics)

    assert answer["throttle_time_ms"] == 0


def test_quotas_that_are_removed_do_not_limit_open_connections(broker: FakeBroker) -> None:
    broker.create("t")
    limit(broker, producer_byte_rate=1)
    send_batch(broker)
    asyncio.run(broker.quotas.alter({ANONYMOUS: {"producer_byte_rate": None}}))

    assert send_batch(broker)["throttle_time_ms"] == 0


# ---- partitions that are created and deleted -----------------------------------------------------


def create(broker: FakeBroker, *topics: tuple[str, int], version: int = 7, **fields: Any) -> Any:
    wanted = [
        {"name": name, "num_partitions": count, "replication_factor": 1} for name, count in topics
    ]
    return broker.ask(CREATE_TOPICS, version, topics=wanted, timeout_ms=1, **fields)


def codes(answer: Any, field: str = "topics") -> list[int]:
    return [each["error_code"] for each in answer[field]]


def test_a_change_above_the_quota_is_refused_and_told(broker: FakeBroker) -> None:
    limit(broker, controller_mutation_rate=2)

    answer = create(broker, ("a", 10), ("b", 1))

    assert codes(answer) == [0, THROTTLING_QUOTA_EXCEEDED]
    assert answer["throttle_time_ms"] == broker.throttle_ms == 2_000
    assert broker.topics.get("b") is None
    advance(broker, 2_000)
    assert codes(create(broker, ("b", 1))) == [0]


def test_older_versions_are_done_and_then_told(broker: FakeBroker) -> None:
    limit(broker, controller_mutation_rate=2)

    answer = create(broker, ("a", 10), ("b", 1), version=5)

    assert codes(answer) == [0, 0]
    assert answer["throttle_time_ms"] == broker.throttle_ms == 2_500


def test_a_validation_counts_as_well(broker: FakeBroker) -> None:
    limit(broker, controller_mutation_rate=2)

    create(broker, ("a", 10), validate_only=True)

    assert codes(create(broker, ("b", 1), validate_only=True)) == [THROTTLING_QUOTA_EXCEEDED]


def test_a_topic_that_cannot_be_created_does_not_count(broker: FakeBroker) -> None:
    broker.create("a")
    limit(broker, controller_mutation_rate=1)
    for _ in range(5):
        assert codes(create(broker, ("a", 100))) == [36]

    assert codes(create(broker, ("b", 1))) == [0]


@pytest.mark.parametrize("version", [4, 5, 6])
def test_deleted_partitions_count(broker: FakeBroker, version: int) -> None:
    for name in "abc":
        broker.create(name, 4)
    limit(broker, controller_mutation_rate=2)
    by_name = {"topic_names": ["a", "b", "c"]}
    by_topic = {"topics": [{"name": name} for name in "abc"]}

    answer = broker.ask(
        DELETE_TOPICS, version, timeout_ms=1, **(by_topic if version == 6 else by_name)
    )

    assert codes(answer, "responses") == (
        [0, 0, 0] if version < 5 else [0, 0, THROTTLING_QUOTA_EXCEEDED]
    )
    assert broker.throttle_ms == (3_000 if version < 5 else 1_000)


@pytest.mark.parametrize("version", [2, 3])
def test_added_partitions_count(broker: FakeBroker, version: int) -> None:
    for name in "ab":
        broker.create(name, 4)
    limit(broker, controller_mutation_rate=2)
    topics = [{"name": name, "count": 12, "assignments": None} for name in "ab"]

    answer = broker.ask(CREATE_PARTITIONS, version, topics=topics, timeout_ms=1)

    refused = THROTTLING_QUOTA_EXCEEDED if version == 3 else 0
    assert codes(answer, "results") == [0, refused]
    topic = broker.topics.get("b")
    assert topic is not None
    assert topic.partition_count == (4 if version == 3 else 12)
    assert broker.throttle_ms == (1_000 if version == 3 else 5_000)


def test_topics_that_are_created_by_their_use_count(broker: FakeBroker) -> None:
    limit(broker, controller_mutation_rate=1)
    create(broker, ("a", 10))

    topics = [{"name": "new"}]
    answer = broker.ask(METADATA, 8, topics=topics, allow_auto_topic_creation=True)

    assert codes(answer) == [3]
    assert broker.throttle_ms == 7_000
    advance(broker, 7_000)
    answer = broker.ask(METADATA, 8, topics=topics, allow_auto_topic_creation=True)
    assert codes(answer) == [0]


def test_an_answer_that_ends_a_connection_still_does(broker: FakeBroker) -> None:
    limit(broker, producer_byte_rate=1)
    quota = broker.quotas.find(broker.session, b"tester")
    meter = throttling.Meter(quota, broker.session, PRODUCE, 9, 1_000)

    reply = meter.reply(Answer(None, is_last=True))

    assert isinstance(reply, Answer)
    assert reply.is_last
    assert reply.throttle_ms > 0


def test_the_steps_after_a_wait_are_time_of_the_loop(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three parts of 30 ms each: 9 % of the second that two windows have at first."""
    limit(broker, request_percentage=8.0)
    times = iter(range(0, 1 << 40, 30_000_000))
    monkeypatch.setattr(throttling, "monotonic_ns", lambda: next(times))

    async def work() -> bytes:
        await asyncio.sleep(0)
        return schema.response(METADATA).encode(12, {})

    async def ask() -> Any:
        quota = broker.quotas.find(broker.session, b"tester")
        meter = throttling.Meter(quota, broker.session, METADATA, 12, 0)
        reply = meter.reply(work())
        assert isinstance(reply, Awaitable)
        return await reply

    answer = asyncio.run(ask())

    assert isinstance(answer, Answer)
    assert 0 < answer.throttle_ms < 500

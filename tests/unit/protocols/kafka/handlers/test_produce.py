"""The handler of Produce."""

import asyncio
import struct
import zlib
from typing import Any

import pytest

from broker.codec import encode, scan_headers
from broker.core.scheduling.steps import StepBudget
from broker.core.topics.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from broker.core.transactions.records import TopicPartition
from broker.model.errors import ErrorCode, PeerError
from broker.model.limits import PRODUCE_BYTES_PER_STEP, PRODUCE_PARTITION_BYTES
from broker.protocols.kafka.api import Request
from broker.protocols.kafka.produce_appends import append_all
from broker.protocols.kafka.produce_response import Batch, Place, Refused
from tests.support.batches import batch_of, records_of
from tests.support.fakes import NOW_MS, FakeBroker, batch, only

ZSTD = 4
TRANSACTIONAL = 0x10
CONTROL = 0x20


def one(topic: str, records: bytes | None, *, index: int = 0) -> list[dict[str, Any]]:
    return [{"name": topic, "partition_data": [{"index": index, "records": records}]}]


def old_message(magic: int) -> bytes:
    """Return a message of 22 or 30 bytes and more: shorter than a batch's header."""
    rest = struct.pack(">bb", magic, 0) + (bytes(8) if magic else b"") + struct.pack(">ii", -1, 0)
    body = struct.pack(">I", zlib.crc32(rest)) + rest
    return struct.pack(">qi", 0, len(body)) + body


def produce(
    broker: FakeBroker, version: int, records: bytes | None, /, **fields: Any
) -> dict[str, Any]:
    """Send one batch to partition 0 of "a" and return its partition's response."""
    fields = {"acks": -1, "topic_data": one("a", records), **fields}
    answer = broker.ask(0, version, **fields)
    return only(only(answer["responses"])["partition_responses"])


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker()
    broker.create("a", 2)
    return broker


@pytest.mark.parametrize("version", range(3, 13))
def test_a_batch_is_appended_and_its_offset_returned(broker: FakeBroker, version: int) -> None:
    produce(broker, version, batch(5))
    answer = produce(broker, version, batch(3))

    assert (answer["error_code"], answer["base_offset"]) == (0, 5)
    assert answer["log_append_time_ms"] == -1
    assert broker.log("a").log_end_offset == 8


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("version", range(3, 13))
def test_messages_of_magic_0_and_1_are_refused_since_version_3(
    broker: FakeBroker, version: int, magic: int
) -> None:
    assert produce(broker, version, old_message(magic))["error_code"] == 87


def test_version_13_names_topics_by_id(broker: FakeBroker) -> None:
    topic = broker.topics.get("a")
    assert topic is not None
    data = [{"topic_id": topic.topic_id, "partition_data": [{"index": 0, "records": batch()}]}]

    answer = only(broker.ask(0, 13, acks=1, topic_data=data)["responses"])

    assert answer["topic_id"] == topic.topic_id
    assert only(answer["partition_responses"])["error_code"] == 0


def test_an_unknown_topic_id_is_error_100(broker: FakeBroker) -> None:
    data = [{"topic_id": bytes(range(16)), "partition_data": [{"index": 0, "records": batch()}]}]

    answer = only(broker.ask(0, 13, acks=1, topic_data=data)["responses"])

    assert only(answer["partition_responses"])["error_code"] == 100


@pytest.mark.parametrize("acks", [-2, 2, 100])
def test_acks_other_than_minus_1_0_and_1_are_refused_per_partition(
    broker: FakeBroker, acks: int
) -> None:
    assert produce(broker, 9, batch(), acks=acks)["error_code"] == 21
    assert broker.log("a").log_end_offset == 0


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (None, 87),
        (b"", 87),
        (batch() + batch(), 87),
        (batch(magic=1), 87),
        (batch()[:-1], 2),
        (batch()[:-1] + b"!", 2),
    ],
    ids=["null", "empty", "two batches", "magic 1", "truncated", "bad crc"],
)
def test_a_bad_batch_is_refused_and_nothing_is_stored(
    broker: FakeBroker, records: bytes | None, error: int
) -> None:
    answer = produce(broker, 9, records)

    assert (answer["error_code"], answer["base_offset"]) == (error, -1)
    assert broker.log("a").log_end_offset == 0


def test_zstd_before_version_7_is_an_unsupported_compression(broker: FakeBroker) -> None:
    [sent] = encode([b"value"], timestamp_ms=NOW_MS, compression="zstd")

    assert produce(broker, 6, sent)["error_code"] == 76
    assert produce(broker, 7, sent)["error_code"] == 0


def test_a_batch_that_cannot_be_decompressed_is_an_unknown_server_error_as_in_kafka(
    broker: FakeBroker,
) -> None:
    answer = produce(broker, 9, batch(attributes=ZSTD))

    assert (answer["error_code"], answer["base_offset"]) == (-1, -1)
    assert answer["error_message"].startswith("zstd: ")
    assert broker.log("a").log_end_offset == 0


def test_a_batch_above_max_message_bytes_is_too_large() -> None:
    broker = FakeBroker()
    broker.create("a", config={"max.message.bytes": "100"})

    answer = produce(broker, 9, batch(body=b"x" * 100))

    assert answer["error_code"] == 10
    assert "max.message.bytes is 100" in answer["error_message"]


def test_a_batch_above_the_segment_size_is_record_list_too_large() -> None:
    broker = FakeBroker()
    broker.create("a", config={"segment.bytes": "1024"})

    assert produce(broker, 9, batch(body=b"x" * 1024))["error_code"] == 18


def test_unknown_partitions_and_invalid_topic_names_have_different_errors(
    broker: FakeBroker,
) -> None:
    data = one("b", batch()) + one("a", batch(), index=2) + one("a b", batch())

    answer = broker.ask(0, 9, acks=1, topic_data=data)

    codes = [only(each["partition_responses"])["error_code"] for each in answer["responses"]]
    assert codes == [3, 3, 17]


def test_a_partition_named_twice_is_refused_and_answered_once(broker: FakeBroker) -> None:
    data = [
        {
            "name": "a",
            "partition_data": [
                {"index": 0, "records": batch()},
                {"index": 1, "records": batch()},
                {"index": 0, "records": batch()},
            ],
        }
    ]

    answer = only(broker.ask(0, 9, acks=1, topic_data=data)["responses"])

    codes = {each["index"]: each["error_code"] for each in answer["partition_responses"]}
    assert codes == {0: 42, 1: 0}
    assert broker.log("a").log_end_offset == 0


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, TRANSACTIONS_TOPIC])
@pytest.mark.parametrize(
    ("client_id", "writable", "code"),
    [
        ("tester", "false", 17),
        ("__admin_client", "false", 17),
        ("tester", "true", 17),
        ("__admin_client", "true", 0),
    ],
)
def test_an_internal_topic_accepts_admin_client_records_if_a_setting_allows_it(
    topic: str, client_id: str, writable: str, code: int
) -> None:
    broker = FakeBroker({"polylog.internal.topics.writable": writable})
    broker.create(topic)

    answer = broker.ask(0, 9, acks=1, topic_data=one(topic, batch()), client_id=client_id)

    assert only(only(answer["responses"])["partition_responses"])["error_code"] == code
    assert broker.log(topic).log_end_offset == (code == 0)


def test_a_transaction_cannot_be_written_to_an_internal_topic(broker: FakeBroker) -> None:
    broker.create(OFFSETS_TOPIC)

    answer = broker.ask(
        0,
        9,
        acks=-1,
        topic_data=one(OFFSETS_TOPIC, IN_TRANSACTION),
        transactional_id="x",
        client_id="__admin_client",
    )

    assert only(only(answer["responses"])["partition_responses"])["error_code"] == 17


class Admissions:
    """A transaction coordinator that only admits."""

    def __init__(self, broker: FakeBroker, error: ErrorCode = ErrorCode.NONE) -> None:
        """Admit everything, or refuse it with an error."""
        self.broker = broker
        self.error = error
        self.asked: list[tuple[str, int, int, list[TopicPartition], bool]] = []

    async def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        places: list[TopicPartition],
        *,
        adds_implicitly: bool,
    ) -> dict[TopicPartition, ErrorCode]:
        """As the coordinator's."""
        await asyncio.sleep(0)
        self.asked.append((transactional_id, producer_id, producer_epoch, places, adds_implicitly))
        if self.error is ErrorCode.NONE:
            self.broker.log("a").admit_transaction(producer_id, producer_epoch)
        return dict.fromkeys(places, self.error)


IN_TRANSACTION = batch_of(
    [(b"key", b"value", [])],
    NOW_MS,
    producer_id=7,
    producer_epoch=2,
    base_sequence=0,
    is_transactional=True,
)


def admitting(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, error: ErrorCode = ErrorCode.NONE
) -> Admissions:
    admissions = Admissions(broker, error)
    monkeypatch.setattr(broker.transactions, "admit", admissions.admit)
    return admissions


@pytest.mark.parametrize(("version", "adds_implicitly"), [(7, False), (11, False), (12, True)])
def test_the_first_batch_of_a_transaction_is_admitted_by_the_coordinator(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, version: int, adds_implicitly: bool
) -> None:
    admissions = admitting(broker, monkeypatch)

    answer = produce(broker, version, IN_TRANSACTION, transactional_id="t")

    assert (answer["error_code"], answer["base_offset"]) == (0, 0)
    assert admissions.asked == [("t", 7, 2, [("a", 0)], adds_implicitly)]


def test_later_batches_of_a_transaction_are_appended_without_the_coordinator(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    admissions = admitting(broker, monkeypatch)
    broker.log("a").admit_transaction(7, 2)

    answer = produce(broker, 12, IN_TRANSACTION, transactional_id="t")

    assert answer["error_code"] == 0
    assert admissions.asked == []


@pytest.mark.parametrize(
    ("version", "found", "said"),
    [
        (10, ErrorCode.INVALID_TXN_STATE, 48),
        (11, ErrorCode.INVALID_TXN_STATE, 120),
        (11, ErrorCode.INVALID_PRODUCER_EPOCH, 47),
        (11, ErrorCode.CONCURRENT_TRANSACTIONS, 19),
        (11, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 19),
        (11, ErrorCode.COORDINATOR_NOT_AVAILABLE, 19),
        (11, ErrorCode.NOT_COORDINATOR, 19),
        (11, ErrorCode.NETWORK_EXCEPTION, 19),
        (11, ErrorCode.OPERATION_NOT_ATTEMPTED, 19),
    ],
)
def test_a_batch_refused_by_the_coordinator_is_not_appended(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, version: int, found: ErrorCode, said: int
) -> None:
    admitting(broker, monkeypatch, found)

    answer = produce(broker, version, IN_TRANSACTION, transactional_id="t")

    assert answer["error_code"] == said
    assert broker.log("a").log_end_offset == 0


def test_a_transactional_refusal_in_one_partition_does_not_affect_another(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    admitting(broker, monkeypatch, ErrorCode.INVALID_TXN_STATE)
    broker.log("a", 1).admit_transaction(7, 2)
    parts = [{"index": index, "records": IN_TRANSACTION} for index in (0, 1)]
    data = [{"name": "a", "partition_data": parts}]

    answer = only(broker.ask(0, 9, acks=1, transactional_id="t", topic_data=data)["responses"])

    codes = {each["index"]: each["error_code"] for each in answer["partition_responses"]}
    assert codes == {0: 48, 1: 0}


def test_a_transactional_batch_without_a_transactional_id_is_not_authorized(
    broker: FakeBroker,
) -> None:
    assert produce(broker, 9, batch(attributes=TRANSACTIONAL))["error_code"] == 53
    assert broker.log("a").log_end_offset == 0


def test_a_timestamp_too_far_ahead_is_refused(broker: FakeBroker) -> None:
    hour_ms = 3_600_000

    assert produce(broker, 9, batch(timestamp=NOW_MS + hour_ms))["error_code"] == 0
    assert produce(broker, 9, batch(timestamp=NOW_MS + hour_ms + 1))["error_code"] == 32


def test_log_append_time_is_written_into_the_batch_and_returned() -> None:
    broker = FakeBroker()
    broker.create("a", config={"message.timestamp.type": "LogAppendTime"})

    answer = produce(broker, 9, batch(2, timestamp=5))

    assert answer["error_code"] == 0
    assert answer["log_append_time_ms"] == NOW_MS
    assert broker.log("a").timestamps == [NOW_MS, NOW_MS]


def test_log_append_time_does_not_repair_a_bad_crc() -> None:
    broker = FakeBroker()
    broker.create("a", config={"message.timestamp.type": "LogAppendTime"})

    assert produce(broker, 9, batch()[:-1] + b"!")["error_code"] == 2


def test_acks_0_is_never_answered(broker: FakeBroker) -> None:
    assert broker.ask(0, 9, acks=0, topic_data=one("a", batch())) is None
    assert broker.log("a").log_end_offset == 1


def test_an_error_with_acks_0_closes_the_connection(broker: FakeBroker) -> None:
    with pytest.raises(PeerError, match="acks=0"):
        broker.ask(0, 9, acks=0, topic_data=one("b", batch()))


@pytest.mark.parametrize("acks", [-1, 1])
def test_the_response_waits_until_the_batch_is_durable(broker: FakeBroker, acks: int) -> None:
    log = broker.log("a")
    log.is_held = True

    async def scenario() -> dict[str, Any]:
        asked = asyncio.create_task(broker.ask_soon(0, 9, acks=acks, topic_data=one("a", batch())))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert log.log_end_offset == 1
        assert not asked.done()
        log.sync()
        return await asked

    answer = asyncio.run(scenario())

    assert only(only(answer["responses"])["partition_responses"])["error_code"] == 0


def test_a_log_that_fails_before_the_batch_is_durable_is_a_storage_error(
    broker: FakeBroker,
) -> None:
    log = broker.log("a")
    log.is_held = True

    async def scenario() -> dict[str, Any]:
        asked = asyncio.create_task(broker.ask_soon(0, 9, acks=-1, topic_data=one("a", batch())))
        await asyncio.sleep(0)
        log.fail()
        return await asked

    answer = asyncio.run(scenario())

    assert only(only(answer["responses"])["partition_responses"])["error_code"] == 56


def test_an_offline_partition_is_a_storage_error(broker: FakeBroker) -> None:
    broker.log("a").fail()

    assert produce(broker, 9, batch())["error_code"] == 56


def test_a_refused_partition_does_not_delay_another(broker: FakeBroker) -> None:
    data = [
        {
            "name": "a",
            "partition_data": [
                {"index": 1, "records": batch()[:-1]},
                {"index": 0, "records": batch()},
            ],
        }
    ]

    answer = only(broker.ask(0, 9, acks=1, topic_data=data)["responses"])

    codes = [(each["index"], each["error_code"]) for each in answer["partition_responses"]]
    assert codes == [(1, 2), (0, 0)]


def test_a_loading_partition_refuses_batches(broker: FakeBroker) -> None:
    broker.log("a").is_loading = True

    assert produce(broker, 9, batch())["error_code"] == 6
    assert broker.log("a").log_end_offset == 0


def rows(*keys: bytes | None, **fields: Any) -> bytes:
    return batch_of([(key, b"value" * 20, []) for key in keys], NOW_MS, **fields)


def test_acks_all_requires_no_more_replicas_than_a_partition_has() -> None:
    """As Kafka 4 answers: the smaller of min.insync.replicas and the number of replicas."""
    broker = FakeBroker()
    broker.create("a", config={"min.insync.replicas": "2"})

    assert produce(broker, 9, batch(), acks=-1)["error_code"] == 0


@pytest.mark.parametrize("version", [7, 8, 12])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_records_without_a_key_are_reported_by_their_index(version: int, compression: str) -> None:
    broker = FakeBroker()
    broker.create("a", config={"cleanup.policy": "compact"})
    [data] = encode([(b"k", b"1"), (None, b"2"), (None, b"3")], compression=compression)

    answer = produce(broker, version, data)

    assert answer["error_code"] == 87
    if version >= 8:
        assert [each["batch_index"] for each in answer["record_errors"]] == [1, 2]
        assert all(each["batch_index_error_message"] for each in answer["record_errors"])
        assert "key" in answer["error_message"]
    assert broker.log("a").log_end_offset == 0


def test_a_compacted_topic_accepts_records_with_keys() -> None:
    broker = FakeBroker()
    broker.create("a", config={"cleanup.policy": "compact"})

    assert produce(broker, 9, rows(b"k", b"k"))["error_code"] == 0


def test_a_batch_is_stored_with_the_topics_codec() -> None:
    broker = FakeBroker()
    broker.create("a", config={"compression.type": "gzip"})

    answers = [produce(broker, 9, rows(b"k", None)) for _ in range(2)]

    assert [each["base_offset"] for each in answers] == [0, 2]
    stored = b"".join(data for _, _, data in broker.log("a").batches)
    assert [each.attributes for each in scan_headers(stored)] == [1, 1]
    assert [each[0] for each in records_of(stored)] == [0, 1, 2, 3]


@pytest.mark.parametrize("codec", ["gzip", "uncompressed"])
def test_log_append_time_is_kept_with_the_topics_codec(codec: str) -> None:
    broker = FakeBroker()
    broker.create(
        "a", config={"compression.type": codec, "message.timestamp.type": "LogAppendTime"}
    )
    [data] = encode([b"one", b"two"], compression="zstd", timestamp_ms=5)

    answer = produce(broker, 9, data)

    assert answer["log_append_time_ms"] == NOW_MS
    (_, _, stored) = only(broker.log("a").batches)
    assert {each[1] for each in records_of(stored)} == {NOW_MS}
    assert only(scan_headers(stored)).max_timestamp == NOW_MS


def test_with_acks_0_a_batch_is_recompressed_and_not_answered() -> None:
    broker = FakeBroker()
    broker.create("a", config={"compression.type": "lz4"})

    assert broker.ask(0, 9, acks=0, topic_data=one("a", rows(b"k"))) is None
    assert broker.log("a").log_end_offset == 1


def test_with_acks_0_a_refused_recompression_closes_the_connection() -> None:
    broker = FakeBroker()
    broker.create("a", config={"cleanup.policy": "compact"})
    [data] = encode([b"no key"], compression="gzip")

    with pytest.raises(PeerError):
        broker.ask(0, 9, acks=0, topic_data=one("a", data))


def test_a_partition_that_waits_for_recompression_is_answered_with_the_others() -> None:
    broker = FakeBroker()
    broker.create("a", 2)
    broker.create("b", config={"compression.type": "gzip"})

    answer = broker.ask(0, 9, acks=1, topic_data=[*one("b", rows(b"k")), *one("a", rows(b"k"))])

    codes = [
        (each["name"], only(each["partition_responses"])["error_code"])
        for each in answer["responses"]
    ]
    assert codes == [("b", 0), ("a", 0)]


def test_a_long_request_is_appended_whole_if_the_producer_disconnects_while_it_is_read() -> None:
    """With acks=0 a producer may close its connection as soon as it has sent the request."""
    broker = FakeBroker()
    count = 1_100  # so many that their names are read in two steps
    broker.create("a", count)
    parts = [{"index": index, "records": batch()} for index in range(count)]

    async def scenario() -> list[int]:
        data = [{"name": "a", "partition_data": parts}]
        asked = asyncio.create_task(broker.ask_soon(0, 9, acks=0, topic_data=data))
        await asyncio.sleep(0)
        asked.cancel()
        for _ in range(100):
            await asyncio.sleep(0)
        return [broker.log("a", index).log_end_offset for index in range(count)]

    assert asyncio.run(scenario()) == [1] * count


def test_a_long_request_is_appended_whole_even_if_the_producer_disconnects() -> None:
    """With acks=0 a producer may close its connection as soon as it has sent the request."""
    broker = FakeBroker()
    count = 3 * PRODUCE_BYTES_PER_STEP // PRODUCE_PARTITION_BYTES
    broker.create("a", count)
    logs = [broker.log("a", index) for index in range(count)]
    parts = [{"index": index, "records": batch()} for index in range(count)]

    async def scenario() -> list[int]:
        data = [{"name": "a", "partition_data": parts}]
        asked = asyncio.create_task(broker.ask_soon(0, 9, acks=0, topic_data=data))
        while logs[0].log_end_offset == 0:
            await asyncio.sleep(0)
        assert logs[-1].log_end_offset == 0
        asked.cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        return [log.log_end_offset for log in logs]

    assert asyncio.run(scenario()) == [1] * count


def test_refused_batches_are_steps_like_appended_ones(broker: FakeBroker) -> None:
    steps = 10
    count = steps * PRODUCE_BYTES_PER_STEP // PRODUCE_PARTITION_BYTES
    broker.create("b", count)

    for name, records in (("unknown", batch()), ("b", old_message(1))):
        parts = [{"index": index, "records": records} for index in range(count)]
        data = [{"name": name, "partition_data": parts}]
        assert broker.turns(0, 9, acks=1, topic_data=data) >= steps


@pytest.mark.parametrize(
    ("version", "code"),
    [(12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (13, ErrorCode.UNKNOWN_TOPIC_ID)],
)
def test_a_topic_that_is_deleted_before_its_append_is_unknown(
    broker: FakeBroker, version: int, code: ErrorCode
) -> None:
    topic = broker.topics.get("a")
    assert topic is not None
    place = Place("a", topic.topic_id, 0)
    found = Batch(topic, broker.log("a"), batch())
    share: Any = None
    request: Request[Any] = Request(version, None, {"acks": -1, "transactional_id": None}, share)
    asyncio.run(broker.topics.delete(topic))

    outcomes = asyncio.run(
        append_all(request, broker.session, {place: found}, StepBudget(PRODUCE_BYTES_PER_STEP))
    )

    assert outcomes == {place: Refused(code)}


# ---- partitions with replicas on other brokers ---------------------------------------------------


@pytest.fixture
def replicated(broker: FakeBroker) -> FakeBroker:
    """Broker whose partition "a" 0 has replicas that have not copied anything yet."""
    broker.log("a").is_replicated = True
    broker.log("a").is_held = True
    return broker


@pytest.mark.parametrize(("acks", "error"), [(-1, 19), (1, 0)])
def test_only_acks_all_needs_enough_replicas_in_sync(
    broker: FakeBroker, acks: int, error: int
) -> None:
    broker.log("a").lacks_replicas = True

    answer = produce(broker, 9, batch(), acks=acks)

    assert answer["error_code"] == error
    assert broker.log("a").log_end_offset == (0 if error else 1)


def test_acks_all_waits_for_replicas_until_the_timeout(replicated: FakeBroker) -> None:
    answer = produce(replicated, 9, batch(), timeout_ms=20)

    assert (answer["error_code"], answer["base_offset"]) == (7, -1)
    assert replicated.log("a").log_end_offset == 1

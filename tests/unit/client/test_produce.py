"""Encoded batches to the leaders of their partitions."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from broker import codec
from broker.client.metadata import Cluster
from broker.client.pool import Pool
from broker.client.produce import Producer
from broker.client.transactions import ProducerId
from broker.codec import Fields
from broker.model import limits
from broker.model.errors import ErrorCode, RequestError
from tests.support.manual_clock import ManualClock
from tests.support.scripted_broker import ScriptedBroker, metadata_of, scripted_broker

ID = "0123456789abcdef" * 2
FIRST, SECOND, THIRD = (codec.encode([value])[0] for value in (b"1", b"2", b"3"))
FENCED = codec.error_named("INVALID_PRODUCER_EPOCH").code
DUPLICATE = codec.error_named("DUPLICATE_SEQUENCE_NUMBER").code
NOT_LEADER = codec.error_named("NOT_LEADER_OR_FOLLOWER").code

OnBatch = Callable[[int, bytes], int | None]


def sent(body: Fields) -> dict[int, bytes]:
    """Return the batches of a request to topic t, by partition."""
    [topic] = body["topic_data"]
    return {each["index"]: bytes(each["records"]) for each in topic["partition_data"]}


@contextmanager
def serving(on_batch: OnBatch) -> Iterator[tuple[ScriptedBroker, Producer]]:
    """A leader of topic t that returns a code for each batch; None closes the connection."""

    def answer(api: str, _version: int, body: Fields) -> Fields | None:
        if api != "Produce":
            return metadata_of(broker.address, {"t": ID}, 3)
        codes = {number: on_batch(number, batch) for number, batch in sent(body).items()}
        if None in codes.values():
            return None
        parts = [
            {"index": number, "error_code": code, "base_offset": 7}
            for number, code in codes.items()
        ]
        return {"responses": [{"name": "t", "partition_responses": parts}]}

    pool = Pool(ManualClock())
    with scripted_broker(answer) as broker:
        cluster = Cluster([broker.address], give_up_seconds=10, pool=pool)
        yield broker, Producer(cluster, ProducerId(9, 0))
        pool.close()


def test_a_request_has_one_batch_per_partition_and_keeps_the_order_within_partitions() -> None:
    with serving(lambda *_: 0) as (broker, producer):
        producer.send({("t", 0): [FIRST, SECOND], ("t", 1): [THIRD]})

    assert [sent(each) for each in broker.of("Produce")] == [{0: FIRST, 1: THIRD}, {0: SECOND}]


def test_every_batch_has_base_offset_0_because_the_leader_assigns_offsets() -> None:
    whole = codec.encode([b"1", b"2"], timestamp_ms=0, batch_bytes_max=len(FIRST) + 1)
    alone = [codec.encode([each], timestamp_ms=0)[0] for each in (b"1", b"2")]
    with serving(lambda *_: 0) as (broker, producer):
        producer.send({("t", 0): whole})

    assert codec.scan_headers(whole[1])[0].base_offset == 1
    assert [sent(each) for each in broker.of("Produce")] == [{0: each} for each in alone]


def test_a_request_does_not_exceed_the_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.client.produce.CLIENT_PRODUCE_BYTES", len(FIRST) + len(SECOND))
    with serving(lambda *_: 0) as (broker, producer):
        producer.send({("t", 0): [FIRST], ("t", 1): [SECOND], ("t", 2): [THIRD]})

    assert [sent(each) for each in broker.of("Produce")] == [{0: FIRST, 1: SECOND}, {2: THIRD}]
    assert len(FIRST) < limits.CLIENT_PRODUCE_BYTES


def test_a_request_whose_response_is_lost_is_sent_again() -> None:
    answers = iter([None, 0])
    with serving(lambda *_: next(answers)) as (broker, producer):
        producer.send({("t", 0): [FIRST]})

    assert [sent(each) for each in broker.of("Produce")] == [{0: FIRST}, {0: FIRST}]


def test_only_the_batch_without_a_leader_is_sent_again() -> None:
    answers = iter([0, NOT_LEADER, 0])
    with serving(lambda *_: next(answers)) as (broker, producer):
        producer.send({("t", 0): [FIRST], ("t", 1): [SECOND]})

    assert [sent(each) for each in broker.of("Produce")][1:] == [{1: SECOND}]


def test_a_batch_that_the_leader_reports_as_duplicate_counts_as_written() -> None:
    with serving(lambda *_: DUPLICATE) as (broker, producer):
        producer.send({("t", 0): [FIRST]})

    assert len(broker.of("Produce")) == 1


def test_an_error_names_the_leader_and_the_partition() -> None:
    with serving(lambda *_: FENCED) as (broker, producer):
        with pytest.raises(RequestError, match=f"{broker.address}.* t-2") as caught:
            producer.send({("t", 2): [FIRST]})
        assert len(broker.of("Produce")) == 1

    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_continue_in_each_partition_and_wrap_after_the_largest() -> None:
    producer = Producer(Cluster([]), ProducerId(9, 2))
    largest = (1 << 31) - 1

    def sequence_of(partition: int, *values: bytes) -> int:
        [batch] = producer.encode(("t", partition), [(None, each) for each in values])
        return codec.scan_headers(batch)[0].base_sequence

    assert [sequence_of(0, b"a", b"b"), sequence_of(0, b"c")] == [0, 2]
    producer.next_sequences["t", 0] = largest
    assert [sequence_of(0, b"a", b"b", b"c"), sequence_of(0, b"d")] == [largest, 2]
    assert sequence_of(1, b"a") == 0

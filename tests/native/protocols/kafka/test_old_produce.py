"""The native path of a Produce with message sets (KIP-31, KIP-32)."""

import errno

import pytest

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from broker.codec import records, schema, up_convert
from broker.model.limits import OLD_MESSAGES_BYTES_MAX
from tests.oracles.message_set_oracle import Message, encode
from tests.support.native_log import NOW_MS, Logs, batches, placed
from tests.support.native_wire import PRODUCE, Client, Wire, partition, produce, response

SET = encode([Message(7, b"k", b"v", magic=magic, timestamp=NOW_MS) for magic in (0, 1)])
pytestmark = pytest.mark.parametrize("version", [0, 1, 2])


def test_a_message_set_is_appended_as_a_batch_and_answered(
    client: Client, log: PartitionLog, version: int
) -> None:
    client.ask(produce(version, (0, SET)))

    answer = partition(client.ask(produce(version, (0, SET))))

    assert (answer["error_code"], answer["base_offset"]) == (0, 2)
    assert answer["log_append_time_ms"] == -1
    [batch] = up_convert(SET, base_offset=0)
    assert batches(log.read(0, 1 << 20)) == [placed(batch, 0), placed(batch, 2)]
    assert not client.wire.slow


def test_message_sets_of_several_partitions_are_kept_apart(logs: Logs, version: int) -> None:
    wire = Wire(logs)
    partitions = [logs.create(number, is_group_commit=False) for number in range(3)]
    wire.serve(*partitions)
    sets = [encode([Message(value=b"%d" % place)] * (place + 1)) for place in range(3)]

    wire.connect().ask(produce(version, *enumerate(sets)))

    for place, log in enumerate(partitions):
        values = [each.value for each in records(log.read(0, 1 << 20))]
        assert values == [b"%d" % place] * (place + 1)
    wire.close()


def test_a_request_truncated_at_any_length_appends_nothing(
    wire: Wire, log: PartitionLog, version: int
) -> None:
    data = produce(version, (0, SET))
    head = len(data) - len(schema.request(PRODUCE).encode(version, {"topic_data": []}))

    for size in range(head, len(data)):
        client = wire.connect()
        client.send((size - 4).to_bytes(4) + data[4:size])
        client.close()

    assert log.log_end_offset == 0


def test_a_message_set_truncated_at_any_length_is_left_to_python(
    wire: Wire, log: PartitionLog, version: int
) -> None:
    first = len(Message(7, b"k", b"v", magic=0).encode())
    for size in set(range(len(SET))) - {first}:
        client = wire.connect()
        client.send(produce(version, (0, SET[:size])))
        assert client.frames() == []
        client.close()

    assert log.log_end_offset == 0


def test_a_message_set_above_the_native_limit_is_left_to_python(
    client: Client, log: PartitionLog, version: int
) -> None:
    count = OLD_MESSAGES_BYTES_MAX // len(SET) + 1

    client.send(produce(version, (0, SET * count)))

    assert client.frames() == []
    assert log.log_end_offset == 0


def test_acks_0_is_never_answered(client: Client, log: PartitionLog, version: int) -> None:
    client.send(produce(version, (0, SET), acks=0))
    client.send(produce(version, (0, SET), correlation_id=5))

    assert response(PRODUCE, version, client.frame())[0] == 5
    assert log.log_end_offset == 4


def test_a_failed_sync_is_answered_with_not_leader_or_follower(
    durable: Wire, recording: None, version: int
) -> None:
    client = durable.connect()
    file_ops.fail("sync_data", ".log", errno.EIO)

    answer = partition(client.ask(produce(version, (0, SET))))

    assert (answer["error_code"], answer["base_offset"]) == (6, -1)

"""kill -9 and idempotent producers: acknowledged records are stored once, whatever is repeated."""

import random
import uuid
from collections.abc import Callable

import pytest

from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.cursus_client import CursusClient, Message, batch
from tests.support.wire_client import WireClient

StartBroker = Callable[..., BrokerProcess]
CYCLES = 4
WAIT_S = 60.0
BATCH = 5


def body(topic: str, number: int, key: bytes = b"") -> bytes:
    seqs = range(number * BATCH + 1, (number + 1) * BATCH + 1)
    messages = [Message(b"%d" % seq, seq, b"p", key, epoch=7) for seq in seqs]
    return batch(topic, 0, messages)


def payloads(address: str, topic: str) -> list[int]:
    found: list[int] = []
    offset = 0
    with CursusClient(address) as client:
        while True:
            answer = client.consume(f"CONSUME topic={topic} partition=0 offset={offset}")
            if not answer.messages:
                return found
            found += [int(message.payload) for message in answer.messages]
            offset = answer.messages[-1].offset + 1


@pytest.mark.parametrize("durability", ["os", "group-commit"])
def test_batches_sent_again_after_kill_9_are_stored_once(
    start_broker: StartBroker, durability: str
) -> None:
    rng = random.Random(durability)
    broker = start_broker(f"polylog.durability={durability}")
    topic = f"kill-{uuid.uuid4().hex[:8]}"
    with CursusClient(broker.address) as client:
        client.ask(f"CREATE topic={topic} partitions=1 idempotent=true")
    sent = acknowledged = 0

    for _ in range(CYCLES):
        with CursusClient(broker.address) as client:
            for number in range(max(acknowledged - 3, 0), acknowledged):
                assert b'"status":"OK"' in client.answer(body(topic, number)), "again"
            for _ in range(rng.randint(5, 60)):
                assert b'"status":"OK"' in client.answer(body(topic, acknowledged))
                acknowledged += 1
            sent = acknowledged + 3
            for number in range(acknowledged, sent):
                client.send(body(topic, number))  # in flight at the kill
            broker.kill()
        broker.start()

    found = payloads(broker.address, topic)
    assert found == list(range(1, len(found) + 1))
    assert acknowledged * BATCH <= len(found) <= sent * BATCH


def test_a_producers_sequence_is_known_after_all_its_records_are_deleted(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    topic = f"gone-{uuid.uuid4().hex[:8]}"
    with CursusClient(broker.address) as client:
        client.ask(f"CREATE topic={topic} partitions=1 idempotent=true")
        for number in range(3):
            client.answer(body(topic, number))
    with WireClient(broker.address) as wire:
        partition = {"partition_index": 0, "offset": 3 * BATCH}
        wire.request(
            "DeleteRecords",
            1,
            {"topics": [{"name": topic, "partitions": [partition]}], "timeout_ms": 10_000},
        )
    broker.kill()
    broker.start()

    with CursusClient(broker.address) as client:
        assert f'"last_offset":{3 * BATCH - 1},' in client.ask(body(topic, 1))
        assert f'"last_offset":{4 * BATCH - 1},' in client.ask(body(topic, 3))
        assert "idempotency gap" in client.ask(body(topic, 999))
    assert payloads_from(broker.address, topic, 3 * BATCH) == list(range(16, 21))


def payloads_from(address: str, topic: str, offset: int) -> list[int]:
    with CursusClient(address) as client:
        answer = client.consume(f"CONSUME topic={topic} partition=0 offset={offset}")
    return [int(message.payload) for message in answer.messages]


def test_a_producers_sequence_is_known_after_retention_has_deleted_its_records(
    start_broker: StartBroker,
) -> None:
    broker = start_broker(
        "log.retention.check.interval.ms=300", "log.segment.bytes=1024", "log.retention.bytes=1024"
    )
    topic = f"short-{uuid.uuid4().hex[:8]}"
    with CursusClient(broker.address) as client:
        client.ask(f"CREATE topic={topic} partitions=1 idempotent=true")
        for number in range(40):
            assert b'"status":"OK"' in client.answer(body(topic, number))
        wait_until(
            lambda: "earliest=0:" not in client.ask(f"LIST_OFFSETS topic={topic}"),
            "records are gone",
            WAIT_S,
        )
    broker.kill()
    broker.start()

    with CursusClient(broker.address) as client:
        assert f'"last_offset":{40 * BATCH - 1},' in client.ask(body(topic, 0))
        assert f'"last_offset":{41 * BATCH - 1},' in client.ask(body(topic, 40))


@pytest.mark.parametrize("ending", ["kill", "stop"])
@pytest.mark.parametrize("durability", ["os", "group-commit"])
def test_a_producers_sequence_is_known_after_compaction_has_removed_its_records(
    start_broker: StartBroker, durability: str, ending: str
) -> None:
    broker = start_broker(f"polylog.durability={durability}", "log.cleaner.backoff.ms=100")
    topic = f"compact-{uuid.uuid4().hex[:8]}"
    with CursusClient(broker.address) as client:
        client.ask(f"CREATE topic={topic} partitions=1 idempotent=true")
    with WireClient(broker.address) as wire:
        wire_requests.alter_topic(
            wire,
            topic,
            {
                "cleanup.policy": "compact",
                "segment.bytes": "1024",
                "min.cleanable.dirty.ratio": "0.01",
            },
        )
    early = batch(topic, 0, [Message(b"0", seq, b"early", b"k", epoch=7) for seq in (1, 2, 3)])
    with CursusClient(broker.address) as client:
        assert b'"last_offset":2,' in client.answer(early), "the next one overwrites all of it"
        for number in range(40):
            assert b'"status":"OK"' in client.answer(body(topic, number, key=b"k"))
        whole = 40 * BATCH
        wait_until(
            lambda: len(payloads(broker.address, topic)) < whole // 2, "it is compacted", WAIT_S
        )
        assert b'"status":"OK"' in client.answer(body(topic, 41, key=b"k")), "a gap: 40 is missing"
    if ending == "kill":
        broker.kill()
    else:
        assert broker.stop() == 0
    broker.start()

    with CursusClient(broker.address) as client:
        for number in (0, 20, 39, 41):
            answer = client.ask(body(topic, number, key=b"k"))
            assert f'"last_offset":{41 * BATCH + 2},' in answer, "it is there"
        assert f'"last_offset":{41 * BATCH + 2},' in client.ask(early), "and so is this"
        assert "idempotency gap" in client.ask(body(topic, 999, key=b"k"))
        assert f'"last_offset":{42 * BATCH + 2},' in client.ask(body(topic, 40, key=b"k"))
        assert f'"last_offset":{43 * BATCH + 2},' in client.ask(body(topic, 42, key=b"k"))


def test_batches_sent_while_the_topic_was_not_idempotent_are_recognized_later(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    topic = f"asks-{uuid.uuid4().hex[:8]}"
    with CursusClient(broker.address) as client, WireClient(broker.address) as wire:
        client.ask(f"CREATE topic={topic} partitions=1 idempotent=true")
        client.ask(body(topic, 0))
        wire_requests.alter_topic(wire, topic, {"polylog.cursus.idempotent": "false"})
        client.ask(body(topic, 1))
        wire_requests.alter_topic(wire, topic, {"polylog.cursus.idempotent": "true"})

        assert f'"last_offset":{2 * BATCH - 1},' in client.ask(body(topic, 1))
        assert f'"last_offset":{3 * BATCH - 1},' in client.ask(body(topic, 2))
    assert payloads(broker.address, topic) == list(range(1, 3 * BATCH + 1))

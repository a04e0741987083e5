"""Cursus's commands and batches that another broker serves."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from broker.core.cluster.records import NO_LEADER
from broker.model.address import Address
from broker.protocols.base import Answer, Immediate
from broker.protocols.cursus.dispatch import PROTOCOL
from tests.support.cursus_client import Message, batch, envelope
from tests.support.fakes import FakeBroker
from tests.support.scripted_upstream import Upstream, clustered

MARK = b"FORWARDED client=127.0.0.1 revision=7 structured=false"
BATCH = batch("t", 1, [Message(b"x", 1)])
UNREAD = batch("t", 1, [Message(b"x", 1)], acks=b"0")


def _fakes() -> FakeBroker:
    """Return a broker that leads partition 0 of a topic, and not 1 and 2."""
    fakes = FakeBroker()
    topic = fakes.create("t", 3)
    topic.logs[1] = topic.logs[2] = None
    return fakes


def _echo(body: bytes) -> bytes:
    return b"from 2: " + body


async def _asked(
    fakes: FakeBroker,
    *bodies: bytes,
    answer: Callable[[bytes], bytes] = _echo,
    leader: int = 2,
) -> tuple[list[Immediate], list[bytes]]:
    """Return the answers, and what the other broker was sent."""
    protocol, session = PROTOCOL(), fakes.session
    answers: list[Immediate] = []

    def upstream_answer(_: int, body: bytes) -> bytes:
        return b"OK forwarding=true" if body.startswith(b"FORWARDED ") else answer(body)

    async with Upstream(upstream_answer) as upstream:
        session.broker = clustered(fakes.broker, upstream.address, leader=leader)
        for body in bodies:
            reply = protocol.handle(0, 0, None, body, session)
            assert isinstance(reply, Awaitable)
            answers.append(await reply)
        assert session.broker.links is not None
        session.broker.links.close()
    return answers, upstream.bodies


@pytest.mark.parametrize(
    "body",
    [
        BATCH,
        envelope(BATCH),
        b"PUBLISH topic=t partition=2 producerId=p message=x",
        b"CONSUME topic=t partition=1 offset=0 member=m",
        b"CONSUME t 1 0",
        envelope("LIST_OFFSETS topic=t partition=2"),
    ],
)
def test_a_frame_for_a_partition_of_another_leader_is_sent_there_as_it_is(body: bytes) -> None:
    answers, sent = asyncio.run(_asked(_fakes(), body))
    assert sent == [MARK, body]
    assert answers == [_echo(body)]


@pytest.mark.parametrize(
    "body", [UNREAD, b"PUBLISH topic=t partition=1 acks=0 producerId=p message=x"]
)
def test_the_response_to_acks_0_may_be_dropped(body: bytes) -> None:
    answers, _ = asyncio.run(_asked(_fakes(), body))
    assert answers == [Answer(_echo(body), is_droppable=True)]


def test_a_negotiated_feature_is_part_of_the_mark() -> None:
    negotiate = b"NEGOTIATE version=1 features=structured_errors_v1"
    _, sent = asyncio.run(_asked(_fakes(), BATCH, negotiate, BATCH))
    assert sent == [MARK, BATCH, MARK.replace(b"false", b"true"), BATCH]


@pytest.mark.parametrize("body", [BATCH, b"CONSUME topic=t partition=1 offset=0 member=m"])
def test_without_a_leader_the_client_asks_this_broker_again(body: bytes) -> None:
    answers, sent = asyncio.run(_asked(_fakes(), body, leader=NO_LEADER))
    assert answers == [b"ERROR: NOT_LEADER LEADER_IS broker.example:9092"]
    assert sent == []


def test_a_forwarded_frame_is_not_forwarded_again() -> None:
    answers, sent = asyncio.run(_asked(_fakes(), MARK, BATCH))
    assert answers == [
        b"OK forwarding=true",
        b"ERROR: NOT_LEADER LEADER_IS broker.example:9092",
    ]
    assert sent == []


def test_a_forwarded_message_without_a_partition_goes_to_an_own_one() -> None:
    fakes = _fakes()
    publish = b"PUBLISH topic=t producerId=p message=x"
    answers, _ = asyncio.run(_asked(fakes, MARK, publish, publish))
    assert all(isinstance(each, bytes) and b'"status":"OK"' in each for each in answers[1:])


def test_a_pattern_is_read_at_the_other_leaders_too() -> None:
    body = b"CONSUME topic=* partition=1 offset=0 wait_ms=0"
    answers, sent = asyncio.run(_asked(_fakes(), body, answer=lambda _: b"ERROR: of 2"))
    assert sent == [MARK, body]
    assert answers == [b"ERROR: of 2"]


def test_offsets_are_those_of_all_leaders() -> None:
    entries = b"P1:earliest=1:latest=5:leo=5:hwm=5,P2:earliest=0:latest=7:leo=8:hwm=7"
    answers, sent = asyncio.run(
        _asked(
            _fakes(),
            b"LIST_OFFSETS topic=t",
            b"DESCRIBE topic=t",
            answer=lambda _: b"OK topic=t partitions=3 offsets=" + entries,
        )
    )
    own = b"OK topic=t partitions=3 offsets=P0:earliest=0:latest=0:leo=0:hwm=0,"
    assert answers[0] == own + entries
    described = answers[1]
    assert isinstance(described, bytes)
    assert described.count(b'"leader": "broker.example:9092"') == 1
    assert b'"leo": 8,\n      "hwm": 7' in described
    assert sent == [MARK, b"LIST_OFFSETS topic=t", b"LIST_OFFSETS topic=t"]


def test_another_broker_is_told_the_own_offsets_only() -> None:
    answers, sent = asyncio.run(_asked(_fakes(), MARK, b"LIST_OFFSETS topic=t"))
    shown = b"OK topic=t partitions=3 offsets=P0:earliest=0:latest=0:leo=0:hwm=0"
    assert answers[1] == shown
    assert sent == []


def test_a_worker_of_this_host_is_where_the_client_has_found_this_one() -> None:
    fakes = _fakes()

    async def ask() -> Immediate:
        fakes.session.broker = clustered(fakes.broker, Address("0.0.0.0", 9094))
        reply = PROTOCOL().handle(0, 0, None, b"METADATA topic=t", fakes.session)
        assert isinstance(reply, Awaitable)
        return await reply

    answer = asyncio.run(ask())
    assert isinstance(answer, bytes)
    leaders = b"broker.example:9092,broker.example:9094,broker.example:9094"
    assert b" leaders=" + leaders + b" " in answer


def test_leaders_and_their_epochs_are_those_of_the_cluster() -> None:
    fakes = _fakes()
    answers, _ = asyncio.run(_asked(fakes, b"METADATA topic=t"))
    [answer] = answers
    assert isinstance(answer, bytes)
    assert b" epochs=3,3,3 " in answer


@pytest.mark.parametrize(
    "command", [b"CHECK_MEMBER topic=t group=g member=m generation=1", b"STAGE_OFFSETS topic=t"]
)
def test_clients_may_not_send_commands_of_brokers(command: bytes) -> None:
    answers, _ = asyncio.run(_asked(_fakes(), command))
    [answer] = answers
    assert isinstance(answer, bytes)
    assert answer.startswith(b"ERROR: unknown_command ")


STAGE = b"STAGE transactional_id=x topic=t partition=0 producerId=5 epoch=1 seqNum=1 message=m"


@pytest.mark.parametrize("is_good", [True, False])
def test_a_record_that_another_broker_stages_is_durable_before_the_answer(is_good: bool) -> None:
    fakes, protocol = _fakes(), PROTOCOL()

    async def run() -> bytes:
        topic = fakes.topics.get("t")
        assert topic is not None
        log: Any = topic.logs[0]
        log.admit_transaction(5, 1)
        log.is_held = True
        session = fakes.session
        session.broker = clustered(fakes.broker, None)
        accepted, staged = (protocol.handle(0, 0, None, each, session) for each in (MARK, STAGE))
        assert isinstance(accepted, Awaitable)
        assert isinstance(staged, Awaitable)
        await accepted
        answer = asyncio.ensure_future(staged)
        while not log.batches:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not answer.done(), "the coordinator would decide before the record is durable"
        log.sync() if is_good else log.fail()
        found = await answer
        assert isinstance(found, bytes)
        return found

    answer = asyncio.run(asyncio.wait_for(run(), 20))
    assert answer.startswith(b"OK" if is_good else b"ERROR: ")


def test_a_record_that_the_coordinator_sends_again_is_staged_once_in_a_transaction() -> None:
    fakes, protocol = _fakes(), PROTOCOL()
    topic = fakes.topics.get("t")
    assert topic is not None
    log: Any = topic.logs[0]
    log.admit_transaction(5, 1)

    async def run() -> None:
        session = fakes.session
        session.broker = clustered(fakes.broker, None)

        async def staged(body: bytes) -> int:
            reply = protocol.handle(0, 0, None, body, session)
            assert isinstance(reply, Awaitable)
            answer = await reply
            assert isinstance(answer, bytes)
            assert answer.startswith(b"OK")
            return len(log.batches)

        assert await staged(MARK) == 0
        assert await staged(STAGE) == 1
        log.producers = [(5, 1, 0, 0, 0, 0)]  # its transaction starts at offset 0
        assert await staged(STAGE) == 1, "its answer was lost"
        assert await staged(STAGE + b"2") == 2
        assert await staged(STAGE.replace(b"seqNum=1", b"seqNum=2")) == 3
        log.producers = [(5, 1, 0, 0, 0, -1)]  # it has ended
        assert await staged(STAGE.replace(b"seqNum=1", b"seqNum=2")) == 4
        log.producers = [(5, 1, 0, 0, 0, 4)]  # the next one
        assert await staged(STAGE.replace(b"seqNum=1", b"seqNum=2")) == 5

    asyncio.run(run())

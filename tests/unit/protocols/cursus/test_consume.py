"""CONSUME where records cannot be read, and where it waits for them."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from broker.codec.control_records import Marker, encode_marker
from broker.codec.encoding import encode
from broker.core import reading
from broker.protocols.base import Answer
from broker.protocols.cursus import PROTOCOL
from tests.cursus_client import Batch, read_batch
from tests.fakes import World

WAIT_S = 20


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Batches that unfold to more than 17 MiB cannot be read."""
    monkeypatch.setattr(reading, "READ_UNFOLDED_BYTES_MAX", 17 << 20)
    return World()


def append(log: Any, *values: bytes) -> None:
    for batch in encode(values, timestamp_ms=0, batch_bytes_max=1 << 30, compression="gzip"):
        log.append(batch)


async def ask(world: World, command: str) -> Answer:
    answer = PROTOCOL.handle(0, 0, None, command.encode(), world.session)
    assert isinstance(answer, Awaitable)
    answered: Answer = await answer
    return answered


def consume(world: World, command: str) -> Batch | str:
    """The batch of an answer, or the text of an error."""
    answer = asyncio.run(ask(world, command))
    assert isinstance(answer, bytes)
    return answer.decode() if answer.startswith(b"E") else read_batch(answer, is_original=True)


def offsets(answer: Batch | str) -> list[int]:
    assert isinstance(answer, Batch), answer
    return [each.offset for each in answer.messages]


def test_what_stands_before_records_that_cannot_be_read_is_answered(world: World) -> None:
    log = world.create("t").logs[0]
    append(log, b"a", b"b")
    append(log, bytes(20 << 20), b"lost")
    append(log, b"c")

    assert offsets(consume(world, "CONSUME t 0 0")) == [0, 1]
    assert offsets(consume(world, "CONSUME t 0 4")) == [4]


@pytest.mark.parametrize("offset", [2, 3])
def test_who_asks_for_records_that_cannot_be_read_is_told_which_and_where_to_go_on(
    world: World, offset: int
) -> None:
    log = world.create("t").logs[0]
    append(log, b"a", b"b")
    append(log, bytes(20 << 20), b"lost")

    answer = consume(world, f"CONSUME t 0 {offset}")

    assert isinstance(answer, str)
    assert answer.startswith(
        f"ERROR: command_failed reason=\"records {offset}-3 of topic 't' partition 0 cannot be"
        " read, go on at offset 4: "
    )


def test_a_pattern_names_the_topic_whose_records_cannot_be_read(world: World) -> None:
    append(world.create("t-a").logs[0], b"a")
    append(world.create("t-b").logs[0], bytes(20 << 20))

    answer = consume(world, "CONSUME t-? 0 0")

    assert isinstance(answer, str)
    assert "records 0-0 of topic 't-b' partition 0 cannot be read" in answer


def test_the_latest_records_are_those_behind_the_request(world: World) -> None:
    log = world.create("t").logs[0]
    append(log, b"before")

    async def found() -> Batch:
        waiting = asyncio.ensure_future(ask(world, f"CONSUME t 0 -1 wait_ms={WAIT_S * 1000}"))
        while not log.callback_count:
            await asyncio.sleep(0)
        append(log, b"behind")
        answer = await asyncio.wait_for(waiting, WAIT_S / 2)
        assert isinstance(answer, bytes)
        return read_batch(answer, is_original=True)

    assert offsets(asyncio.run(found())) == [1]


def test_records_that_come_while_others_are_read_are_not_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = world.create("t").logs[0]
    log.admit_transaction(7, 0)
    log.append(encode_marker(Marker(7, 0, False, 0), timestamp_ms=0))  # nobody sees it
    read = log.read

    def read_and_grow(*arguments: Any) -> bytes:
        found: bytes = read(*arguments)
        if log.log_end_offset == 1:
            append(log, b"late")
        return found

    monkeypatch.setattr(log, "read", read_and_grow)

    async def found() -> Batch:
        waiting = ask(world, f"CONSUME t 0 0 wait_ms={WAIT_S * 1000}")
        answer = await asyncio.wait_for(waiting, WAIT_S / 2)
        assert isinstance(answer, bytes)
        return read_batch(answer, is_original=True)

    assert offsets(asyncio.run(found())) == [1]

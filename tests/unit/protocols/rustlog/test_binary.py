"""The binary form: what is read of a request, and what is said when it is cut short."""

import asyncio
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.protocols.rustlog.binary import Binary
from broker.protocols.rustlog.errors import Failure, RefusalError
from broker.protocols.rustlog.messages import (
    Committed,
    Created,
    CreateTopic,
    DescribePartition,
    DescribeTopic,
    Fetch,
    GroupOffset,
    ListTopics,
    Metrics,
    MetricsFetch,
    OffsetCommit,
    OffsetFetch,
    PartitionEnd,
    Ping,
    Pong,
    Produce,
    Produced,
    Run,
    TopicEnds,
    TopicList,
)

BINARY = Binary()
RUN = b"\0\0\0\2hi\0\0\0\0"
U32 = (7).to_bytes(4)
U64 = (9).to_bytes(8)


def parse(body: bytes) -> Any:
    """Parse a request."""
    return asyncio.run(BINARY.parse(body))


def refused(body: bytes) -> str:
    """Return the message of the error that a request is answered with."""
    with pytest.raises(RefusalError) as caught:
        parse(body)
    return message(BINARY.refuse(caught.value))[1]


def message(error: bytes) -> tuple[int, str]:
    """Parse an error: its code and message."""
    kind, code, size = struct.unpack_from(">BHH", error)
    assert kind == 0xFE
    assert len(error) == 5 + size
    return code, error[5:].decode()


def text(value: str) -> bytes:
    """Return a string with its length."""
    return len(value.encode()).to_bytes(2) + value.encode()


REQUESTS = [
    (b"\x02" + text("g") + text("t") + U32 + U64 + U32, Fetch("g", "t", 7, 9, 7)),
    (b"\x02" + text("") + text("t") + U32 + U64 + U32, Fetch(None, "t", 7, 9, 7)),
    (b"\x03" + text("g") + text("t") + U32 + U64, OffsetCommit("g", "t", 7, 9)),
    (b"\x04" + text("g") + text("t") + U32, OffsetFetch("g", "t", 7)),
    (b"\x05" + text("t") + U32, CreateTopic("t", 7)),
    (b"\x06", ListTopics()),
    (b"\x07" + text("t\N{SNOWMAN}"), DescribeTopic("t\N{SNOWMAN}")),
    (b"\x08" + text("t") + U32, DescribePartition("t", 7)),
    (b"\x09", MetricsFetch()),
    (b"\xff", Ping()),
]
PRODUCE = b"\x01" + text("t") + U32 + (2).to_bytes(4) + RUN
TRUNCATED = ("topic", "group", "group_id", "record", "record length")
FIELDS = {
    0x01: ["topic length", "topic", "partition", "record count", "record length", "record"],
    0x02: [
        *("group_id length", "group_id", "topic length", "topic", "partition", "offset"),
        "max_bytes",
    ],
    0x03: ["group length", "group", "topic length", "topic", "partition", "offset"],
    0x04: ["group length", "group", "topic length", "topic", "partition"],
    0x05: ["topic length", "topic", "partition count"],
    0x07: ["topic length", "topic"],
    0x08: ["topic length", "topic", "partition"],
}


@pytest.mark.parametrize(("body", "expected"), REQUESTS)
@pytest.mark.parametrize("behind", [b"", b"more"])
def test_a_request_is_parsed_whatever_follows_it(body: bytes, expected: Any, behind: bytes) -> None:
    assert parse(body + behind) == expected


def test_records_are_not_copied() -> None:
    body = PRODUCE + b"more"

    assert parse(body) == Produce("t", 7, Run(body, len(PRODUCE) - len(RUN), 2))


@pytest.mark.parametrize("kind", FIELDS)
def test_a_truncated_field_is_named_as_the_original_names_it(kind: int) -> None:
    whole = PRODUCE if kind == 1 else next(body for body, _ in REQUESTS if body[0] == kind)
    found = dict.fromkeys(refused(whole[:size]) for size in range(1, len(whole)))

    assert list(found) == [
        f"Decode error: decode error: {'truncated' if name in TRUNCATED else 'missing'} {name}"
        for name in FIELDS[kind]
    ]


@pytest.mark.parametrize("kind", [0, 0x0A, 0x0B, 0x7B, 0xFE])
def test_an_unknown_request_type_is_reported_in_decimal(kind: int) -> None:
    assert refused(bytes([kind])) == f"Decode error: unknown request type: {kind}"


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (b"\xff", "invalid utf-8 sequence of 1 bytes from index 0"),
        (b"ab\xe2\x28\xa1", "invalid utf-8 sequence of 1 bytes from index 2"),
        (b"a\xf0\x90\x80", "incomplete utf-8 byte sequence from index 1"),
    ],
)
def test_invalid_utf_8_is_reported_as_rust_reports_it(name: bytes, what: str) -> None:
    body = b"\x07" + len(name).to_bytes(2) + name

    assert refused(body) == f"Decode error: decode error: invalid utf8 topic: {what}"


def test_the_record_count_that_crashes_the_original_is_refused() -> None:
    body = b"\x01" + text("demo") + (0).to_bytes(4) + b"\xff\xff\xff\xff"

    assert len(body) + 4 == 19
    assert refused(body) == "Decode error: decode error: truncated record length"


@given(st.binary(min_size=1, max_size=60))
def test_arbitrary_bytes_are_a_request_or_refused(body: bytes) -> None:
    try:
        parse(body)
    except RefusalError as error:
        code, said = message(BINARY.refuse(error))
        assert code == 2
        assert said.startswith("Decode error: ")


ENDS = b"\0\0\0\2" * 2 + b"\0\0\0\0" + (8).to_bytes(8) + b"\0\0\0\1" + (9).to_bytes(8)


@pytest.mark.parametrize(
    ("response", "body"),
    [
        (Produced(0x0102, 3), b"\x01" + (0x0102).to_bytes(8) + b"\0\0\0\3"),
        (Committed(), b"\x03\x01"),
        (GroupOffset(None), b"\x04\x00"),
        (GroupOffset(5), b"\x04\x01" + (5).to_bytes(8)),
        (Created(), b"\x05\x01"),
        (TopicList([]), b"\x06\0\0\0\0"),
        (TopicList([("t", 2)]), b"\x06\0\0\0\1\0\1t\0\0\0\2"),
        (TopicEnds("t", 2, [(0, 8), (1, 9)]), b"\x07\0\1t" + ENDS),
        (PartitionEnd("t", 3, 4), b"\x08\0\1t\0\0\0\3" + (4).to_bytes(8)),
        (Metrics("a 1\n"), b"\x09\0\0\0\4a 1\n"),
        (Pong(), b"\xff"),
    ],
)
def test_a_response_is_written_as_the_original_writes_it(response: Any, body: bytes) -> None:
    assert asyncio.run(BINARY.write(response)) == body


def test_a_list_of_topics_is_truncated_at_the_frame_limit() -> None:
    body = asyncio.run(BINARY.write(TopicList([(f"{number:0249}", 1) for number in range(50_000)])))

    assert 10_485_760 - 255 < len(body) <= 10_485_760
    assert int.from_bytes(body[1:5]) == (len(body) - 5) // 255


def test_an_error_message_is_truncated_to_its_length_field() -> None:
    error = RefusalError(Failure.NO_PARTITION, topic="\N{SNOWMAN}" * 21_840, partition=0)

    code, said = message(BINARY.refuse(error))

    assert code == 10
    assert len(said.encode()) in range(0xFFFF - 3, 0x10000)


@pytest.mark.parametrize("failure", Failure)
def test_every_failure_has_an_error_text(failure: Failure) -> None:
    names = ("size", "size_max", "kind", "what", "reason", "topic", "partition", "count")
    error = RefusalError(failure, **dict.fromkeys(names, "{x}"))

    assert message(BINARY.refuse(error)) == (failure.value.code, error.text)
    assert error.text
    assert error.json

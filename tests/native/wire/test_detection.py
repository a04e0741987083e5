"""The protocol of a connection's first bytes: a test per row and ambiguity of decision 0003."""

import struct

import pytest

from broker._native.wire import detection
from broker.model.config import Config
from broker.model.protocol_names import PROTOCOL_NAMES
from broker.protocols.registry import PROTOCOLS
from tests.support.compressed import raw_snappy
from tests.support.cursus_client import Message, batch

SERVED = {each.name: each().native_protocol(Config()) for each in PROTOCOLS}


def detect(first_bytes: bytes) -> str | None:
    """Return what is detected where every protocol is served."""
    return detection.detect(SERVED, first_bytes)


def frame(*payload: bytes, size: int | None = None) -> bytes:
    """Return a payload with its length, or with another one."""
    content = b"".join(payload)
    return struct.pack(">i", len(content) if size is None else size) + content


KAFKA = frame(struct.pack(">hhih", 18, 3, 1, 0), b"\0\0\0")

CURSUS_BATCH = frame(batch("t", 2, [Message(b"hi", 1, b"p", b"k", 5)]))
RAW_SNAPPY = raw_snappy(batch("t", 2, [Message(b"hi" * 100, 1, b"p", b"k", 5)]))


ROWS = [
    (b"\x16\x03\x01\x02\x00", ""),
    (b"\n", "v1"),
    (b"\r\n", "v1"),
    (b"ab\n", "v1"),
    (b"GET / HTTP/1.1\r\n", "http"),
    (b"POST /", "http"),
    (b"HEAD /", "http"),
    (b"V1|1|PRODUCE|t k:v\n", "v1"),
    (b"get ", "v1"),
    (b"    ", "v1"),
    (b"abc\n", "v1"),
    (frame(b'{"Fetch":{}}'), "rustlog"),
    (frame(b"\n {}"), "rustlog"),
    (frame(b""), "rustlog"),
    (frame(b"\x01\x00\x04demo"), "rustlog"),
    (frame(b"\x09"), "rustlog"),
    (frame(b"\xff"), "rustlog"),
    (frame(b"\x01\0\1t", size=10_485_761), "rustlog"),
    (frame(b"\xff", size=9), "rustlog"),  # no Kafka request is so short
    (frame(b"\x03\xe7\0\0", size=20), ""),  # API key 999, which Kafka does not have
    (frame(b"\xff\xf9\0\0\0\0\0\1", size=20), ""),  # API key -7
    (frame(b"\x06\0\0\0", size=20), ""),  # a type without fields, and fields
    (frame(b"\x0b"), ""),
    (frame(b"\xfe"), ""),
    (KAFKA, "kafka"),
    (frame(b"\0\0\0\0", size=9), ""),  # no Kafka request is so short
    (frame(b"\0\x7f\0\0", size=10), "kafka"),
    (frame(b"\0\x80\0\0", size=10), ""),  # no such key
    (frame(b"\0\0\0\x80", size=10), ""),  # no such version
    (frame(b"\0\0\xff\xff", size=10), ""),
    (b"\xff\xff\xff\xff\0\0\0\0", ""),
    (CURSUS_BATCH, "cursus"),
    (frame(b"\xba\x7c", size=64 << 20), "cursus"),
    (frame(b"\xba\x7c\0\1t\0", size=(64 << 20) + 1), ""),
    (frame(b"\xba\x7d\0\0"), ""),
    (frame(b"LIST"), "cursus"),
    (frame(b"list\n"), "cursus"),
    (frame(b"LIST") + frame(b"LIST"), "cursus"),
    (frame(b"CREATE topic=t"), "cursus"),
    (frame(b"INIT_PRODUCER_ID transactional_id=t"), "cursus"),
    (frame(b"CREATE=topic"), ""),
    (frame(b"A" * 19 + b" "), "cursus"),
    (frame(b"A" * 20 + b" "), ""),
    (frame(b"\0\0LIST"), "cursus"),
    (frame(b"\0\0 LIST"), "cursus"),
    (frame(b"\0\5adminCREATE topic=t"), "cursus"),
    (frame(b"\0\1*CONSUME topic=*"), "cursus"),
    (frame(b"\0\0\xba\x7c\0\1t"), "cursus"),
    (frame(b"\0\0\x1f\x8b\x08"), "cursus"),
    (frame(b"\0\0\0\7", size=20), "kafka"),  # Produce v7: its third byte is that of a version
    (frame(b"\0\x41\0\0", size=20), "kafka"),  # as an envelope, a topic of NULs
    (frame(b"\0\0\x01\0", size=20), ""),
    (frame(b"\x1f\x8b\x08\0"), "cursus"),
    (frame(b"\x82SNAPPY\0\0\0\0\1"), "cursus"),
    (frame(b"\x82SNAPPX\0\0\0\0\1"), ""),
    (frame(b"\x04\x22\x4d\x18"), "cursus"),
    (frame(b"\x04\x00\x01g\0\1t\0\0\0\0"), "rustlog"),  # its OffsetFetch
    (frame(b"\x28\xb5\x2f\xfd"), "cursus"),
    (frame(RAW_SNAPPY), "cursus"),
    (frame(b"\xff\x01\xf0\xb0\xba\x7c\0\1t", size=40), "cursus"),  # of 255 bytes
    (frame(b"\x7b\xf0\x7a\xba\x7c\0\1t", size=40), "cursus"),  # 123 bytes: `{`
    (frame(b"\x54\x54\xba\x7c\0\1t", size=40), "cursus"),  # of 84 bytes: T, and a letter
    (frame(b"\xba\x7c\xf4\0\0\xba\x7c\0\1t", size=40), "cursus"),  # of 15,930 bytes
    (frame(b"\xfe\x01\xf0\xb0\xba\x7d\0\1t", size=40), ""),
    (frame(b"\xfe\x01\x01\xb0\xba\x7c\0\1t", size=40), ""),  # begins with a copy
    (frame(b"\xfe\xff\xff\xff\x0f\0\xba\x7c\0", size=40), ""),  # of 4 GiB
    (b"\x80\0\0\0\0\0\0\0", ""),
]


@pytest.mark.parametrize(("first_bytes", "protocol"), ROWS)
def test_the_first_bytes_identify_the_protocol(first_bytes: bytes, protocol: str) -> None:
    assert detect(first_bytes) == protocol


def test_each_existing_protocol_can_be_detected() -> None:
    assert {protocol for _, protocol in ROWS} == {"", *PROTOCOL_NAMES}


@pytest.mark.parametrize(
    "first_bytes",
    [
        b"V1|1|PING|\n",
        KAFKA,
        frame(b"\x01\x00\x04demo"),
        frame(b"{}"),
        b"GET / HTTP/1.1",
        CURSUS_BATCH,
        frame(b"CREATE topic=t"),
        frame(b"LIST"),
        frame(b"\0\5adminCREATE topic=t"),
        frame(b"\x82SNAPPY\0\0\0\0\1"),
        frame(RAW_SNAPPY),
    ],
)
def test_bytes_that_arrive_one_by_one_give_the_same_protocol(first_bytes: bytes) -> None:
    verdicts = [detect(first_bytes[:size]) for size in range(1, len(first_bytes) + 1)]
    decided = verdicts.index(detect(first_bytes))

    assert verdicts[:decided] == [None] * decided
    assert set(verdicts[decided:]) == {detect(first_bytes)}


def test_no_bytes_are_undecided() -> None:
    assert detect(b"") is None


@pytest.mark.parametrize("first", range(256))
def test_detection_needs_at_most_eight_bytes(first: int) -> None:
    assert detect(bytes([first]) + bytes(7)) is not None


@pytest.mark.parametrize("removed", PROTOCOL_NAMES)
def test_without_a_protocol_the_others_are_detected_as_before(removed: str) -> None:
    others = {name: each for name, each in SERVED.items() if name != removed}
    rows = [row for row in ROWS if row[1] not in {"", removed}]

    assert [(data, detection.detect(others, data)) for data, _ in rows] == rows

"""Values in a CONSUME line, also large ones."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker._native.protocols.v1.line_text import escape_value
from broker.codec.encoding import encode
from broker.model import limits
from broker.protocols.v1.handlers import consume
from tests.support.fakes import FakeLog
from tests.unit.protocols.v1.v1_client import V1Client

PIECES = (b"a", b"hw=", b"h", b"w", b"=", b"%", b",", "é".encode(), "😀".encode(), b"\xff", b"\x80")


def in_steps(value: bytes, piece_bytes: int) -> tuple[bytes, bool]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consume, "V1_VALUE_BYTES_PER_TURN", piece_bytes)
        texts, is_escaped = asyncio.run(consume._escaped_in_steps(memoryview(value)))
    return b"".join(texts), is_escaped


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join), st.integers(4, 9))
def test_a_large_value_is_written_like_a_small_one(value: bytes, piece_bytes: int) -> None:
    assert in_steps(value, piece_bytes) == escape_value(value)


def test_a_value_larger_than_a_line_is_returned_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume, "V1_VALUE_BYTES_PER_TURN", 1_000)
    client = V1Client(message_max_bytes="10000000")
    log = client.fakes.create("t").logs[0]
    large = b"x" * 2_000_000 + b","
    for batch in encode([b"a", large, b"b"], timestamp_ms=0, batch_bytes_max=5_000_000):
        log.append(batch)

    assert client.say("CONSUME t 0 0") == "OK|messages=0:a hw=2"
    alone = client.say("CONSUME t 0 1")
    assert alone == f"OK|messages=1:{'x' * 2_000_000}%2C hw=2 escaped=[1]"


def test_unreadable_records_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "READ_DECOMPRESSED_BYTES_MAX", 17 << 20)
    client = V1Client()
    log = client.fakes.create("t").logs[0]
    for values in ([b"a"], [bytes(20 << 20), b"lost"], [b"b,"]):
        for batch in encode(values, timestamp_ms=0, batch_bytes_max=1 << 30, compression="gzip"):
            log.append(batch)

    assert client.say("CONSUME t 0 0") == ("OK|messages=0:a,3:b%2C hw=3 escaped=[3] skipped=[1]")
    assert client.say("CONSUME t 0 2") == "OK|messages=3:b%2C hw=3 escaped=[3] skipped=[2]"


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ("xxxxa", "messages= hw=4 skipped=[0 1 2]"),
        ("axxxb", "messages=0:a hw=4 skipped=[1 2]"),
        ("axxbx", "messages=0:a hw=4 skipped=[1 2]"),
        ("xabc", "messages=1:a,2:b hw=3 skipped=[0]"),
    ],
)
def test_unreadable_batches_count_towards_the_record_limit_of_a_line(
    monkeypatch: pytest.MonkeyPatch, values: str, answer: str
) -> None:
    monkeypatch.setattr(consume, "V1_CONSUME_RECORDS_MAX", 3)
    client = V1Client()
    log = client.fakes.create("t").logs[0]
    for value in values:
        [batch] = encode([value.encode()], timestamp_ms=0, compression="gzip")
        log.append(batch)
        if value == "x":
            _damage_last(log)

    assert client.say("CONSUME t 0 0") == f"OK|{answer}"


def _damage_last(log: FakeLog) -> None:
    first, last, data = log.batches[-1]
    log.batches[-1] = (first, last, data[:-1] + bytes([data[-1] ^ 0xFF]))

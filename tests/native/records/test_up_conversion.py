"""The native converter of message sets, compared with the codec, which converts by columns."""

import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker._native.records.record_batch import validate
from broker._native.records.up_conversion import convert_messages, read_wrapper
from broker.codec import up_convert
from broker.model.errors import Corrupt
from tests.oracles.message_set_oracle import LOG_APPEND_TIME, Message, encode

GZIP = 1
MAX = 2**63 - 1
contents = st.none() | st.binary(max_size=300)
times = st.sampled_from([-1, 0, 1, 1_700_000_000_000, MAX, -MAX - 1]) | st.integers(-100, 100)


@st.composite
def message_sets(draw: st.DrawFn) -> list[Message]:
    """Return plain messages, which may have log append time."""
    attributes = draw(st.sampled_from([0, 0, LOG_APPEND_TIME]))
    one_time = draw(times)
    return [
        Message(
            offset=draw(st.integers(-1, 5)),
            key=draw(contents),
            value=draw(contents),
            magic=draw(st.sampled_from([0, 1])) if attributes == 0 else 1,
            attributes=attributes,
            timestamp=one_time if attributes else draw(times),
        )
        for _ in range(draw(st.integers(1, 10)))
    ]


@given(message_sets())
@settings(max_examples=300, deadline=None)
def test_a_message_set_becomes_the_batch_that_the_codec_makes_of_it(
    messages: list[Message],
) -> None:
    data = encode(messages)

    batch = convert_messages(data)

    assert [batch] == up_convert(data, base_offset=0)
    assert validate(batch) is None
    assert len(batch) <= 61 + len(data)


@given(message_sets(), times)
@settings(max_examples=100, deadline=None)
def test_the_timestamp_of_a_wrapper_applies_to_all_its_messages(
    messages: list[Message], time: int
) -> None:
    inner = encode(messages)
    expected = [
        Message(each.offset, each.key, each.value, 1, LOG_APPEND_TIME, time) for each in messages
    ]

    assert [convert_messages(inner, append_time=time)] == up_convert(
        encode(expected), base_offset=0
    )


@pytest.mark.parametrize("appended", [(0,), (1,), (0, 1)])
def test_one_log_append_time_message_makes_the_batch_log_append_time(
    appended: tuple[int, ...],
) -> None:
    messages = [Message(value=b"v", timestamp=time) for time in (5, 9)]
    for place in appended:
        messages[place].attributes = LOG_APPEND_TIME

    batch = convert_messages(encode(messages))

    assert struct.unpack_from(">h", batch, 21) == (LOG_APPEND_TIME,)
    assert struct.unpack_from(">qq", batch, 27) == (5, 9)


def test_a_set_cut_short_within_a_message_is_refused() -> None:
    sizes = [len(encode([Message(value=b"first")])), len(encode([Message(value=b"second")]))]
    data = encode([Message(value=b"first"), Message(value=b"second", magic=1)])

    for size in range(len(data)):
        if size == sizes[0]:
            assert convert_messages(data[:size])
            continue
        with pytest.raises(Corrupt):
            convert_messages(data[:size])


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("place", [0, 1])
def test_a_message_with_a_wrong_checksum_is_refused(magic: int, place: int) -> None:
    messages = [Message(key=b"key", value=b"value", magic=magic) for _ in range(2)]
    messages[place].crc = 1

    with pytest.raises(Corrupt, match=rf"message {place} of a set: a CRC"):
        convert_messages(encode(messages))


@pytest.mark.parametrize("magic", [2, 3, -1])
def test_other_magics_are_refused(magic: int) -> None:
    with pytest.raises(Corrupt, match="magic"):
        convert_messages(encode([Message(value=b"v" * 60, magic=magic)]))


def test_messages_within_a_wrapper_have_its_magic_and_are_not_compressed_again() -> None:
    inner = encode([Message(value=b"v", magic=0), Message(value=b"v", magic=1)])

    with pytest.raises(Corrupt, match="message 1 of a set"):
        convert_messages(inner, magic=0)
    with pytest.raises(Corrupt, match="attributes"):
        convert_messages(encode([Message(value=b"v", attributes=GZIP)]))


def test_no_messages_make_no_batch() -> None:
    with pytest.raises(Corrupt, match="no batch"):
        convert_messages(b"")


def test_lengths_beyond_a_message_are_refused() -> None:
    for size in (-2, 2, 1 << 30, -(1 << 31)):
        body = b"\0\0" + struct.pack(">ii", -1, size) + b"v"
        message = Message()
        data = bytearray(message.encode()[:16] + body)
        struct.pack_into(">i", data, 8, len(data) - 12)
        struct.pack_into(">I", data, 12, zlib.crc32(data[16:]))

        with pytest.raises(Corrupt):
            convert_messages(bytes(data))


@given(message_sets(), st.data())
@settings(max_examples=200, deadline=None)
def test_damaged_bytes_are_converted_or_refused(
    messages: list[Message], data: st.DataObject
) -> None:
    damaged = bytearray(encode(messages))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))

    for convert in (convert_messages, read_wrapper):
        try:
            convert(bytes(damaged))
        except Corrupt:
            continue


@pytest.mark.parametrize(
    ("wrapper", "append_time"),
    [
        (Message(value=b"compressed", magic=0, attributes=GZIP), None),
        (Message(value=b"compressed", attributes=GZIP, timestamp=7), None),
        (Message(value=b"compressed", attributes=GZIP | LOG_APPEND_TIME, timestamp=7), 7),
    ],
)
def test_the_position_of_a_wrappers_compressed_messages_is_returned(
    wrapper: Message, append_time: int | None
) -> None:
    data = wrapper.encode()

    assert read_wrapper(data) == (GZIP, wrapper.magic, append_time, len(data) - 10, 10)


def test_a_wrapper_without_a_value_is_empty() -> None:
    found = read_wrapper(Message(attributes=GZIP).encode())

    assert found is not None
    assert found[4] == 0


def test_a_set_that_begins_with_a_plain_message_is_not_a_wrapper() -> None:
    assert read_wrapper(encode([Message(value=b"v"), Message(attributes=GZIP)])) is None


def test_a_wrapper_followed_by_another_message_is_refused() -> None:
    with pytest.raises(Corrupt, match="bytes after"):
        read_wrapper(encode([Message(attributes=GZIP), Message(value=b"v")]))


def test_a_wrapper_with_a_wrong_checksum_is_refused() -> None:
    with pytest.raises(Corrupt, match="CRC"):
        read_wrapper(Message(value=b"compressed", attributes=GZIP, crc=1).encode())

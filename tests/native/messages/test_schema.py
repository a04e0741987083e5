"""The native message codec: compared with a plain oracle, on truncated and on invalid bytes.

Kafka's protocol guide ("Protocol Primitive Types") and KIP-482 (flexible versions) are the rules.
"""

import contextlib
import gc
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker._native.messages.decoder import decode
from broker._native.messages.encoder import encode
from broker._native.messages.schema import Field, Program, Struct
from broker.codec import schema
from broker.codec.schema import Definition, Message
from broker.model.errors import CodecError
from tests.oracles import schema_oracle as oracle

MESSAGES = list(schema.messages())
every_message = pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)
few = settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))

INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=8),
    "bytes": st.binary(max_size=8) | st.binary(min_size=120, max_size=140),
    "records": st.binary(max_size=8),
    "uuid": st.binary(min_size=16, max_size=16),
    **{kind: st.integers(*limits) for kind, limits in INTEGERS.items()},
}


def draw_struct(data: st.DataObject, fields: list[Definition], version: int) -> dict[str, Any]:
    """Draw a value for every field of a version."""
    return {
        field.name: draw_value(data, field, field.type, version)
        for field in fields
        if version in field.versions
    }


def draw_value(data: st.DataObject, field: Definition, kind: str, version: int) -> object:
    if version in field.nullable and kind == field.type and data.draw(st.integers(0, 3)) == 0:
        return None
    if kind == "{}":
        return draw_struct(data, field.fields, version)
    if kind.startswith("[]"):
        count = data.draw(st.integers(0, 2))
        return [draw_value(data, field, kind[2:] or "{}", version) for _ in range(count)]
    return data.draw(VALUES[kind])


# ---- every message, every version ---------------------------------------------------------------


@every_message
@few
@given(data=st.data())
def test_encoding_matches_the_oracle_and_decodes_to_the_same_value(
    message: Message, data: st.DataObject
) -> None:
    for version in message.versions:
        value = draw_struct(data, message.fields, version)

        encoded = message.encode(version, value)
        decoded = message.decode(version, encoded)

        assert encoded == oracle.encode(message, version, value)
        assert decoded == (oracle.complete(message.fields, version, value), len(encoded))
        assert message.encode(version, decoded[0]) == encoded


@every_message
def test_a_sample_of_every_version_agrees_with_the_oracle(message: Message) -> None:
    for version in message.versions:
        value = oracle.sample(message, version)
        expected = oracle.encode(message, version, value)

        assert message.encode(version, value) == expected
        assert message.decode(version, expected) == oracle.decode(message, version, expected)


@every_message
def test_a_truncated_message_is_a_codec_error(message: Message) -> None:
    for version in message.versions:
        whole = message.encode(version, oracle.sample(message, version))

        for size in range(len(whole)):
            with pytest.raises(CodecError):
                message.decode(version, whole[:size])


@every_message
def test_an_empty_dictionary_is_the_message_of_defaults(message: Message) -> None:
    for version in message.versions:
        encoded = message.encode(version, {})

        assert encoded == oracle.encode(message, version, {})
        assert message.decode(version, encoded)[0] == oracle.complete(message.fields, version, {})


@every_message
def test_a_message_is_decoded_at_an_offset(message: Message) -> None:
    for version in message.versions:
        whole = message.encode(version, oracle.sample(message, version))

        value, end = message.decode(version, b"\xff" * 7 + whole + b"\xff" * 7, 7)

        assert (value, end) == (message.decode(version, whole)[0], 7 + len(whole))


# ---- invalid bytes ------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(
    message=st.sampled_from(MESSAGES),
    version=st.integers(0, 20),
    data=st.binary(max_size=80),
)
def test_arbitrary_bytes_are_a_message_or_a_codec_error(
    message: Message, version: int, data: bytes
) -> None:
    version = message.versions[version % len(message.versions)]
    with contextlib.suppress(CodecError):
        value, end = message.decode(version, data)

        assert 0 <= end <= len(data)
        assert message.decode(version, message.encode(version, value))[0] == value


@settings(max_examples=300, deadline=None)
@given(
    message=st.sampled_from(MESSAGES),
    place=st.integers(0, 10**6),
    flip=st.integers(1, 255),
)
def test_one_wrong_byte_is_a_message_or_a_codec_error(
    message: Message, place: int, flip: int
) -> None:
    version = message.versions[-1]
    data = bytearray(message.encode(version, oracle.sample(message, version)))
    if data:
        data[place % len(data)] ^= flip
    with contextlib.suppress(CodecError):
        message.decode(version, data)


def program_of(*fields: Field, is_flexible: bool = False) -> Program:
    """Return a program with these untagged fields."""
    return Program("Message v0", Struct(fields, [], [], is_flexible=is_flexible))


@pytest.mark.parametrize(
    ("field", "data", "said"),
    [
        (Field("f", "int32"), b"\0\0\0", "f: expected 4 bytes of int32, found 3 bytes left"),
        (Field("f", "string"), b"\xff\xff", "f: expected string, found null"),
        (
            Field("f", "string", is_nullable=True),
            b"\xff\xfe",
            "f: expected a size from -1, found -2",
        ),
        (Field("f", "string"), b"\0\x02\xc3\x28", "f: expected UTF-8, found b'\\xc3('"),
        (Field("f", "string"), b"\0\x03\xed\xa0\x80", "f: expected UTF-8"),
        (Field("f", "string"), b"\0\x09a", "f: expected 9 bytes of string, found 1 bytes left"),
        (Field("f", "string"), b"\0", "f: expected an int16 as a size, found 1 bytes left"),
        (Field("f", "bytes"), b"\0\0\1", "f: expected an int32 as a size, found 3 bytes left"),
        (Field("f", "bytes"), b"\x7f\xff\xff\xff1", "f: expected 2147483647 bytes of bytes"),
        (Field("f", "[]int64"), b"\0\0\0\2" + b"7" * 15, "2 elements of at least 8 bytes"),
        (Field("f", "[]string"), b"\x7f\xff\xff\xff", "2147483647 elements of at least 2 bytes"),
        (Field("f", "[]int8"), b"\xff\xff\xff\xff", "f: expected []int8, found null"),
    ],
)
def test_the_reason_for_a_malformed_message_is_given(field: Field, data: bytes, said: str) -> None:
    with pytest.raises(CodecError) as error:
        decode(program_of(field), data)

    assert said in str(error.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x80\x80\x02" + b"a" * 32767 + b"\0", None),
        (b"\x81\x80\x02" + b"a" * 32768 + b"\0", "a string of at most 32767 bytes, found 32768"),
        (b"\xff\xff\xff\xff\x0f", "a string of at most 32767 bytes, found 4294967294"),
        (b"\xff\xff\xff\xff\x1f", "a varint of at most 32 bits as a size"),
        (b"\x80\x80\x80\x80\x80\0", "a varint of at most 32 bits as a size"),
        (b"\x80\x80", "expected a varint as a size, found 0 bytes left"),
        (b"\0", "expected string, found null"),
    ],
)
def test_a_compact_string_has_a_varint_length(data: bytes, said: str | None) -> None:
    program = program_of(Field("f", "string", is_compact=True), is_flexible=True)

    if said is None:
        assert decode(program, data) == ({"f": "a" * 32767}, len(data))
    else:
        with pytest.raises(CodecError, match=said):
            decode(program, data)


def test_an_error_names_its_path_through_arrays_and_structs() -> None:
    message = schema.request(0)
    topic = {"name": "a", "partition_data": [{"index": 1, "records": b"12"}] * 2}
    whole = message.encode(3, {"topic_data": [topic, topic]})

    with pytest.raises(CodecError) as error:
        message.decode(3, whole[:-1])

    assert str(error.value) == (
        "ProduceRequest v3: topic_data[1].partition_data[1].records: "
        f"expected 2 bytes of records, found 1 bytes left at byte {len(whole) - 2}"
    )


def test_elements_of_size_zero_are_limited_too() -> None:
    program = program_of(Field("f", "[]", struct=Struct([], [], [], is_flexible=False)))

    assert decode(program, struct.pack(">i", 3))[0] == {"f": [{}, {}, {}]}
    with pytest.raises(CodecError, match="a message whose arrays weigh at most 8388608"):
        decode(program, struct.pack(">i", 2**21 + 1))


def test_one_limit_of_elements_applies_to_the_whole_message() -> None:
    program = program_of(Field("f", "[]int8"), Field("g", "[]int8"))
    data = struct.pack(">i", 5) + bytes(5) + struct.pack(">i", 6) + bytes(6)

    assert decode(program, data, weight_max=44)[1] == len(data)
    with pytest.raises(CodecError, match="g: expected a message whose arrays weigh at most 43"):
        decode(program, data, weight_max=43)


def test_a_struct_weighs_one_more_than_its_fields() -> None:
    fields = [Field("a", "int8"), Field("b", "int8")]
    program = program_of(Field("f", "[]", struct=Struct(fields, [], [], is_flexible=False)))
    data = struct.pack(">i", 5) + bytes(10)

    assert decode(program, data, weight_max=30)[1] == len(data)
    with pytest.raises(CodecError, match="f: expected a message whose arrays weigh at most 29"):
        decode(program, data, weight_max=29)


@pytest.mark.parametrize("is_enabled", [True, False])
@pytest.mark.parametrize("data", [b"\0\1a", b"\0\2a", b"\0\1\xff"])
def test_the_garbage_collector_state_is_restored(is_enabled: bool, data: bytes) -> None:
    if not is_enabled:
        gc.disable()
    try:
        with contextlib.suppress(CodecError):
            decode(program_of(Field("f", "string")), data)

        assert gc.isenabled() == is_enabled
    finally:
        gc.enable()


def test_a_struct_with_missing_fields_is_refused() -> None:
    for kind in ("{}", "[]"):
        with pytest.raises(ValueError, match="f lacks its struct"):
            Field("f", kind)


# ---- tagged fields -------------------------------------------------------------------------------

INNER = Struct([Field("number", "int8", default=0)], [], [], is_flexible=True)
TAGGED = Program(
    "Message v0",
    Struct(
        [],
        [
            Field("name", "string", is_compact=True, is_nullable=True, tag=0, default=None),
            Field("inner", "{}", is_nullable=True, tag=3, default={}, struct=INNER),
            Field("big", "bytes", is_compact=True, tag=200, default=b""),
            Field("list", "[]int8", is_compact=True, tag=201, default=[]),
        ],
        [],
        is_flexible=True,
    ),
)
TAGGED_DEFAULTS: dict[str, Any] = {"name": None, "inner": {"number": 0}, "big": b"", "list": []}


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({}, b"\0"),
        ({"name": ""}, b"\1" + b"\0\1\1"),
        ({"name": "a", "list": [7]}, b"\2" + b"\0\2\2a" + b"\xc9\1\2\2\7"),
        ({"inner": {"number": 5}}, b"\1" + b"\3\3\1\5\0"),
        ({"inner": None}, b"\1" + b"\3\1\0"),
        ({"big": b"x" * 200}, b"\1" + b"\xc8\1\xca\1\xc9\1" + b"x" * 200),
    ],
)
def test_a_tagged_field_is_written_when_it_differs_from_the_default(
    value: dict[str, Any], data: bytes
) -> None:
    assert encode(TAGGED, {**TAGGED_DEFAULTS, **value}) == data
    assert encode(TAGGED, value) == data
    assert decode(TAGGED, data) == ({**TAGGED_DEFAULTS, **value}, len(data))


def test_an_unknown_tag_is_skipped() -> None:
    assert decode(TAGGED, b"\2" + b"\x05\x03abc" + b"\0\2\2a")[0]["name"] == "a"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\1" + b"\5\4abc", "expected 4 bytes of tagged field 5, found 3 bytes left"),
        (b"\1" + b"\0\3\2a\0", "name: expected tagged field 0 in 3 bytes, found 1 too many"),
        (b"\1" + b"\0\1\2a\0", "name: expected 1 bytes of string, found 0 bytes left"),
        (b"\2" + b"\0\2\2a", "expected a varint as a tag, found 0 bytes left"),
        (b"", "expected a varint as a count of tagged fields"),
    ],
)
def test_a_tagged_field_cannot_exceed_its_size(data: bytes, said: str) -> None:
    with pytest.raises(CodecError, match=said):
        decode(TAGGED, data)


def test_two_messages_do_not_share_default_objects() -> None:
    first, _ = decode(TAGGED, b"\0")
    first["list"].append(1)
    first["inner"]["number"] = 9

    assert decode(TAGGED, b"\0")[0] == TAGGED_DEFAULTS


# ---- what may be encoded -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", INTEGERS)
def test_an_integer_beyond_its_type_is_refused(kind: str) -> None:
    program = program_of(Field("f", kind))
    low, high = INTEGERS[kind]

    for number in (low, high):
        assert decode(program, encode(program, {"f": number}))[0] == {"f": number}
    for number in (low - 1, high + 1, 2**64):
        with pytest.raises(ValueError, match=f"Message v0: f: expected {kind}, found {number}"):
            encode(program, {"f": number})


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("int32", "1"),
        ("int32", 1.0),
        ("int32", None),
        ("bool", 1),
        ("float64", "1"),
        ("uuid", bytes(15)),
        ("uuid", "0" * 16),
        ("string", b"a"),
        ("string", None),
        ("string", "\ud800"),
        ("string", "a" * 32768),
        ("string", "\u00e9" * 16384),
        ("bytes", "a"),
        ("bytes", None),
        ("[]int8", None),
        ("[]int8", 1),
        ("[]int8", {"a": 1}),
        ("[]int8", [1, "2"]),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(kind: str, wrong: object) -> None:
    with pytest.raises(ValueError, match="Message v0: f"):
        encode(program_of(Field("f", kind)), {"f": wrong})


@pytest.mark.parametrize("wrong", [None, [], "a"])
def test_a_struct_that_is_not_a_dictionary_is_refused(wrong: object) -> None:
    program = program_of(Field("f", "{}", struct=INNER))

    with pytest.raises(ValueError, match="Message v0: f: expected a dictionary"):
        encode(program, {"f": wrong})


def test_a_field_name_of_no_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r"one of .*error_code.* found 'eror_code'"):
        schema.response(12).encode(4, {"eror_code": 3})


def test_a_field_name_of_another_version_is_ignored() -> None:
    message = schema.response(12)

    assert message.encode(0, {"throttle_time_ms": 5, "error_code": 27}) == b"\0\x1b"


@pytest.mark.parametrize("convert", [bytes, bytearray, memoryview])
def test_bytes_may_be_any_buffer(convert: type) -> None:
    program = program_of(Field("f", "bytes"))

    assert encode(program, {"f": convert(b"abc")}) == b"\0\0\0\3abc"
    assert decode(program, convert(b"\0\0\0\3abc"))[0] == {"f": b"abc"}


def test_an_array_may_be_a_tuple() -> None:
    assert encode(program_of(Field("f", "[]int8")), {"f": (1, 2)}) == b"\0\0\0\2\1\2"


def test_an_offset_outside_the_bytes_is_a_value_error() -> None:
    for offset in (-1, 4):
        with pytest.raises(ValueError, match="in 3 bytes"):
            decode(program_of(), b"abc", offset)


def test_structs_nested_deeper_than_the_error_path_are_refused() -> None:
    def nested(depth: int) -> Struct:
        fields = [Field("f", "[]", struct=nested(depth - 1))] if depth > 1 else []
        return Struct(fields, [], [], is_flexible=False)

    assert decode(Program("Message v0", nested(12)), b"\0\0\0\0")[0] == {"f": []}
    with pytest.raises(ValueError, match="too deep"):
        nested(13)

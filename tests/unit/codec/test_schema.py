"""The table of messages, parsed from its notation, and what is derived from it."""

import subprocess
import sys

import pytest

from broker.codec import schema
from broker.codec.schema import Definition, Message
from broker.model.errors import Unsupported


def message_of(text: str, versions: str = "0-5 flex 3+") -> Message:
    """Return a message with these fields."""
    return Message("data", "Thing", None, versions, text)


def only_field(text: str) -> Definition:
    """Return the one field that a line defines."""
    (field,) = message_of(text).fields
    return field


# ---- the notation --------------------------------------------------------------------------------


def test_a_field_exists_in_its_parents_versions_by_default() -> None:
    outer, bounded, single = message_of("a int8\nb int8 1-2\nc int8 4").fields

    assert outer.versions == range(6)
    assert bounded.versions == range(1, 3)
    assert single.versions == range(4, 5)


def test_a_nested_field_is_indented_and_has_its_parents_versions() -> None:
    outer, after = message_of("outer [] 2+\n  inner {}\n    number int8 3-4\nafter int8").fields

    assert [field.name for field in outer.fields] == ["inner"]
    assert outer.fields[0].versions == range(2, 6)
    assert outer.fields[0].fields[0].versions == range(3, 5)
    assert after.versions == range(6)


def test_a_question_mark_is_null_in_all_versions_or_in_those_after_it() -> None:
    assert only_field("a string").nullable == range(0)
    assert only_field("a string? 1-4").nullable == range(1, 5)
    assert only_field("a []?2+ 1-4").nullable == range(2, 5)


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ("a int32", 0),
        ("a int32 =-1", -1),
        ("a bool", False),
        ("a bool =true", True),
        ("a float64", 0.0),
        ("a string", ""),
        ("a string? =null", None),
        ("a bytes", b""),
        ("a records?", None),
        ("a uuid", bytes(16)),
        ("a []int8", []),
        ("a []int8? =null", None),
        ("a {}", {}),
        ("a {}? =null", None),
    ],
)
def test_a_missing_field_has_the_default_of_its_definition_or_type(
    text: str, default: object
) -> None:
    field = only_field(text)

    assert field.default == default
    assert type(field.default) is type(default)


def test_a_number_sign_is_a_tag_and_plain_means_not_compact() -> None:
    assert only_field("a int8 3+ #7").tag == 7
    assert only_field("a int8").tag is None
    assert only_field("a string plain").is_plain
    assert not only_field("a string").is_plain


def test_the_flexible_versions_are_on_the_first_line() -> None:
    assert message_of("", "0-5 flex 3+").first_flexible == 3
    assert message_of("", "0-5 flex 3+").is_flexible(5)
    assert not message_of("", "0-5 flex 3+").is_flexible(2)
    assert message_of("", "2").versions == range(2, 3)
    assert message_of("", "2").first_flexible is None


# ---- the table -----------------------------------------------------------------------------------


def test_every_key_up_to_kafka_4_4_has_a_request_and_a_response_of_the_same_versions() -> None:
    assert list(schema.API_KEYS) == list(range(95))
    for key, name in schema.API_KEYS.items():
        request, response = schema.request(key), schema.response(key)
        assert (request.name, response.name) == (f"{name}Request", f"{name}Response")
        assert (request.kind, response.kind) == ("request", "response")
        assert request.api_key == response.api_key == key
        assert request.versions == response.versions
        assert request.flexible == response.flexible


def test_names_are_unique_within_a_struct_and_only_flexible_versions_have_tags() -> None:
    def check(fields: list[Definition], flexible: range) -> None:
        assert len({field.name for field in fields}) == len(fields)
        for field in fields:
            assert field.tag is None or set(field.versions) <= set(flexible)
            assert set(field.nullable) <= set(field.versions)
            check(field.fields, flexible)

    for message in schema.messages():
        check(message.fields, message.flexible)


def test_a_record_is_found_by_kafkas_name() -> None:
    value = schema.record("OffsetCommitValue")

    assert value.kind == "value"
    assert value.api_key == 1
    assert schema.record("RequestHeader").versions == range(3)
    assert schema.record("ConsumerProtocolSubscription").api_key is None


@pytest.mark.parametrize(
    ("key", "version", "request_header", "response_header"),
    [
        (0, 8, 1, 0),
        (0, 9, 2, 1),
        (7, 0, 0, 0),
        (7, 1, 1, 0),
        (7, 3, 2, 1),
        (17, 1, 1, 0),
        (18, 2, 1, 0),
        (18, 3, 2, 0),
        (18, 5, 2, 0),
        (68, 0, 2, 1),
    ],
)
def test_headers_have_tags_from_the_first_flexible_version(
    key: int, version: int, request_header: int, response_header: int
) -> None:
    assert schema.request_header_version(key, version) == request_header
    assert schema.response_header_version(key, version) == response_header


def test_the_client_id_is_not_compact_even_in_a_flexible_header() -> None:
    header = {
        "request_api_key": 3,
        "request_api_version": 12,
        "correlation_id": 7,
        "client_id": "me",
    }

    encoded = schema.record("RequestHeader").encode(2, header)

    assert encoded == b"\0\3\0\x0c\0\0\0\7\0\2me\0"


# ---- use -----------------------------------------------------------------------------------------


def test_a_heartbeat_equals_the_protocol_guides_bytes() -> None:
    value = {"group_id": "g", "generation_id": 5, "member_id": "m"}

    encoded = schema.request(12).encode(0, value)

    assert encoded == b"\0\1g\0\0\0\5\0\1m"
    assert schema.request(12).decode(0, encoded) == ({**value, "group_instance_id": None}, 12 - 2)


@pytest.mark.parametrize("version", [-1, 5])
def test_a_version_that_does_not_exist_is_unsupported(version: int) -> None:
    with pytest.raises(Unsupported, match=f"HeartbeatRequest 0-4>, got version {version}"):
        schema.request(12).decode(version, b"")
    with pytest.raises(Unsupported, match="HeartbeatResponse 0-4>"):
        schema.response(12).encode(version, {})


@pytest.mark.parametrize("key", [-1, 95])
def test_a_key_that_does_not_exist_is_unsupported(key: int) -> None:
    for find in (schema.request, schema.response):
        with pytest.raises(Unsupported, match=f"from 0 to 94, got {key}"):
            find(key)


def test_a_program_is_compiled_once() -> None:
    message = schema.request(12)

    assert message.program(4) is message.program(4)


def test_the_codec_imports_nothing_else() -> None:
    code = "import sys, broker.codec.schema; print(' '.join(sys.modules))"

    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    heavy = {"numpy", "pyarrow", "asyncio", "dataclasses", "json", "pathlib", "typing_extensions"}
    assert not heavy & set(modules)

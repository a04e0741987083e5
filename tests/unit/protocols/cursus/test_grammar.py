"""The grammar of Cursus's commands: both forms, messages, and invalid text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.model.limits import CURSUS_COMMAND_BYTES_MAX
from broker.protocols.cursus.errors import RefusedError
from broker.protocols.cursus.grammar import Command
from broker.protocols.cursus.grammar import parse as parse_with
from broker.protocols.cursus.table import FORMS


def parse(text: bytes) -> Command:
    return parse_with(text, FORMS)


def args(text: str | bytes) -> dict[str, str]:
    return parse(text.encode() if isinstance(text, str) else text).args


def refusal(text: str | bytes) -> str:
    with pytest.raises(RefusedError) as refused:
        parse(text.encode() if isinstance(text, str) else text)
    return refused.value.text()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE topic=t partitions=3", {"topic": "t", "partitions": "3"}),
        ("create  topic=t\tpartitions=3 \n", {"topic": "t", "partitions": "3"}),
        (" \0CREATE topic=t\0", {"topic": "t"}),
        ("CREATE topic=a topic=b", {"topic": "b"}),
        ("CREATE topic=t loose partitions=3", {"topic": "t", "partitions": "3"}),
        ("CREATE topic=t unknown=x", {"topic": "t", "unknown": "x"}),
        ("CREATE topic=topic=t", {"topic": "topic=t"}),
        ("CREATE topic=", {"topic": ""}),
        ("CREATE principal=p topic=t", {"principal": "p", "topic": "t"}),
        ("LIST", {}),
        ("LIST topic=t", {"topic": "t"}),
        ("HELP me", {}),
        ("PROTOCOL_INFO x=y", {}),
    ],
)
def test_named_arguments_are_parsed(text: str, expected: dict[str, str]) -> None:
    assert args(text) == expected
    assert not parse(text.encode()).is_positional


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE t", {"topic": "t"}),
        ("CREATE t 4", {"topic": "t", "partitions": "4"}),
        ("CREATE a=b 4", {"topic": "a=b", "partitions": "4"}),
        ("CREATE t 4 idempotent=true", {"topic": "t", "partitions": "4", "idempotent": "true"}),
        ("CREATE t idempotent=true", {"topic": "t", "idempotent": "true"}),
        ("DELETE t", {"topic": "t"}),
        ("CONSUME t 0 5", {"topic": "t", "partition": "0", "offset": "5"}),
        ("CONSUME t 0 5 batch=2", {"topic": "t", "partition": "0", "offset": "5", "batch": "2"}),
        ("STREAM t 0 5", {"topic": "t", "partition": "0", "offset": "5"}),
        ("SUBSCRIBE t g", {"topic": "t", "group": "g"}),
        ("SUBSCRIBE t", {"topic": "t"}),
        ("JOIN_GROUP t g c", {"topic": "t", "group": "g", "member": "c"}),
        ("LEAVE_GROUP t g c", {"topic": "t", "group": "g", "member": "c"}),
        ("SYNC_GROUP t g m 3", {"topic": "t", "group": "g", "member": "m", "generation": "3"}),
        (
            "HEARTBEAT t g c m 3",
            {"topic": "t", "group": "g", "consumerId": "c", "member": "m", "generation": "3"},
        ),
        ("HEARTBEAT t g m 3", {"topic": "t", "group": "g", "member": "m", "generation": "3"}),
        ("COMMIT t g 0 5", {"topic": "t", "group": "g", "partition": "0", "offset": "5"}),
        (
            "BATCH_COMMIT t g m 3 0:10,1:20",
            {"topic": "t", "group": "g", "member": "m", "generation": "3"},
        ),
    ],
)
def test_positional_arguments_are_parsed(text: str, expected: dict[str, str]) -> None:
    assert args(text) == expected
    assert parse(text.encode()).is_positional


@pytest.mark.parametrize(
    "text",
    [
        "CREATE t 4 5",
        "CREATE t 4 loose",
        "DELETE t u",
        "CONSUME t 0",
        "CONSUME t 0 5 6",
        "SUBSCRIBE t g h",
        "JOIN_GROUP t g",
        "SYNC_GROUP t g m",
        "HEARTBEAT t g 3",
        "COMMIT t g 0",
        "BATCH_COMMIT t g m 0:10",
        "COMMIT_OFFSET t 0 g 5",
        "NEGOTIATE 1",
        "INIT_PRODUCER_ID tx",
        "FROB",
        "FROB topic=t",
    ],
)
def test_text_in_neither_form_is_an_unknown_command(text: str) -> None:
    assert refusal(text) == f'ERROR: unknown_command command="{text}"'


def test_an_unknown_command_is_quoted_as_go_quotes_it() -> None:
    assert refusal(b'FROB "x"\\\xff\x01\xc3\xa4') == (
        'ERROR: unknown_command command="FROB \\"x\\"\\\\\\xff\\x01ä"'
    )


@pytest.mark.parametrize("text", ["", "   ", "123", "=x", "CREATE=t", "A" * 20 + " x"])
def test_text_that_does_not_begin_with_a_word_is_an_unknown_command(text: str) -> None:
    assert refusal(text).startswith("ERROR: unknown_command ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"PUBLISH topic=t message=hello", b"hello"),
        (b"PUBLISH topic=t message= a  b ", b"a  b"),
        (b"PUBLISH topic=t message=a message=b key=c", b"a message=b key=c"),
        (b"PUBLISH topic=t message=\x00\xff\r\n", b"\x00\xff"),
        (b"PUBLISH topic=t message=", b""),
        (b"PUBLISH topic=t xmessage=y", b"y"),
        (b"PUBLISH topic=t", None),
        (b"TXN_PUBLISH topic=t message=m", b"m"),
        (b"APPEND_STREAM topic=t key=k message=m", b"m"),
        (b"SAVE_SNAPSHOT topic=t key=k message=m", b"m"),
        (b"PUBLISH t all of  the line ", b"all of  the line"),
        (b"PUBLISH t", None),
    ],
)
def test_a_message_is_everything_after_the_first_message_key(
    text: bytes, message: bytes | None
) -> None:
    command = parse(text)

    assert command.message == message
    assert command.get("topic") == "t"


def test_other_commands_have_no_message() -> None:
    assert parse(b"CREATE topic=t message=x") == Command("CREATE", {"topic": "t", "message": "x"})


@pytest.mark.parametrize(
    ("text", "payload"),
    [
        ("BATCH_COMMIT topic=t group=g member=m generation=1 P0:3,P1:1", "P0:3,P1:1"),
        ("BATCH_COMMIT t g m 1 0:3", "0:3"),
        ("BATCH_COMMIT topic=t group=g member=m generation=1", "generation=1"),
        ("BATCH_COMMIT", ""),
        ("SEND_OFFSETS_TO_TXN transactional_id=x topic=t P0:3", "P0:3"),
    ],
)
def test_the_payload_of_a_commit_is_the_last_token(text: str, payload: str) -> None:
    assert parse(text.encode()).payload == payload


def test_a_command_head_above_the_limit_is_refused_and_a_long_message_is_not() -> None:
    long = b"x" * CURSUS_COMMAND_BYTES_MAX

    assert parse(b"PUBLISH topic=t message=" + long).message == long
    assert refusal(b"CREATE topic=" + long) == "ERROR: malformed_input reason=command_too_long"
    assert refusal(b"PUBLISH topic=" + long + b" message=x").endswith("command_too_long")


@pytest.mark.parametrize("keyword", sorted(FORMS))
def test_every_command_may_be_in_lower_case(keyword: str) -> None:
    text = f"{keyword.lower()} {FORMS[keyword].names[0]}=x y"

    assert parse(text.encode()).keyword == keyword


@given(st.binary(max_size=60), st.sampled_from(sorted(FORMS)))
def test_arbitrary_bytes_are_a_command_or_refused(data: bytes, keyword: str) -> None:
    for text in (data, keyword.encode() + b" " + data):
        try:
            found = parse(text)
        except RefusedError as error:
            error.text(is_structured=True).encode("utf-8", "surrogateescape")
        else:
            assert found.keyword in FORMS

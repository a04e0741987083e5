"""Cursus's errors: classes, retriable ones, texts."""

import pytest

from broker.model.errors import ErrorCode, RequestError
from broker.protocols.cursus.acks import Sent, failed, led_here, stored
from broker.protocols.cursus.errors import (
    RefusedError,
    class_of,
    of_request,
    quoted,
)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("NOT_LEADER", "class=routing retryable=true"),
        ("coordinator_not_available", "class=availability retryable=true"),
        ("GEN_MISMATCH", "class=fencing retryable=false"),
        ("NOT_OWNER", "class=fencing retryable=false"),
        ("member_not_found", "class=fencing retryable=false"),
        ("producer_fenced", "class=fencing retryable=false"),
        ("stale_producer_epoch", "class=fencing retryable=false"),
        ("OFFSET_OUT_OF_RANGE", "class=conflict retryable=false"),
        ("offset_regression", "class=conflict retryable=false"),
        ("topic_not_found", "class=not_found retryable=false"),
        ("group_not_found", "class=not_found retryable=false"),
        ("missing_topic", "class=validation retryable=false"),
        ("invalid_partition", "class=validation retryable=false"),
        ("empty_batch", "class=validation retryable=false"),
        ("unknown_command", "class=validation retryable=false"),
        ("internal_topic_write_forbidden", "class=authorization retryable=false"),
        ("transaction_metadata_forbidden", "class=authorization retryable=false"),
        ("broker_error", "class=internal retryable=false"),
        ("command_failed", "class=internal retryable=false"),
        ("create_topic_failed", "class=internal retryable=false"),
        ("whatever", "class=internal retryable=false"),
    ],
)
def test_every_error_code_has_a_class(code: str, expected: str) -> None:
    assert RefusedError(code, "a=b").text(is_structured=True) == f"ERROR: {code} {expected} a=b"
    assert RefusedError(code, "a=b").text() == f"ERROR: {code} a=b"
    assert f"class={class_of(code)} " in expected


def test_an_error_without_fields_ends_after_its_code() -> None:
    assert RefusedError("invalid_consume_syntax").text() == "ERROR: invalid_consume_syntax"


def test_an_always_structured_error_has_its_class_once() -> None:
    refusal = RefusedError("UNSUPPORTED_FEATURE", has_class=True, features="x")
    expected = "ERROR: UNSUPPORTED_FEATURE class=validation retryable=false features=x"

    assert refusal.text() == refusal.text(is_structured=True) == expected


def test_fields_are_in_the_given_order() -> None:
    assert str(RefusedError("c", b=1, a="x")) == "ERROR: c b=1 a=x"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", '"plain"'),
        ('a"b\\c', r'"a\"b\\c"'),
        ("\n\t\r\x00\x7f", r'"\n\t\r\x00\x7f"'),
        ("ä€", '"ä€"'),
        ("\udcff", r'"\xff"'),
        ("\u2028\U000e0001", r'"\u2028\U000e0001"'),
    ],
)
def test_a_text_field_is_quoted(text: str, expected: str) -> None:
    assert quoted(text) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, "ERROR: NOT_LEADER LEADER_IS h:1"),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "ERROR: coordinator_not_available"),
        (ErrorCode.KAFKA_STORAGE_ERROR, 'ERROR: broker_error reason="kafka storage error"'),
        (
            ErrorCode.NOT_ENOUGH_REPLICAS,
            'ERROR: leader_not_found reason="too few replicas are in sync, try again later"',
        ),
    ],
)
def test_every_core_error_has_a_cursus_code(code: ErrorCode, expected: str) -> None:
    assert of_request(RequestError(code), "h:1").text() == expected


def test_an_acknowledgement_has_every_key_in_order() -> None:
    assert stored(Sent("p1", 7, 1, 3), 2, b"h:1") == (
        b'{"status":"OK","last_offset":2,"producer_epoch":7,"producer_id":"p1","seq_start":1,'
        b'"seq_end":3,"leader":"h:1","error":""}'
    )


def test_another_brokers_acknowledgement_names_the_broker_that_the_client_has_reached() -> None:
    assert led_here(stored(Sent("p1", 7, 1, 3), 2, b""), b"h:1") == (
        stored(Sent("p1", 7, 1, 3), 2, b"h:1")
    )
    assert led_here(b"ERROR: NOT_LEADER", b"h:1") == b"ERROR: NOT_LEADER"


def test_a_refused_batch_is_reported_in_the_same_shape_without_quotes_within() -> None:
    refusal = RefusedError("broker_error", detail='a "b"')

    assert failed(Sent('p"', -7, 1, 3), refusal, b"") == (
        b'{"status":"ERROR","last_offset":0,"producer_epoch":-7,"producer_id":"p\'",'
        b'"seq_start":1,"seq_end":3,"leader":"","error":"broker_error reason=\'a /\'b/\'\'"}'
    )


def test_a_producer_name_that_is_not_utf_8_does_not_break_the_json() -> None:
    assert '"producer_id":"\ufffd"'.encode() in stored(Sent("\udcff"), 0, b"")

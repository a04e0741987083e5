"""From bytes to bytes: what closes a connection and what is answered."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from broker.codec import schema
from broker.core.session import Session
from broker.model.errors import CodecError, ErrorCode, PeerError, RequestError
from broker.protocols.kafka import dispatch
from broker.protocols.kafka.api import Api, Body, Request
from broker.protocols.kafka.dispatch import PROTOCOL
from broker.protocols.kafka.table import APIS
from tests.support.fakes import FakeBroker


def test_an_unknown_api_key_closes_the_connection() -> None:
    with pytest.raises(PeerError, match="API key 4 version 0"):
        PROTOCOL().handle(4, 0, "tester", b"", FakeBroker().session)


@pytest.mark.parametrize(("key", "version"), [(3, 14), (1, 19), (27, 0), (22, 6)])
def test_an_unadvertised_version_closes_the_connection(key: int, version: int) -> None:
    with pytest.raises(PeerError):
        PROTOCOL().handle(key, version, "tester", b"", FakeBroker().session)


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_api_versions_above_the_supported_ones_is_answered_in_version_0_with_error_35(
    version: int,
) -> None:
    """KIP-511: librdkafka and kafka-python repeat the request with a version of this response."""
    answer = PROTOCOL().handle(18, version, "tester", b"\x01\x02", FakeBroker().session)

    assert isinstance(answer, bytes)
    value, end = schema.response(18).decode(0, answer)
    assert end == len(answer)
    assert value["error_code"] == 35
    assert {"api_key": 18, "min_version": 0, "max_version": 4} in value["api_keys"]


def test_a_malformed_body_closes_the_connection() -> None:
    with pytest.raises(CodecError):
        PROTOCOL().handle(12, 0, "tester", b"\x00\x05ab", FakeBroker().session)


def test_bytes_after_the_body_are_ignored() -> None:
    broker = FakeBroker()
    body = schema.request(60).encode(0, {}) + b"more"

    assert isinstance(PROTOCOL().handle(60, 0, "tester", body, broker.session), bytes)


def test_a_request_error_becomes_the_error_of_the_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = FakeBroker()
    refusal = RequestError(ErrorCode.NOT_COORDINATOR)
    monkeypatch.setattr(broker.groups, "join_group", _raising(refusal))

    assert broker.ask(11, 9)["error_code"] == 16


def test_authorization_is_checked_before_the_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = FakeBroker()
    asked: list[tuple[str, str | None]] = []

    def refuse(session: Session, api: Api, request: Request[Body]) -> None:
        assert session is broker.session
        asked.append((api.name, request.client_id))
        raise RequestError(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    monkeypatch.setattr(dispatch, "authorize", refuse)

    assert broker.ask(12, 4, "who", group_id="g")["error_code"] == 30
    assert asked == [("Heartbeat", "who")]
    assert broker.groups.commands == []


def test_an_unexpected_exception_is_logged_once_and_closes_the_connection(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = FakeBroker()
    monkeypatch.setattr(broker.groups, "heartbeat", _raising(ZeroDivisionError("oops")))

    with caplog.at_level(logging.ERROR), pytest.raises(PeerError, match="Heartbeat v4 failed"):
        broker.ask(12, 4)

    (record,) = caplog.records
    assert record.getMessage() == "request failed in the broker: api=Heartbeat version=4"


def test_an_unexpected_exception_in_a_deferred_response_closes_the_connection_too(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = FakeBroker()

    def heartbeat(_command: object) -> asyncio.Future[ErrorCode]:
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_exception, ZeroDivisionError("oops"))
        return future

    monkeypatch.setattr(broker.groups, "heartbeat", heartbeat)

    with pytest.raises(PeerError):
        broker.ask(12, 4)
    assert len(caplog.records) == 1


def test_an_error_without_a_response_field_is_logged_once_and_closes_the_connection(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        dispatch, "authorize", _raising(RequestError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    )

    with pytest.raises(PeerError, match="Produce v9 failed"):
        FakeBroker().ask(0, 9)

    (record,) = caplog.records
    assert record.getMessage() == "request failed in the broker: api=Produce version=9"


def _tagged_arrays(fields: list[schema.Definition], is_tagged: bool = False) -> list[str]:
    found = []
    for field in fields:
        is_within = is_tagged or field.tag is not None
        found += [field.name] if is_within and field.type.startswith("[]") else []
        found += _tagged_arrays(field.fields, is_within)
    return found


def test_no_request_has_arrays_in_tagged_fields() -> None:
    """They would be decoded in one step, however long they are."""
    found = {api.name: _tagged_arrays(schema.request(api.key).fields) for api in APIS.values()}

    assert not {name: fields for name, fields in found.items() if fields}


@pytest.mark.parametrize("size", [10, 20_000])
def test_a_long_request_is_decoded_and_its_response_encoded_in_steps(size: int) -> None:
    """Keys of an unknown type: their number is all that this request costs."""
    broker = FakeBroker()
    keys = [f"key-{number}" for number in range(size)]

    turns = broker.turns(10, 5, key_type=9, coordinator_keys=keys)

    assert (turns > 10) == (size > 10)


def _raising(error: Exception) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail

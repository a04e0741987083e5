"""Exit codes of failures."""

import pytest

from broker.cli.exit_codes import Exit, exit_code_of, start_exit_code_of
from broker.model.errors import (
    AccessDenied,
    ConfigError,
    ErrorCode,
    PeerError,
    PolylogError,
    RequestError,
    TimedOut,
    Unreachable,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PolylogError("x"), 1),
        (PeerError("x"), 1),
        (RequestError(ErrorCode.UNKNOWN_SERVER_ERROR), 1),
        (ConfigError("x"), 2),
        (RequestError(ErrorCode.INVALID_CONFIG), 2),
        (RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 3),
        (RequestError(ErrorCode.GROUP_ID_NOT_FOUND), 3),
        (AccessDenied("x"), 4),
        (RequestError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), 4),
        (Unreachable("x"), 5),
        (TimedOut("x"), 6),
        (RequestError(ErrorCode.REQUEST_TIMED_OUT), 6),
        (RequestError(ErrorCode.TOPIC_ALREADY_EXISTS), 7),
        (RequestError(ErrorCode.NON_EMPTY_GROUP), 7),
    ],
)
def test_a_failure_has_its_exit_code(error: PolylogError, code: int) -> None:
    assert exit_code_of(error) == code


def test_every_refusal_of_an_authorizer_is_a_denial() -> None:
    refused = [each for each in ErrorCode if each.name.endswith("AUTHORIZATION_FAILED")]

    assert {exit_code_of(RequestError(each)) for each in refused} == {Exit.DENIED}


def test_a_start_cannot_reach_its_store_where_a_client_cannot_reach_a_broker() -> None:
    assert start_exit_code_of(Unreachable("x")) == 69
    assert start_exit_code_of(ConfigError("x")) == 2

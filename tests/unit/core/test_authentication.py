"""Logins that succeed and fail are counted."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.core import authentication
from broker.core.security.sasl.outcome import Refused
from broker.core.session import Session
from broker.model.principal import Principal
from tests.support.fakes import FakeBroker


def session_of(broker: FakeBroker) -> Session:
    """Return a session whose failed logins are answered at once."""
    session = Session(broker.broker, "127.0.0.1", "broker.example", 9092)
    session.login = cast("Any", SimpleNamespace(rules=SimpleNamespace(failure_delay_ms=0)))
    return session


def test_a_login_is_counted_by_its_mechanism() -> None:
    broker = FakeBroker()
    session = session_of(broker)
    alice = Principal("User", "alice")

    assert authentication.succeeded(session, "kafka", "PLAIN", alice)
    assert authentication.succeeded(session, "kafka", "PLAIN", alice)

    counters = broker.broker.metrics.counters
    assert counters.logins.counts == {(session.listener.name, "PLAIN"): 2}
    assert not counters.login_failures.counts


def test_a_failed_login_is_counted_by_its_reason() -> None:
    broker = FakeBroker()
    session = session_of(broker)

    asyncio.run(authentication.failed(session, "kafka", "", Refused("no mechanism")))

    counters = broker.broker.metrics.counters
    assert not counters.logins.counts
    name = session.listener.name
    assert counters.login_failures.counts == {(name, "none", "no mechanism"): 1}


def test_what_a_client_has_sent_is_no_value_of_a_label(caplog: pytest.LogCaptureFixture) -> None:
    broker = FakeBroker()
    session = session_of(broker)

    for number in range(3):
        refused = Refused("mechanism not offered", detail=f"'X{number}'")
        asyncio.run(authentication.failed(session, "kafka", "", refused))

    counts = broker.broker.metrics.counters.login_failures.counts
    assert counts == {(session.listener.name, "none", "mechanism not offered"): 3}
    assert "reason=mechanism not offered: 'X2'" in caplog.text

"""What the limits of connections are told of."""

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from broker.core.forwarding import accept_mark
from broker.core.security.quotas.connections import ConnectionLimits
from broker.model.config import load
from broker.server.limiting import count_closed
from tests.support.fakes import FakeBroker

if TYPE_CHECKING:
    from broker._native.wire.connection import Connection

HOST, FORWARDED = "10.0.0.1", "10.0.0.2"


def test_a_forwarded_connection_is_forgotten_where_it_was_counted() -> None:
    """Its session has the address of another broker's client by then."""
    config = load(["max.connections.per.ip=1"])
    [listener] = config.listeners
    limits = ConnectionLimits(config, lambda _: None, lambda: 0)
    session = FakeBroker().session
    session.client_host, session.listener = HOST, listener
    closed = SimpleNamespace(session=session, peer_host=HOST)

    assert limits.refusal(listener, HOST) is None
    assert limits.refusal(listener, FORWARDED) is None
    asyncio.run(accept_mark(session, FORWARDED, 0))
    count_closed(limits, cast("Connection", closed))

    assert limits.refusal(listener, FORWARDED) is not None
    assert limits.refusal(listener, HOST) is None

"""Connections that outlive their users."""

import os
from collections.abc import Iterator

import pytest

from broker.client.pool import Pool
from broker.model.errors import Unreachable
from broker.model.limits import CLIENT_IDLE_CONNECTIONS_MAX, CLIENT_IDLE_SECONDS
from tests.support.manual_clock import ManualClock
from tests.support.scripted_broker import ScriptedBroker, scripted_broker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with scripted_broker(lambda *_: None) as broker:
        yield broker


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def pool(clock: ManualClock, broker: ScriptedBroker) -> Iterator[Pool]:
    pool = Pool(clock)
    yield pool
    pool.close()


def use(pool: Pool, broker: ScriptedBroker, client_id: str = "a") -> int:
    """Send a request over a leased connection; return which one it was."""
    with pool.lease(broker.address, client_id) as client:
        client.request("ApiVersions", 0, {})
        return id(client)


def test_a_returned_connection_is_reused(pool: Pool, broker: ScriptedBroker) -> None:
    assert use(pool, broker) == use(pool, broker)
    assert broker.connections == 1


def test_two_concurrent_users_get_a_connection_each(pool: Pool, broker: ScriptedBroker) -> None:
    with pool.lease(broker.address, "a") as one, pool.lease(broker.address, "a") as other:
        assert one is not other


def test_a_connection_is_reused_only_for_its_client_id(pool: Pool, broker: ScriptedBroker) -> None:
    use(pool, broker, "a")
    use(pool, broker, "b")

    assert broker.connections == 2


def test_a_connection_whose_user_failed_is_not_reused(pool: Pool, broker: ScriptedBroker) -> None:
    with pytest.raises(Unreachable), pool.lease(broker.address, "a") as client:
        client.request("Metadata", 1, {})
    use(pool, broker)

    assert broker.connections == 2


def test_a_connection_idle_for_too_long_is_not_reused(
    pool: Pool, broker: ScriptedBroker, clock: ManualClock
) -> None:
    use(pool, broker)
    clock.advance(CLIENT_IDLE_SECONDS * 1000)
    use(pool, broker)
    assert broker.connections == 1

    clock.advance(CLIENT_IDLE_SECONDS * 1000 + 1)
    use(pool, broker)
    assert broker.connections == 2


def test_a_limited_number_of_connections_is_kept(pool: Pool, broker: ScriptedBroker) -> None:
    leases = [pool.lease(broker.address, "a") for _ in range(CLIENT_IDLE_CONNECTIONS_MAX + 1)]
    for each in leases:
        each.__enter__().request("ApiVersions", 0, {})
    for each in leases:
        each.__exit__(None, None, None)

    kept = [pool.lease(broker.address, "a") for _ in leases]
    for each in kept:
        each.__enter__().request("ApiVersions", 0, {})
    for each in kept:
        each.__exit__(None, None, None)
    assert broker.connections == len(leases) + 1


def test_a_forked_process_opens_its_own_connection(
    pool: Pool, broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(pool, broker)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    use(pool, broker)

    assert broker.connections == 2


def test_closing_an_address_closes_its_idle_connections(pool: Pool, broker: ScriptedBroker) -> None:
    use(pool, broker)
    pool.close(broker.address)
    use(pool, broker)

    assert broker.connections == 2

"""Fixtures of the tests of logins, each of which attacks or uses a running process."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.sasl_client import SaslClient
from tests.support.secured_broker import SecuredBroker


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[SecuredBroker]:
    """A broker with a login; a module may have its own settings in SETTINGS."""
    folder = tmp_path_factory.mktemp("secured")
    settings = getattr(request.module, "SETTINGS", ())
    broker = SecuredBroker(folder, settings=settings)
    broker.start()
    yield broker
    broker.check()
    broker.stop()


@pytest.fixture
def connect(broker: SecuredBroker) -> Iterator[Callable[[], SaslClient]]:
    """Open connections, which are closed in the end."""
    clients: list[SaslClient] = []

    def open_one() -> SaslClient:
        clients.append(SaslClient(broker.address, 20.0))
        return clients[-1]

    yield open_one
    for each in clients:
        each.close()

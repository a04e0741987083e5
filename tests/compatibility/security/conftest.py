"""A broker with a login for real clients."""

from collections.abc import Iterator

import pytest

from tests.support.secured_broker import SecuredBroker


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker whose one listener asks for a login."""
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"))
    broker.start()
    yield broker
    broker.check()
    broker.stop()

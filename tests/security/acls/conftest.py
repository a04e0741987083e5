"""A broker with an authorizer, one for the tests of a module."""

from collections.abc import Iterator

import pytest

from tests.support.acl_broker import AclBroker


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AclBroker]:
    """A running broker whose listeners are those of admin, alice and bob."""
    broker = AclBroker(tmp_path_factory.mktemp("secured"))
    broker.start()
    yield broker
    broker.stop()
    broker.check()

"""A listener for one protocol without a login that asks for one: certificates let clients in."""

from collections.abc import Iterator

import pytest

from tests.support.secure_broker import SecureBroker
from tests.support.secured_broker import PLAIN_MODULE

COMMAND = b"V1|1|ADMIN_GET_METADATA|\n"


@pytest.fixture(scope="module")
def pinned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    broker = SecureBroker(
        tmp_path_factory.mktemp("pinned"),
        settings=[
            "listener.security.protocol.map=V1:SASL_SSL",
            "listener.name.v1.ssl.client.auth=requested",
            "listener.name.v1.sasl.enabled.mechanisms=PLAIN",
            f'listener.name.v1.plain.sasl.jaas.config={PLAIN_MODULE} required user_bob="x";',
        ],
        listen="127.0.0.1:0,v1://127.0.0.1:0",
    )
    broker.expected_complaints = ["password", "its listener asks for a login"]
    broker.start()
    yield broker
    assert broker.stop() == 0
    broker.check()


def test_a_client_with_a_certificate_is_served(pinned: SecureBroker) -> None:
    context = pinned.client_context(pinned.authority.key_store("alice"))

    with pinned.open(context) as client:
        client.sendall(COMMAND)
        assert client.recv(1000).startswith(b"V1|1|OK")


def test_a_client_without_one_is_closed(pinned: SecureBroker) -> None:
    with pinned.open() as client:
        client.sendall(COMMAND)
        assert client.recv(1000) == b""

"""The checks of every client, driven by kafka-python."""

from collections.abc import Iterator

import pytest

from tests.compatibility.clients.client import Client
from tests.compatibility.clients.client_checks import ClientChecks
from tests.compatibility.clients.kafka_python_client import connect
from tests.support.broker_process import Broker


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    """Connect to the shared broker."""
    client = connect(broker.address)
    yield client
    client.close()


class TestKafkaPython(ClientChecks):
    """kafka-python against the running broker."""

"""The real process answers every advertised API in every version."""

from typing import Any

from broker.codec import schema
from tests.support.broker_process import Broker
from tests.support.wire_client import WireClient

# What a request of defaults lacks: an acknowledgement to wait for, no records to wait for, a name.
SPECIAL: dict[str, dict[str, Any]] = {
    "Produce": {"acks": -1},
    "Fetch": {"max_wait_ms": 0},
    "ApiVersions": {"client_software_name": "test", "client_software_version": "1"},
}


def ask_every_api(address: str) -> set[str]:
    """Send a default request in each advertised version, decode the responses; return the names."""
    names = set()
    with WireClient(address) as client:
        for each in client.request("ApiVersions", 0, {})["api_keys"]:
            name = schema.API_KEYS[each["api_key"]]
            for version in range(each["min_version"], each["max_version"] + 1):
                client.request(name, version, SPECIAL.get(name, {}))  # raises if it is no response
            names.add(name)
    return names


def test_every_advertised_version_answers_a_default_request(broker: Broker) -> None:
    assert len(ask_every_api(broker.address)) > 30

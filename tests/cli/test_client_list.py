"""`broker client list` names clients that are connected, with the library that each has told."""

import uuid

from tests.support.broker_process import Broker
from tests.support.command_line import CommandLine
from tests.support.wire_client import WireClient

SOFTWARE = {"client_software_name": "a-library", "client_software_version": "1.2.3"}


def test_a_client_is_listed_while_it_is_connected(cli: CommandLine, broker: Broker) -> None:
    name = f"loader-{uuid.uuid4().hex[:8]}"
    with WireClient(broker.address, client_id=name) as client:
        client.request("ApiVersions", 4, SOFTWARE)
        [row] = cli("client", "list", name).rows
        port = client.socket.getsockname()[1]
        assert cli("client", "list", name, "--protocol", "http").rows == []

    assert row.pop("connected_ms") > 0
    assert row.pop("connected_seconds") >= 0
    assert row == {
        "address": f"127.0.0.1:{port}",
        "client_id": name,
        "software": "a-library",
        "software_version": "1.2.3",
        "principal": "User:ANONYMOUS",
        "listener": "PLAINTEXT",
        "protocol": "kafka",
        "broker": 1,
    }


def test_a_very_long_client_id_is_shown_in_part(cli: CommandLine, broker: Broker) -> None:
    name = f"long-{uuid.uuid4().hex[:8]}-{'x' * 1000}"
    with WireClient(broker.address, client_id=name) as client:
        client.request("ApiVersions", 4, SOFTWARE)

        [row] = cli("client", "list", name[:255]).rows

    assert row["client_id"] == name[:255]


def test_a_broker_that_does_not_exist_is_not_found(cli: CommandLine) -> None:
    assert "there is no broker 99, only 1" in cli("client", "list", "--broker", "99", code=3).err

"""The addresses of workers."""

import socket

import pytest

from broker.model.address import Address
from broker.model.config import load
from broker.model.errors import ConfigError
from broker.server.workers.ports import Plan, Ports, plan

HOST = "127.0.0.1"


def planned(count: int, listeners: str, advertised: str = "") -> Plan:
    options = [f"listeners={listeners}", "polylog.insecure=true"]
    if advertised:
        options.append(f"advertised.listeners={advertised}")
    return plan(load(options), count)


def test_own_ports_follow_that_of_the_listener() -> None:
    found = planned(3, "h:9092")

    assert found.shared == (Address("h", 9092),)
    assert [each.port for each in found.own] == [9093, 9094, 9095]
    assert list(found.advertised) == [None, None, None]


def test_own_ports_are_free_ones_where_the_listener_asks_for_a_free_one() -> None:
    assert [each.port for each in planned(2, "h:0").own] == [0, 0]


def test_own_ports_belong_to_the_first_listener_that_speaks_kafkas_protocol() -> None:
    found = planned(2, "v1://h:7000,h:9092")

    assert [str(each) for each in found.own] == ["h:9093", "h:9094"]


def test_advertised_ports_follow_that_of_the_same_listener() -> None:
    found = planned(2, "v1://h:7000,h:9092", "v:1,outside:19092")

    assert [str(each) for each in found.advertised] == ["outside:19093", "outside:19094"]


@pytest.mark.parametrize(
    ("listeners", "words"),
    [
        ("h:9092,v1://h:9094", "9094 is a listener"),
        ("h:65534", "65536 is no port"),
        ("v1://h:9092", "Kafka"),
    ],
)
def test_addresses_that_cannot_be_are_refused_with_a_sentence(listeners: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        planned(2, listeners)


def test_ports_are_kept_for_the_workers_and_refuse_connections_until_one_listens() -> None:
    ports = Ports(planned(2, f"{HOST}:0"))
    try:
        addresses = [*ports.addresses.shared, *ports.addresses.own]
        assert len({each.port for each in addresses}) == len(addresses)
        with socket.socket() as client:
            assert client.connect_ex((HOST, addresses[0].port)) != 0
        with pytest.raises(OSError, match="in use"), socket.socket() as other:
            other.bind((HOST, addresses[0].port))
    finally:
        ports.close()


def test_a_port_that_another_supervisor_shares_among_its_workers_is_refused() -> None:
    with socket.socket() as theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        theirs.bind((HOST, 0))
        theirs.listen()
        port = theirs.getsockname()[1]

        with pytest.raises(ConfigError, match=f"{port}.*in use"):
            Ports(planned(2, f"{HOST}:{port}"))

"""HOST:PORT."""

import pytest

from broker.model.address import Address, origin, parse_address
from broker.model.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9092", Address("127.0.0.1", 9092)),
        ("[::1]:0", Address("::1", 0)),
        ("PLAINTEXT://host.example:9092", Address("host.example", 9092)),
        (":9092", Address("", 9092)),
        (" localhost:65535 ", Address("localhost", 65535)),
    ],
)
def test_host_and_port_are_read(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "host", "host:", "host:port", "host:65536", "::1:9092", "SSL://host:1", "host:-1"]
)
def test_any_other_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_address(text)


@pytest.mark.parametrize(
    "text", ["127.0.0.1:1", "[::1]:1", "[::]:1", "name:1", "[fe80::1]:2", "kafka://[::1]:1"]
)
def test_a_printed_address_can_be_parsed_again(text: str) -> None:
    assert str(parse_address(text)) == text


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.255.0.3", True),
        ("::1", True),
        ("0:0:0:0:0:0:0:1", True),
        ("::ffff:127.0.0.1", True),
        ("", False),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("127.0.0.1.example", False),
        ("::ffff:10.0.0.1", False),
    ],
)
def test_only_addresses_reachable_from_this_machine_alone_are_loopback(
    host: str, is_loopback: bool
) -> None:
    assert Address(host, 9092).is_loopback is is_loopback


def test_a_name_with_ipv4_and_ipv6_addresses_is_bound_to_both() -> None:
    assert Address("localhost", 0).bind_hosts == ("127.0.0.1", "::1")
    assert Address("", 0).bind_hosts == ("0.0.0.0", "::")
    assert Address("127.0.0.1", 0).bind_hosts == ("127.0.0.1",)


@pytest.mark.parametrize(
    ("host", "counts_for"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.1"),
        ("2001:db8:1:2::3", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::3", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("not an address: a name", "not an address: a name"),
    ],
)
def test_an_address_of_ipv6_counts_for_its_network(host: str, counts_for: str) -> None:
    assert origin(host) == counts_for

"""The banner: addresses, data directory, durability in words, a working snippet."""

from pathlib import Path

from broker.cli.banner import banner
from broker.model.address import Address
from broker.model.config import load
from broker.model.listener import UNSECURED, ListenerConfig, SecurityProtocol


def at(*addresses: Address) -> list[ListenerConfig]:
    """Return listeners without security."""
    return [UNSECURED._replace(address=each) for each in addresses]


LOCAL = at(Address("127.0.0.1", 40123), Address("::1", 40123))
SECURE = ListenerConfig("SSL", Address("127.0.0.1", 40124), None, SecurityProtocol.SSL)


def test_the_banner_names_every_bound_address_and_the_data_directory(tmp_path: Path) -> None:
    text = banner(LOCAL, load([f"log.dirs={tmp_path}"]))

    assert "127.0.0.1:40123, [::1]:40123" in text
    assert str(tmp_path) in text


def test_the_banner_states_what_an_ack_survives() -> None:
    assert "survives a process kill and power loss" in banner(LOCAL, load())
    assert "power loss may lose the last seconds" in banner(LOCAL, load(["polylog.durability=os"]))


def test_the_banners_snippet_is_python_that_connects_to_the_first_address() -> None:
    text = banner(LOCAL, load())

    snippet = "\n".join(line[2:] for line in text.partition("\n\n")[2].splitlines())
    compile(snippet, "banner", "exec")
    assert '"127.0.0.1:40123"' in snippet


def test_the_banners_snippet_names_a_usable_address_for_a_wildcard() -> None:
    insecure = load(["polylog.insecure=true"])

    assert '"127.0.0.1:1"' in banner(at(Address("0.0.0.0", 1)), insecure)
    assert '"[::1]:1"' in banner(at(Address("::", 1)), insecure)


def test_the_banner_warns_only_without_access_control() -> None:
    assert "every client that can connect" not in banner(LOCAL, load())
    assert "every client that can connect" in banner(LOCAL, load(["polylog.insecure=true"]))


def test_the_banner_names_listeners_and_how_a_client_is_secured() -> None:
    assert "127.0.0.1:40123, [::1]:40123, SSL://127.0.0.1:40124" in banner([*LOCAL, SECURE], load())
    assert '"127.0.0.1:40123"}' in banner([SECURE, *LOCAL], load())
    assert '"127.0.0.1:40124", "security.protocol": "SSL", "ssl.ca' in banner([SECURE], load())


def test_the_banners_snippet_logs_in_with_a_mechanism_that_the_listener_offers() -> None:
    listener = SECURE._replace(name="INSIDE", security=SecurityProtocol.SASL_PLAINTEXT)
    text = banner([listener], load())

    assert '"SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice"' in text
    own = [
        "listeners=INSIDE://localhost:1",
        "listener.security.protocol.map=INSIDE:SASL_PLAINTEXT",
        "listener.name.inside.sasl.enabled.mechanisms=OAUTHBEARER",
    ]
    text = banner([listener], load(own))
    assert '"sasl.mechanism": "OAUTHBEARER"})' in text

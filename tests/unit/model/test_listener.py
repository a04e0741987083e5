"""Listeners by name, and their own values of settings (KIP-103)."""

import pytest

from broker.model.address import Address
from broker.model.config import Source, inter_broker_listener, load
from broker.model.errors import ConfigError
from broker.model.listener import SecurityProtocol

TWO = "listeners=SASL_SSL://127.0.0.1:1,inside://127.0.0.1:2"
MAPPED = "listener.security.protocol.map=INSIDE:SSL"


def test_a_listener_is_named_by_a_security_protocol_or_by_one_that_the_map_maps() -> None:
    first, second = load([TWO, MAPPED]).listeners

    assert (first.name, first.security) == ("SASL_SSL", SecurityProtocol.SASL_SSL)
    assert (second.name, second.security) == ("INSIDE", SecurityProtocol.SSL)
    assert second.address == Address("127.0.0.1", 2)
    assert str(second) == "INSIDE://127.0.0.1:2"


def test_an_address_without_a_name_is_plaintext_and_a_wire_protocol_is_a_name() -> None:
    plain, kafka = load(["listeners=127.0.0.1:1,v1://127.0.0.1:2"]).listeners

    assert (plain.name, plain.security) == ("PLAINTEXT", SecurityProtocol.PLAINTEXT)
    assert (kafka.name, kafka.address.protocol) == ("V1", "v1")
    assert kafka.security is SecurityProtocol.PLAINTEXT


def test_a_listener_of_one_wire_protocol_is_encrypted_if_the_map_says_so() -> None:
    settings = ["listeners=v1://127.0.0.1:2", "listener.security.protocol.map=V1:SSL"]
    (listener,) = load(settings).listeners

    assert listener.security.has_tls
    assert not listener.security.has_sasl


@pytest.mark.parametrize(
    "words", ["listeners=INSIDE://127.0.0.1:1", "listener.security.protocol.map=INSIDE:TLS"]
)
def test_a_name_that_nothing_maps_and_an_unknown_protocol_are_refused(words: str) -> None:
    with pytest.raises(ConfigError, match=r"NAME:PROTOCOL"):
        load([words])


def test_advertised_addresses_belong_to_the_listeners_that_they_name() -> None:
    names = "advertised.listeners=INSIDE://in.example:2"
    first, second = load([TWO, MAPPED, names]).listeners

    assert first.advertised is None
    assert second.advertised == Address("in.example", 2)
    with pytest.raises(ConfigError, match="no listener without an address is named OUTSIDE"):
        load([TWO, MAPPED, "advertised.listeners=OUTSIDE://out.example:1"])
    with pytest.raises(ConfigError, match="no listener without an address is named INSIDE"):
        load([TWO, MAPPED, f"{names},INSIDE://in.example:3"])


def test_a_listeners_own_value_comes_before_that_of_the_broker() -> None:
    config = load(
        [TWO, MAPPED, "ssl.client.auth=requested", "listener.name.inside.ssl.client.auth=required"]
    )
    first, second = config.listeners

    assert config.of_listener(first).text("ssl.client.auth") == "requested"
    assert config.of_listener(second).text("ssl.client.auth") == "required"


def test_a_listeners_own_value_is_described_after_its_own_name() -> None:
    name = "listener.name.inside.ssl.client.auth"
    entries = {each.name: each for each in load([TWO, MAPPED, f"{name}=required"]).describe()}

    assert entries[name].text == "required"
    assert entries[name].source is Source.STATIC_BROKER
    assert [each.name for each in entries[name].synonyms] == [name, "ssl.client.auth"]
    assert not entries[name].is_read_only


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("listener.name.outside.ssl.client.auth=required", "no listener has that name"),
        ("listener.name.INSIDE.ssl.client.auth=required", "unknown setting"),
        ("listener.name.inside.num.partitions=3", "unknown setting"),
        ("listener.name.inside.ssl.client.auth=perhaps", "none | requested | required"),
    ],
)
def test_a_value_for_a_listener_that_cannot_apply_is_refused(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason.replace("|", r"\|")):
        load([TWO, MAPPED, name])


@pytest.mark.parametrize(
    "settings",
    [
        ["listeners=SASL_SSL://0.0.0.0:1"],
        ["listeners=SSL://0.0.0.0:1", "ssl.client.auth=required"],
        ["listeners=SSL://0.0.0.0:1", "listener.name.ssl.ssl.client.auth=required"],
        [
            "listeners=0.0.0.0:1",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        ],
    ],
)
def test_a_listener_that_knows_its_clients_or_has_acls_may_be_reached_from_elsewhere(
    settings: list[str],
) -> None:
    assert load(settings).listeners


@pytest.mark.parametrize(
    "settings",
    [
        ["listeners=SSL://0.0.0.0:1"],
        ["listeners=SASL_PLAINTEXT://0.0.0.0:1"],
        [
            "listeners=SSL://0.0.0.0:1",
            "ssl.client.auth=required",
            "listener.name.ssl.ssl.client.auth=none",
        ],
        [
            "listeners=0.0.0.0:1",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found=true",
        ],
    ],
)
def test_one_that_does_not_or_sends_passwords_openly_needs_the_insecure_setting(
    settings: list[str],
) -> None:
    with pytest.raises(ConfigError, match=r"polylog\.insecure=true"):
        load(settings)

    assert load([*settings, "polylog.insecure=true"]).listeners


PINNED = "listeners=v1://localhost:1"
AS_SASL = "listener.security.protocol.map=V1:SASL_SSL"


@pytest.mark.parametrize(
    ("settings", "fix"),
    [
        ([PINNED, AS_SASL], r"listener\.name\.v1\.ssl\.client\.auth=required"),
        ([PINNED, AS_SASL, "ssl.client.auth=required"], "clients of v1 have none"),
        ([PINNED, AS_SASL, "listener.name.v1.ssl.client.auth=none"], "clients of v1 have none"),
        ([PINNED, AS_SASL, "polylog.principal=User:ANONYMOUS"], "clients of v1 have none"),
        (
            [
                "listeners=rustlog://localhost:1",
                "listener.security.protocol.map=RUSTLOG:SASL_PLAINTEXT",
            ],
            r"give it a principal \(listener\.name\.rustlog\.polylog\.principal=User:NAME\)$",
        ),
    ],
)
def test_a_listener_of_a_protocol_without_a_login_may_not_ask_for_one(
    settings: list[str], fix: str
) -> None:
    with pytest.raises(ConfigError, match=fix):
        load(settings)


@pytest.mark.parametrize(
    "settings",
    [
        [PINNED, AS_SASL, "listener.name.v1.ssl.client.auth=requested"],
        [PINNED, AS_SASL, "listener.name.v1.polylog.principal=User:devices"],
        [PINNED, AS_SASL, "polylog.principal=User:devices"],
        ["listeners=cursus://localhost:1", "listener.security.protocol.map=CURSUS:SASL_SSL"],
    ],
)
def test_unless_its_clients_are_known_without_one(settings: list[str]) -> None:
    assert load(settings).listeners


def test_brokers_reach_each_other_over_the_listener_that_is_named_or_has_the_protocol() -> None:
    def chosen(*settings: str) -> str:
        config = load([TWO, MAPPED, *settings])
        found = inter_broker_listener(config, config.listeners)
        assert found is not None
        return found.name

    assert chosen() == "SASL_SSL"
    assert chosen("inter.broker.listener.name=inside") == "INSIDE"
    assert chosen("security.inter.broker.protocol=SSL") == "INSIDE"
    for wrong in (
        ["inter.broker.listener.name=OUTSIDE"],
        ["security.inter.broker.protocol=PLAINTEXT"],
        ["inter.broker.listener.name=INSIDE", "security.inter.broker.protocol=SSL"],
    ):
        with pytest.raises(ConfigError, match="no listener is that of brokers"):
            load([TWO, MAPPED, *wrong])


def test_keys_are_altered_for_one_listener_of_one_broker_only() -> None:
    config = load([TWO, MAPPED])
    name = "listener.name.inside.ssl.keystore.location"

    altered = config.altered({}, {name: "/new"})

    inside = config.listeners[1]
    assert altered.of_listener(inside).text("ssl.keystore.location") == "/new"
    for shared, own in (({name: "/new"}, {}), ({}, {"ssl.keystore.location": "/new"})):
        with pytest.raises(ConfigError, match="only for a listener of one broker"):
            config.altered(shared, own)
    with pytest.raises(ConfigError, match="only at its start"):
        config.altered({}, {"listener.name.inside.ssl.enabled.protocols": "TLSv1.3"})

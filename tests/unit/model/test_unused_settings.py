"""Names of settings that only Apache Kafka has."""

import re

import pytest

from broker.model.config import load, parse_value
from broker.model.errors import ConfigError
from broker.model.settings import ALIASES, BROKER_SETTINGS
from broker.model.unused_settings import UNUSED_SETTINGS, is_unused, unknown
from tests.vectors.vector_files import SETTINGS, lines

OF_KAFKA = {each["name"]: each["default"] for each in lines(SETTINGS, "settings")}
# Kafka's default that is not possible here: Kerberos.
IMPOSSIBLE = {"GSSAPI"}


def test_no_setting_of_this_broker_is_listed_as_unused() -> None:
    assert not UNUSED_SETTINGS & BROKER_SETTINGS.keys()


def test_each_setting_of_kafka_is_known_once() -> None:
    assert len(OF_KAFKA) == 360
    assert OF_KAFKA.keys() <= UNUSED_SETTINGS | BROKER_SETTINGS.keys() | ALIASES.keys()
    assert OF_KAFKA.keys() >= UNUSED_SETTINGS
    assert ALIASES.keys() <= OF_KAFKA.keys()


@pytest.mark.parametrize(
    "name", [name for name, text in OF_KAFKA.items() if text is not None and text not in IMPOSSIBLE]
)
def test_kafkas_default_of_each_setting_can_be_given(name: str) -> None:
    text = "broker" if name == "process.roles" else OF_KAFKA[name]

    config = load(["polylog.insecure=true", f"{name}={text}"])

    assert (name in config.start.not_used) == is_unused(name)


@pytest.mark.parametrize("name", sorted(OF_KAFKA.keys() & BROKER_SETTINGS.keys()))
def test_the_table_says_which_defaults_are_not_kafkas(name: str) -> None:
    setting, default = BROKER_SETTINGS[name], OF_KAFKA[name]

    is_same = default in (None, "") or (
        default not in IMPOSSIBLE
        and parse_value(setting._replace(maximum=None), default) == setting.default
    )
    # The names of protocols need no entry in the map, and a broker's first listener has one.
    if name in ("listener.security.protocol.map", "security.inter.broker.protocol"):
        is_same = True
    assert setting.kafka_default == (None if is_same else default)


def test_settings_of_one_listener_are_unused_too() -> None:
    assert is_unused("listener.name.client.ssl.protocol")
    assert is_unused("listener.name.client.oauthbearer.sasl.login.class")
    assert is_unused("background.threads")
    assert not is_unused("message.max.bytes")
    assert not is_unused("no.such.setting")
    assert not is_unused("listener.name.client.no.such.setting")
    assert not is_unused("listener.name.client.ssl.client.auth")
    assert not is_unused("listener.name.client.num.partitions")


@pytest.mark.parametrize(
    "name",
    [
        "inter.broker.protocol.version",
        "config.providers.env.class",
        "confluent.license.topic.replication.factor",
        "cruise.control.metrics.topic",
        "rlmm.config.remote.log.metadata.topic.replication.factor",
    ],
)
def test_settings_of_plug_ins_and_of_earlier_releases_are_unused(name: str) -> None:
    assert load([f"{name}=1"]).start.not_used == {name: "command line"}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("zookeeper.connect", "there is no ZooKeeper here"),
        ("zookeeper.ssl.keystore.type", "there is no ZooKeeper here"),
        ("delegation.token.master.key", "use delegation.token.secret.key"),
        ("num.io.thread", "did you mean num.io.threads?"),
        ("sasl.enabled.mechanism", "did you mean sasl.enabled.mechanisms?"),
        (
            "listener.name.in.ssl.keystore.locatoin",
            "did you mean listener.name.in.ssl.keystore.location?",
        ),
        (
            "listener.name.in.scram-sha-512.sasl.jaas.conf",
            "did you mean listener.name.in.scram-sha-512.sasl.jaas.config?",
        ),
        ("listener.name.IN.ssl.client.auth", "did you mean listener.name.in.ssl.client.auth?"),
        ("listener.name.in.num.partitions", "num.partitions is the same for all listeners"),
    ],
)
def test_a_name_that_kafka_does_not_have_is_refused_with_what_was_meant(
    name: str, hint: str
) -> None:
    assert hint in unknown(name)
    with pytest.raises(ConfigError, match=re.escape(hint)):
        load([f"{name}=1"])

"""Users that variables of bitnami's images name."""

from pathlib import Path

import pytest

from broker.model.config import Config, load
from broker.model.errors import ConfigError
from broker.model.jaas import Jaas, parse_jaas
from tests.support.private_file import write_private

LISTENERS = {
    "KAFKA_CFG_LISTENERS": "CLIENT://127.0.0.1:1,BROKERS://127.0.0.1:2,CONTROLLER://127.0.0.1:3",
    "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CLIENT:SASL_PLAINTEXT,BROKERS:SASL_PLAINTEXT,"
    "CONTROLLER:SASL_PLAINTEXT",
    "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CFG_INTER_BROKER_LISTENER_NAME": "BROKERS",
    "BROKER_POLYLOG_INSECURE": "true",
}
USERS = {"KAFKA_CLIENT_USERS": "alice;bob", "KAFKA_CLIENT_PASSWORDS": 'hers,"his\\"'}
BROKER = {"KAFKA_INTER_BROKER_USER": "broker", "KAFKA_INTER_BROKER_PASSWORD": "its"}


def load_with(more: dict[str, str], *overrides: str) -> Config:
    return load(overrides, LISTENERS | more)


def line_of(config: Config, listener: str, mechanism: str = "plain") -> Jaas:
    text = config.text_or_none(f"listener.name.{listener}.{mechanism}.sasl.jaas.config")
    assert text is not None
    return parse_jaas(text)


@pytest.mark.parametrize("mechanism", ["plain", "scram-sha-256", "scram-sha-512"])
def test_users_log_in_over_each_listener_with_sasl(mechanism: str) -> None:
    config = load_with(USERS | BROKER)

    known = {"alice": "hers", "bob": '"his\\"'}
    assert line_of(config, "client", mechanism).users == known
    assert "username" not in line_of(config, "client", mechanism).options
    of_brokers = line_of(config, "brokers", mechanism)
    assert of_brokers.users == known | {"broker": "its"}
    assert (of_brokers.options["username"], of_brokers.options["password"]) == ("broker", "its")
    assert config.words("sasl.enabled.mechanisms")[0] == "PLAIN"
    assert config.start.ignored == ()
    assert not [each for each in config.start.not_used if "jaas" in each]


def test_what_is_configured_otherwise_precedes() -> None:
    name = "listener.name.client.plain.sasl.jaas.config"
    own = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_eve="hers";'

    config = load_with(USERS, f"{name}={own}", "sasl.enabled.mechanisms=PLAIN")

    assert line_of(config, "client").users == {"eve": "hers"}
    assert config.words("sasl.enabled.mechanisms") == ("PLAIN",)
    assert set(line_of(config, "brokers").users) == {"alice", "bob"}


def test_only_mechanisms_that_are_enabled_have_users() -> None:
    config = load_with(USERS, "sasl.enabled.mechanisms=SCRAM-SHA-512")

    assert line_of(config, "client", "scram-sha-512").users
    for other in ("plain", "scram-sha-256", "oauthbearer"):
        with pytest.raises(KeyError):
            line_of(config, "client", other)


def test_passwords_may_be_in_files(tmp_path: Path) -> None:
    file = write_private(tmp_path / "passwords", b"hers,his\n")
    users = {"KAFKA_CLIENT_USERS": "alice,bob", "KAFKA_CLIENT_PASSWORDS_FILE": str(file)}

    assert line_of(load_with(users), "client").users == {"alice": "hers", "bob": "his"}

    file.chmod(0o644)
    with pytest.raises(ConfigError, match=r"KAFKA_CLIENT_PASSWORDS_FILE=.*passwords: "):
        load_with(users)


@pytest.mark.parametrize(
    ("users", "passwords", "fault"),
    [
        ("alice,bob", "hers", "2 users, KAFKA_CLIENT_PASSWORDS 1 passwords"),
        ('a"b', "secret", "other signs than"),
    ],
)
def test_a_mistake_is_refused_without_a_password_in_the_text(
    users: str, passwords: str, fault: str
) -> None:
    with pytest.raises(ConfigError, match=fault) as caught:
        load_with({"KAFKA_CLIENT_USERS": users, "KAFKA_CLIENT_PASSWORDS": passwords})
    assert passwords not in str(caught.value)


@pytest.mark.parametrize("given", BROKER)
def test_half_a_login_of_the_broker_is_refused(given: str) -> None:
    [missing] = BROKER.keys() - {given}

    with pytest.raises(ConfigError, match=f"{given} without {missing}"):
        load_with({given: BROKER[given]})


def test_users_without_a_listener_with_sasl_are_ignored_and_named() -> None:
    config = load(environment=USERS)

    assert set(config.start.ignored) == set(USERS)

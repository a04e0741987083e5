"""Files that variables of Kafka's container images name."""

from pathlib import Path

import pytest

from broker.model.config import Config, load
from broker.model.errors import ConfigError
from tests.support.private_file import write_private

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOGINS = f"""\
// Brokers' own login is "broker".
KafkaServer {{
    {SCRAM} required
        username="broker" /* its password */ password="a//b;}}{{";
    {PLAIN} required user_alice="hers; and \\"more\\"";
}};
inside.KafkaServer {{ {PLAIN} required user_bob='his'; com.sun.security.Krb5 required x=y; }};
Client {{}};
"""


def load_tls(tmp_path: Path, **more: str) -> Config:
    """Load what a container with TLS is given, with its secrets in a folder of the test."""
    write_private(tmp_path / "of_store", b"store's password\n")
    write_private(tmp_path / "of_key", b"key's password\n")
    return load(
        environment={
            "KAFKA_LISTENERS": "SSL://127.0.0.1:9093",
            "KAFKA_ADVERTISED_LISTENERS": "SSL://localhost:9093",
            "KAFKA_SSL_KEYSTORE_FILENAME": "keys.p12",
            "KAFKA_SSL_KEYSTORE_CREDENTIALS": f"{tmp_path}/of_store",
            "KAFKA_SSL_KEY_CREDENTIALS": f"{tmp_path}/of_key",
            "KAFKA_SSL_TRUSTSTORE_FILENAME": "trusted.p12",
            "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": f"{tmp_path}/of_store",
        }
        | more
    )


def load_logins(tmp_path: Path, *overrides: str, file: bytes = LOGINS.encode()) -> Config:
    """Load what a container with logins is given: a JAAS file in the options of its JVM."""
    path = write_private(tmp_path / "jaas.conf", file)
    return load(
        overrides,
        {
            "KAFKA_LISTENERS": "SASL_PLAINTEXT://127.0.0.1:1,INSIDE://127.0.0.1:2,"
            "PLAINTEXT://127.0.0.1:3",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:SASL_PLAINTEXT",
            "KAFKA_OPTS": f"-Dx=y -Djava.security.auth.login.config={path} -Dz",
            "BROKER_POLYLOG_INSECURE": "true",
        },
    )


def test_a_key_store_and_its_passwords_are_where_the_images_have_them(tmp_path: Path) -> None:
    config = load_tls(tmp_path, BROKER_POLYLOG_INSECURE="true")

    assert config.text("ssl.keystore.location") == "/etc/kafka/secrets/keys.p12"
    assert config.text("ssl.keystore.password") == "store's password"
    assert config.text("ssl.key.password") == "key's password"
    assert config.origins["ssl.key.password"] == "environment KAFKA_SSL_KEY_CREDENTIALS"
    assert config.text_or_none("ssl.truststore.location") is None
    assert set(config.start.ignored) == {
        "KAFKA_SSL_TRUSTSTORE_FILENAME",
        "KAFKA_SSL_TRUSTSTORE_CREDENTIALS",
    }


@pytest.mark.parametrize("wanted", ["required", "requested"])
def test_a_trust_store_is_read_if_certificates_of_clients_are_wanted(
    tmp_path: Path, wanted: str
) -> None:
    config = load_tls(tmp_path, KAFKA_SSL_CLIENT_AUTH=wanted, BROKER_POLYLOG_INSECURE="true")

    assert config.text("ssl.truststore.location") == "/etc/kafka/secrets/trusted.p12"
    assert config.text("ssl.truststore.password") == "store's password"
    assert config.start.ignored == ()


def test_the_files_are_not_read_unless_a_listener_with_tls_is_advertised(tmp_path: Path) -> None:
    config = load_tls(
        tmp_path,
        KAFKA_LISTENERS="127.0.0.1:1",
        KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://localhost:1",
        KAFKA_SSL_KEY_CREDENTIALS="missing",
    )

    assert config.text_or_none("ssl.keystore.location") is None
    assert "KAFKA_SSL_KEYSTORE_FILENAME" in config.start.ignored


def test_a_password_that_cannot_be_read_is_refused_with_the_variable_and_the_file(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match=r"KAFKA_SSL_KEY_CREDENTIALS=/etc/kafka/secrets/missing:"):
        load_tls(tmp_path, KAFKA_SSL_KEY_CREDENTIALS="missing")


def test_logins_are_those_of_the_listeners_section_or_of_the_one_for_all(tmp_path: Path) -> None:
    config = load_logins(tmp_path)

    outside, inside, _ = config.listeners
    scram = config.of_listener(outside, "SCRAM-SHA-256").text("sasl.jaas.config")
    assert 'password="a//b;}{"' in scram
    assert scram == config.of_listener(outside, "SCRAM-SHA-512").text("sasl.jaas.config")
    plain = config.of_listener(outside, "PLAIN").text("sasl.jaas.config")
    assert plain == f'{PLAIN} required user_alice="hers; and \\"more\\"";'
    assert "user_bob='his'" in config.of_listener(inside, "PLAIN").text("sasl.jaas.config")
    assert config.of_listener(inside, "SCRAM-SHA-256").text_or_none("sasl.jaas.config") is None


def test_a_login_that_is_configured_precedes_that_of_the_file(tmp_path: Path) -> None:
    setting = "listener.name.inside.plain.sasl.jaas.config"

    config = load_logins(tmp_path, f"{setting}={PLAIN} required user_eve=x;")

    assert config.text(setting) == f"{PLAIN} required user_eve=x;"


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (b"KafkaServer { x required", "after 0 sections there is none of the form"),
        (b"Client { x required; };\nKafkaServer", "after 1 sections"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_damaged_file_of_logins_is_refused(tmp_path: Path, file: bytes, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"KAFKA_OPTS: java\.security.*{reason}"):
        load_logins(tmp_path, file=file)


def test_a_file_of_logins_is_not_read_without_a_listener_that_needs_one() -> None:
    variables = {"KAFKA_OPTS": "-Djava.security.auth.login.config=/none/jaas.conf"}

    assert load(environment=variables).start.ignored == ("KAFKA_OPTS",)

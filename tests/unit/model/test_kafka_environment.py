"""Variables of Kafka's container images."""

from pathlib import Path

import pytest

from broker.model.config import Config, load
from broker.model.errors import ConfigError


def load_with(**variables: str) -> Config:
    """Load a configuration that is given by variables alone."""
    return load(environment=variables)


def test_settings_of_apaches_confluents_and_bitnamis_images_are_read() -> None:
    config = load_with(
        KAFKA_NUM_PARTITIONS="3",
        KAFKA_CFG_NODE_ID="4",
        KAFKA_PROCESS_ROLES="broker,controller",
        KAFKA_POLYLOG_INSECURE="true",
        KAFKA_LOG_DIR="/somewhere",
    )

    assert config.integer("num.partitions") == 3
    assert config.integer("node.id") == 4
    assert config.flag("polylog.insecure")
    assert str(config.data_dir) == "/somewhere"
    assert config.start.not_used == {"process.roles": "environment KAFKA_PROCESS_ROLES"}


def test_bitnamis_form_precedes_and_our_own_precedes_both() -> None:
    both = {"KAFKA_CFG_NODE_ID": "2", "KAFKA_NODE_ID": "1"}

    assert load_with(**both).integer("node.id") == 2
    assert load_with(**both, BROKER_NODE_ID="3").integer("node.id") == 3


@pytest.mark.parametrize(
    "variable",
    [
        "KAFKA_HEAP_OPTS",
        "KAFKA_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_JMX_PORT",
        "KAFKA_CLUSTER_ID",
        "KAFKA_KRAFT_CLUSTER_ID",
        "KAFKA_SSL_KEYSTORE_FILENAME",
        "KAFKA_CLIENT_PASSWORDS",
        "KAFKA_BOOTSTRAP_SERVERS",
        "KAFKA_URL",
    ],
)
def test_other_variables_are_ignored_and_named(variable: str) -> None:
    assert load({}, {variable: "x"}).start.ignored == (variable,)


def test_variables_of_kubernetes_are_not_even_named() -> None:
    config = load_with(KAFKA_SERVICE_HOST="10.0.0.1", KAFKA_PORT_9092_TCP_ADDR="10.0.0.1")

    assert config.start.ignored == ()


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("KAFKA_NUM_PARTITION", "KAFKA_NUM_PARTITIONS"),
        ("KAFKA_CFG_LISTENER", "KAFKA_CFG_LISTENERS"),
        ("KAFKA_NUM_IO_THREAD", "KAFKA_NUM_IO_THREADS"),
    ],
)
def test_a_mistake_is_refused_with_what_was_meant(variable: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=rf"{variable} is not a setting; did you mean {meant}\?"):
        load({}, {variable: "1"})


def test_zookeeper_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match=r"environment KAFKA_ZOOKEEPER_CONNECT: .*no ZooKeeper"):
        load_with(KAFKA_ZOOKEEPER_CONNECT="zookeeper:2181")


@pytest.mark.parametrize(
    ("listener", "variable"),
    [
        ("IN_SIDE", "KAFKA_LISTENER_NAME_IN___SIDE_SSL_CLIENT_AUTH"),  # Confluent's
        ("IN-SIDE", "KAFKA_LISTENER_NAME_IN__SIDE_SSL_CLIENT_AUTH"),
        ("IN-SIDE", "KAFKA_LISTENER_NAME_IN___SIDE_SSL_CLIENT_AUTH"),  # Apache's
        ("IN_SIDE", "KAFKA_LISTENER_NAME_IN__SIDE_SSL_CLIENT_AUTH"),
        ("INSIDE", "KAFKA_LISTENER_NAME_INSIDE_SSL_CLIENT_AUTH"),
    ],
)
def test_names_of_listeners_have_the_signs_of_either_image(listener: str, variable: str) -> None:
    config = load_with(
        **{variable: "required"},
        KAFKA_LISTENERS=f"{listener}://127.0.0.1:9092",
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=f"{listener}:SSL",
    )

    [of_all] = config.listeners
    assert config.of_listener(of_all).text("ssl.client.auth") == "required"


def test_listeners_of_a_file_do_not_follow_from_advertised_ones(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("listeners=127.0.0.1:1\n")

    config = load(environment={"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://here:2"}, file=file)

    assert [str(each) for each in config.listeners] == ["127.0.0.1:1"]


def test_listeners_follow_from_advertised_ones_as_in_confluents_images() -> None:
    variables = {
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,HOST://localhost:9092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,HOST:PLAINTEXT",
        "BROKER_POLYLOG_INSECURE": "true",
    }

    listeners = load_with(**variables).listeners
    [given] = load(["listeners=127.0.0.1:1"], {"KAFKA_ADVERTISED_LISTENERS": "here:2"}).listeners

    assert [str(each) for each in listeners] == ["0.0.0.0:29092", "HOST://0.0.0.0:9092"]
    assert [str(each.advertised) for each in listeners] == ["broker:29092", "localhost:9092"]
    assert (str(given), str(given.advertised)) == ("127.0.0.1:1", "here:2")

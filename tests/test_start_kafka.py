"""`broker start` with configurations that Kafka brokers have, and clients of the brokers.

They are those of Kafka 4.3's distribution, of Strimzi, and of the examples that come with container
images; only ports and folders are the test's own.
"""

import json
import re
import subprocess
import weakref
from collections.abc import Callable, Iterator, Mapping
from os import close
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from tests.support.authority import Authority
from tests.support.broker_process import BrokerProcess, held_port, wait_until
from tests.support.private_file import write_private

pytestmark = pytest.mark.client

SERVER = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
BROKER = SERVER.replace("broker,controller", "broker").replace(
    "listeners=PLAINTEXT://:9092,CONTROLLER://:9093", "listeners=PLAINTEXT://localhost:9092"
)
IMAGE = SERVER.replace(
    "controller.quorum.bootstrap.servers=localhost:9093",
    "controller.quorum.voters=1@localhost:9093",
).replace(",CONTROLLER://localhost:9093", "")

STRIMZI = """\
##########
# Node ID
##########
node.id=0

##########
# Kafka message logs configuration
##########
log.dirs=/var/lib/kafka/data-0/kafka-log0

##########
# KRaft configuration
##########
process.roles=broker
controller.listener.names=CONTROLPLANE-9090
controller.quorum.voters=3@my-cluster-controller-3.my-cluster-kafka-brokers.ns.svc.cluster.local:9090

##########
# Control Plane listener
##########
listener.name.controlplane-9090.ssl.keystore.certificate.chain=${strimzisecrets:ns/pod:pod.crt}
listener.name.controlplane-9090.ssl.keystore.key=${strimzisecrets:ns/pod:pod.key}
listener.name.controlplane-9090.ssl.keystore.type=PEM
listener.name.controlplane-9090.ssl.truststore.certificates=${strimzisecrets:ns/ca:*.crt}
listener.name.controlplane-9090.ssl.truststore.type=PEM
listener.name.controlplane-9090.ssl.client.auth=required

##########
# Replication listener
##########
listener.name.replication-9091.ssl.keystore.certificate.chain=${strimzisecrets:ns/pod:pod.crt}
listener.name.replication-9091.ssl.keystore.key=${strimzisecrets:ns/pod:pod.key}
listener.name.replication-9091.ssl.keystore.type=PEM
listener.name.replication-9091.ssl.truststore.certificates=${strimzisecrets:ns/ca:*.crt}
listener.name.replication-9091.ssl.truststore.type=PEM
listener.name.replication-9091.ssl.client.auth=required

##########
# Listener configuration: PLAIN-9092
##########
listener.name.plain-9092.max.connections=100

##########
# Common listener configuration
##########
listener.security.protocol.map=CONTROLPLANE-9090:SSL,REPLICATION-9091:SSL,PLAIN-9092:PLAINTEXT
listeners=REPLICATION-9091://127.0.0.1:0,PLAIN-9092://0.0.0.0:9092
inter.broker.listener.name=REPLICATION-9091
advertised.listeners=REPLICATION-9091://my-cluster-0.my-cluster-kafka-brokers.ns.svc:9091,PLAIN-9092://localhost:9092
sasl.enabled.mechanisms=
ssl.endpoint.identification.algorithm=HTTPS

##########
# Config providers
##########
config.providers=strimzienv,strimzisecrets,strimzifile,strimzidir
config.providers.strimzienv.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.strimzienv.param.allowlist.pattern=.*
config.providers.strimzisecrets.class=io.strimzi.kafka.KubernetesSecretConfigProvider
config.providers.strimzifile.class=org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.strimzifile.param.allowed.paths=/opt/kafka
config.providers.strimzidir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
config.providers.strimzidir.param.allowed.paths=/opt/kafka

metric.reporters=org.apache.kafka.common.metrics.JmxReporter
broker.rack=${strimzienv:RACK}

##########
# User provided configuration
##########
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.replication.factor=1
"""

# What the examples of the images set, and what the images set themselves.
CONFLUENT = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
    "PLAINTEXT_HOST:PLAINTEXT",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://127.0.0.1:29092,PLAINTEXT_HOST://localhost:9092",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_JMX_PORT": "9101",
    "KAFKA_JMX_HOSTNAME": "localhost",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
    "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0,CONTROLLER://broker:29093,"
    "PLAINTEXT_HOST://0.0.0.0:9092",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
    "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
    "KAFKA_HEAP_OPTS": "-Xmx1G",
    "CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk",
}
APACHE = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://localhost:9093",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_NUM_PARTITIONS": "3",
    "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
    "KAFKA_VERSION": "4.3.1",
}
BITNAMI = {
    "KAFKA_CFG_NODE_ID": "0",
    "KAFKA_CFG_PROCESS_ROLES": "controller,broker",
    "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": "0@kafka:9093",
    "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CFG_LOG_DIRS": "/var/lib/kafka/data",
    "KAFKA_KRAFT_CLUSTER_ID": "abcdefghijklmnopqrstuv",
    "ALLOW_PLAINTEXT_LISTENER": "yes",
}

# What Confluent's examples for TLS and logins set; the files are in /etc/kafka/secrets there.
SECURED = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_LISTENERS": "SASL_SSL://0.0.0.0:9092,CONTROLLER://localhost:9093",
    "KAFKA_ADVERTISED_LISTENERS": "SASL_SSL://localhost:9092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:SASL_SSL,SASL_SSL:SASL_SSL",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "SASL_SSL",
    "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
    "KAFKA_SASL_MECHANISM_INTER_BROKER_PROTOCOL": "PLAIN",
    "KAFKA_SSL_KEYSTORE_FILENAME": "{secrets}/kafka.server.keystore.jks",
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "{secrets}/keystore_creds",
    "KAFKA_SSL_KEY_CREDENTIALS": "{secrets}/keystore_creds",
    "KAFKA_OPTS": "-Djava.security.auth.login.config={secrets}/kafka_server_jaas.conf",
    "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
}
LOGINS = b"""KafkaServer {
   org.apache.kafka.common.security.plain.PlainLoginModule required
   username="broker"
   password="its secret"
   user_broker="its secret"
   user_alice="her secret";
};
"""


class KafkaConfigured(BrokerProcess):
    """A broker process with a configuration for Kafka, on a port and in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        """Hold a port."""
        super().__init__(folder)
        holder, self.port = held_port()
        weakref.finalize(self, close, holder)
        self.folder = folder
        self.options: list[str] = []

    def command(self) -> list[str]:
        """Return the command line."""
        [*start, _, _, _, _] = super().command()
        return [*start, *self.options]

    def with_file(self, text: str, *, name: str = "server.properties") -> "KafkaConfigured":
        """Give it a file."""
        file = self.folder / name
        file.write_text(self.localized(text))
        file.chmod(0o600)
        option = "--config" if file.suffix in (".properties", ".toml") else "--kafka-properties"
        self.options += [option, str(file)]
        return self

    def with_variables(self, variables: Mapping[str, str]) -> "KafkaConfigured":
        """Give it variables."""
        self.environment |= {name: self.localized(text) for name, text in variables.items()}
        return self

    def accepted(self) -> "KafkaConfigured":
        """Accept that other machines may reach it, as a container image does."""
        self.environment["BROKER_POLYLOG_INSECURE"] = "true"
        return self

    def localized(self, text: str) -> str:
        """Replace the port and the folder of a configuration."""
        text = re.sub(r"(?<=:)9092\b(?![-:])", str(self.port), text)
        return re.sub(r"(?:/tmp|/var/lib/kafka)/\S+", str(self.data_dir), text)


@pytest.fixture
def configured(tmp_path: Path) -> Iterator[KafkaConfigured]:
    """A broker that is not started yet; it is stopped and its log is checked."""
    broker = KafkaConfigured(tmp_path)
    yield broker
    if broker.is_running:
        broker.stop()
        broker.check()


def assert_serves(broker: KafkaConfigured, **security: str) -> None:
    """Produce to the broker and consume in a group, with these settings of librdkafka's."""
    bootstrap = {"bootstrap.servers": f"localhost:{broker.port}"}
    bootstrap |= {name.replace("_", "."): value for name, value in security.items()}
    producer = Producer(bootstrap)
    producer.produce("greetings", b"hello")
    assert producer.flush(30) == 0
    consumer = Consumer(bootstrap | {"group.id": "readers", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["greetings"])
        message = consumer.poll(30)
        assert message is not None
        assert message.value() == b"hello"
    finally:
        consumer.close()
    assert (broker.data_dir / "greetings-0").is_dir()


def first_error(settings: Mapping[str, str]) -> KafkaError:
    """Return the first error that a client of librdkafka's reports."""
    errors: list[KafkaError] = []
    producer = Producer({**settings, "error_cb": errors.append, "log_level": 0})

    def is_told() -> bool:
        producer.poll(0)
        return bool(errors)

    wait_until(is_told, "the client reports an error")
    return errors[0]


def not_used(broker: KafkaConfigured) -> set[str]:
    """Return what the log says is not used, which it says once."""
    [names] = re.findall(r"settings of Kafka not used here: names=(\S+)", broker.stderr())
    return set(names.split(","))


Prepare = Callable[[KafkaConfigured], KafkaConfigured]


@pytest.mark.parametrize(
    "prepare",
    [
        pytest.param(lambda broker: broker.with_file(SERVER).accepted(), id="server.properties"),
        pytest.param(
            lambda broker: broker.with_file(SERVER, name="kafka.conf").accepted(), id="conf"
        ),
        pytest.param(lambda broker: broker.with_file(IMAGE).accepted(), id="apache's file"),
        pytest.param(lambda broker: broker.with_variables(APACHE).accepted(), id="apache/kafka"),
        pytest.param(lambda broker: broker.with_variables(CONFLUENT).accepted(), id="cp-kafka"),
        pytest.param(lambda broker: broker.with_variables(BITNAMI).accepted(), id="bitnami/kafka"),
    ],
)
def test_a_typical_configuration_of_kafka_starts_a_broker_that_clients_use(
    configured: KafkaConfigured, prepare: Prepare
) -> None:
    broker = prepare(configured)

    broker.start()

    assert_serves(broker)
    assert "process.roles" in not_used(broker)
    assert ":9093" not in broker.stdout()
    assert "29093" not in broker.stdout()


def test_the_file_of_a_broker_without_a_controller_starts_alone_with_a_warning(
    configured: KafkaConfigured,
) -> None:
    configured.with_file(BROKER, name="broker.properties")

    configured.start()

    assert_serves(configured)
    assert "have the same polylog.metadata.store" in configured.stderr()


def test_the_images_variables_for_tls_and_logins_start_a_broker_that_has_both(
    configured: KafkaConfigured, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "ca")
    authority.pkcs12_store(tmp_path / "kafka.server.keystore.jks", "broker", b"secret")
    write_private(tmp_path / "keystore_creds", b"secret\n")
    write_private(tmp_path / "kafka_server_jaas.conf", LOGINS)
    configured.with_variables(SECURED)
    for name in SECURED:
        text = configured.environment[name].replace("{secrets}", str(tmp_path))
        configured.environment[name] = text

    configured.start()

    assert_serves(
        configured,
        security_protocol="SASL_SSL",
        ssl_ca_location=str(authority.file),
        sasl_mechanism="PLAIN",
        sasl_username="alice",
        sasl_password="her secret",
    )
    assert "KAFKA_SSL_KEYSTORE_FILENAME" not in configured.stderr()


def test_the_users_of_bitnamis_variables_log_in_with_each_mechanism(
    configured: KafkaConfigured,
) -> None:
    variables = BITNAMI | {
        "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "KAFKA_CFG_SASL_ENABLED_MECHANISMS": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "KAFKA_CLIENT_USERS": "alice,bob",
        "KAFKA_CLIENT_PASSWORDS": "hers,his",
    }
    configured.with_variables(variables).accepted().start()

    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        login = {
            "bootstrap.servers": f"localhost:{configured.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
        }
        for user, password in (("alice", "hers"), ("bob", "his")):
            producer = Producer(login | {"sasl.username": user, "sasl.password": password})
            producer.produce("greetings", b"hello")
            assert producer.flush(30) == 0
        for user, password in (("bob", "hers"), ("eve", "his")):
            refused = first_error(login | {"sasl.username": user, "sasl.password": password})
            assert refused.code() == KafkaError._AUTHENTICATION


def test_strimzis_file_starts_with_secrets_from_another_file(
    configured: KafkaConfigured, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "ca")
    pem = authority.key_store("broker").read_text()
    key, _, chain = pem.partition("-----BEGIN CERTIFICATE-----")
    prefix = "listener.name.replication-9091.ssl"
    configured.with_file(STRIMZI, name="strimzi.conf").with_file(
        f'"{prefix}.keystore.key" = """{key}"""\n'
        f'"{prefix}.keystore.certificate.chain" = """-----BEGIN CERTIFICATE-----{chain}"""\n'
        f'"{prefix}.truststore.certificates" = """{authority.file.read_text()}"""\n',
        name="secrets.toml",
    ).with_variables({"RACK": "zone-a"}).accepted()

    configured.start()

    assert_serves(configured)
    assert "metric.reporters" in not_used(configured)
    assert "listener.name.controlplane-9090.ssl.keystore.key" in not_used(configured)


def test_strimzis_file_alone_is_refused_with_the_provider_that_does_not_exist(
    configured: KafkaConfigured,
) -> None:
    configured.with_file(STRIMZI).with_variables({"RACK": "zone-a"}).accepted().launch()

    assert configured.wait() == 2
    assert "the config provider strimzisecrets is of the class io.strimzi" in configured.stderr()
    assert "controlplane" not in configured.stderr()


def test_what_is_open_to_other_machines_is_refused_until_that_is_accepted(
    configured: KafkaConfigured,
) -> None:
    configured.with_file(SERVER).launch()

    assert configured.wait() == 2
    assert f"{configured.folder}/server.properties:4: " in configured.stderr()
    assert "BROKER_POLYLOG_INSECURE=true in the environment" in configured.stderr()
    assert not configured.data_dir.exists()


def test_a_directory_that_is_not_the_first_one_and_has_the_data_is_not_left_behind(
    configured: KafkaConfigured, tmp_path: Path
) -> None:
    configured.with_file(BROKER)
    configured.start()
    configured.stop()
    configured.options += ["--set", f"log.dirs={tmp_path}/new,{configured.data_dir}"]

    configured.launch()

    assert configured.wait() == 2
    assert f"there is data in {configured.data_dir}" in configured.stderr()
    assert not (tmp_path / "new").exists()


def test_check_prints_the_resulting_configuration_with_its_sources_as_json(
    configured: KafkaConfigured,
) -> None:
    configured.with_file(SERVER).with_variables({"KAFKA_NUM_PARTITIONS": "7", "KAFKA_OPTS": "-D"})
    configured.options += ["--set", "polylog.insecure=true", "--check"]

    checked = [
        subprocess.run(
            [*configured.command(), *more],
            env=configured.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for more in ([], ["-o", "json"])
    ]

    text, json_text = checked
    report = json.loads(json_text)
    by_name = {each["name"]: each for each in report["settings"]}
    file = f"{configured.folder}/server.properties"
    assert (by_name["num.partitions"]["value"], by_name["num.partitions"]["origin"]) == (
        "7",
        "environment KAFKA_NUM_PARTITIONS",
    )
    assert by_name["node.id"]["origin"] == f"{file}:2"
    assert by_name["broker.rack"]["source"] == "default"
    assert {"name": "process.roles", "origin": f"{file}:1"} in report["not_used"]
    assert report["ignored"] == ["KAFKA_OPTS"]
    assert "num.partitions=7  from environment KAFKA_NUM_PARTITIONS" in text
    assert f"not used here: process.roles  from {file}:1" in text
    assert not configured.data_dir.exists()

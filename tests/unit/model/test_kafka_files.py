"""Configurations of Kafka brokers as they are: files, what they mean here, and what is refused."""

from pathlib import Path

import pytest

from broker.model.config import Config, load
from broker.model.errors import ConfigError

ENVIRONMENT = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
FILES = "org.apache.kafka.common.config.provider.FileConfigProvider"
DIRECTORIES = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"


def load_text(tmp_path: Path, text: str, **environment: str) -> Config:
    """Load a file of Kafka's."""
    file = tmp_path / "server.properties"
    file.write_text(text)
    return load(environment=environment, file=file)


def test_files_environment_and_command_line_precede_each_other_in_this_order(
    tmp_path: Path,
) -> None:
    kafka = tmp_path / "kafka.conf"
    kafka.write_text("".join(f"{name}=1\n" for name in ("node.id", *NAMES)))
    toml = tmp_path / "broker.toml"
    toml.write_text("".join(f'"{name}" = 2\n' for name in NAMES))
    environment = {variable("KAFKA_", name): "3" for name in NAMES[1:]}
    environment |= {variable("KAFKA_CFG_", name): "4" for name in NAMES[2:]}
    environment |= {variable("BROKER_", name): "5" for name in NAMES[3:]}

    config = load([f"{NAMES[4]}=6"], environment, toml, kafka)

    assert [config.integer(name) for name in ("node.id", *NAMES)] == [1, 2, 3, 4, 5, 6]
    assert config.origins["node.id"] == f"{kafka}:1"
    assert config.origins[NAMES[1]] == f"environment {variable('KAFKA_', NAMES[1])}"


NAMES = (
    "num.partitions",
    "default.replication.factor",
    "offsets.topic.num.partitions",
    "transaction.state.log.num.partitions",
    "min.insync.replicas",
)


def variable(prefix: str, name: str) -> str:
    """Return the name of a variable."""
    return prefix + name.upper().replace(".", "_")


def test_the_last_of_several_values_counts_and_wrong_ones_before_it_do_not(tmp_path: Path) -> None:
    config = load_text(tmp_path, "num.partitions=many\nnum.partitions = 3\n")

    assert config.integer("num.partitions") == 3
    assert config.origins["num.partitions"] == f"{tmp_path}/server.properties:2"


def test_all_errors_are_reported_with_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_text(
            tmp_path,
            "# one\nnum.partition=3\nzookeeper.connect=a:2181\nlog.retention.ms=x\n"
            "listeners=PLAINTEXT://:9092\n",
        )

    place = f"  {tmp_path}/server.properties:"
    first, *lines = str(refused.value).splitlines()
    assert first == "4 errors in the configuration:"
    starts = [line.removeprefix(place).partition(": ")[0] for line in lines]
    assert starts == ["2", "3", "4", "5"]
    assert "did you mean num.partitions?" in lines[0]
    assert "ZooKeeper" in lines[1]
    for way in (
        "polylog.insecure=true in the file",
        "--set polylog.insecure=true",
        "BROKER_POLYLOG_INSECURE=true in the environment",
    ):
        assert way in lines[3]


def test_listeners_of_controllers_are_no_listeners_here(tmp_path: Path) -> None:
    config = load_text(
        tmp_path,
        "process.roles=broker,controller\n"
        "listeners=CONTROLLER://:9093,PLAINTEXT://127.0.0.1:9092\n"
        "advertised.listeners=PLAINTEXT://here:9092,CONTROLLER://here:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.name.controller.ssl.keystore.type=JKS\n",
    )

    [listener] = config.listeners
    assert str(listener) == "127.0.0.1:9092"
    assert str(listener.advertised) == "here:9092"
    assert set(config.start.not_used) == {
        "process.roles",
        "listener.name.controller.ssl.keystore.type",
    }


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("listeners=CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n", 1),
        ("process.roles=controller\nlisteners=127.0.0.1:1\n", 1),
    ],
)
def test_the_configuration_of_a_controller_is_refused(tmp_path: Path, text: str, line: int) -> None:
    with pytest.raises(ConfigError, match=rf"server\.properties:{line}.* controller"):
        load_text(tmp_path, text)


def test_kafkas_other_names_of_settings_mean_the_same(tmp_path: Path) -> None:
    config = load_text(tmp_path, "broker.id=7\nlog.dir=/old\n")

    assert config.integer("node.id") == 7
    assert config.data_dir == Path("/old")
    assert config.origins["log.dirs"] == f"{tmp_path}/server.properties:2"


def test_the_main_name_of_a_setting_precedes(tmp_path: Path) -> None:
    config = load_text(tmp_path, "log.dirs=/new\nlog.dir=/old\nbroker.id=2\nnode.id=2\n")

    assert config.data_dir == Path("/new")
    with pytest.raises(ConfigError, match=r"server\.properties:1: broker\.id=3: it is another"):
        load_text(tmp_path, "broker.id=3\nnode.id=2\n")


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("process.roles=broker,controller\ncontroller.quorum.voters=1@a:1", []),
        ("process.roles=broker\ncontroller.quorum.voters=2@a:1", ["process.roles"]),
        ("controller.quorum.voters=1@a:1,2@b:1,3@c:1", ["controller.quorum.voters"]),
        (
            "process.roles=broker\npolylog.metadata.store=etcd://127.0.0.1:2379/polylog",
            [],
        ),
        ("log.dirs=/tmp/kraft-combined-logs", ["log.dirs"]),
        ("log.dirs=/tmp/deeper/kraft-combined-logs", []),
    ],
)
def test_what_an_operator_may_not_expect_is_warned_of(
    tmp_path: Path, text: str, warnings: list[str]
) -> None:
    assert [name for name, _ in load_text(tmp_path, text).start.warnings] == warnings


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("group.max.size=2147483647", "group.max.size", 1_000),
        ("max.connections=2147483647", "max.connections", 1_000_000),
        ("log.cleaner.threads=4", "log.cleaner.threads", 1),
        (
            "ssl.endpoint.identification.algorithm=HTTPS",
            "ssl.endpoint.identification.algorithm",
            "https",
        ),
        ("sasl.enabled.mechanisms=", "sasl.enabled.mechanisms", ()),
    ],
)
def test_values_of_kafkas_files_are_taken(
    tmp_path: Path, text: str, name: str, value: object
) -> None:
    assert load_text(tmp_path, text).get(name) == value


def test_a_number_that_kafka_could_not_read_either_is_refused() -> None:
    with pytest.raises(ConfigError, match="more means 1000"):
        load(["group.max.size=2147483648"])


# What Strimzi's operator adds for Cruise Control, metrics, quotas and tiered storage.
OF_PLUGINS = """\
cruise.control.metrics.topic=strimzi.cruisecontrol.metrics
cruise.control.metrics.reporter.bootstrap.servers=my-cluster-kafka-brokers:9091
cruise.control.metrics.reporter.ssl.keystore.key=${strimzisecrets:ns/pod:pod.key}
cruise.control.metrics.topic.auto.create=true
prometheus.metrics.reporter.listener=http://:9404
prometheus.metrics.reporter.allowlist=.*
kafka.metrics.reporters=io.strimzi.kafka.metrics.prometheus.ServerYammerMetricsReporter
metric.reporters=org.apache.kafka.common.metrics.JmxReporter
metadata.log.dir=/var/lib/kafka/data-1/kafka-log0
principal.builder.class=io.strimzi.kafka.oauth.server.OAuthKafkaPrincipalBuilder
client.quota.callback.class=io.strimzi.kafka.quotas.StaticQuotaCallback
client.quota.callback.static.kafka.admin.bootstrap.servers=my-cluster-kafka-brokers:9091
remote.log.storage.system.enable=true
remote.log.metadata.manager.impl.prefix=rlmm.config.
rlmm.config.remote.log.metadata.common.client.security.protocol=SSL
remote.log.storage.manager.class.name=io.example.Storage
rsm.config.storage.bucket.name=bucket
"""


def test_what_strimzi_adds_for_plug_ins_is_known_and_has_no_effect(tmp_path: Path) -> None:
    config = load_text(tmp_path, OF_PLUGINS)

    names = {line.partition("=")[0] for line in OF_PLUGINS.splitlines()}
    assert set(config.start.not_used) == names
    assert not set(config.start.origins) & names


PROVIDERS = (
    "config.providers=env,file,dir,other\n"
    f"config.providers.env.class={ENVIRONMENT}\n"
    "config.providers.env.param.allowlist.pattern=[A-Z_]+\n"
    f"config.providers.file.class={FILES}\n"
    f"config.providers.dir.class={DIRECTORIES}\n"
    "config.providers.other.class=org.example.Vault\n"
)


def test_references_to_variables_and_files_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "id").write_text("9\n")
    (tmp_path / "more.properties").write_text("racks=r\nrack : ra")
    config = load_text(
        tmp_path,
        f"{PROVIDERS}node.id=${{dir:{tmp_path}:id}}\n"
        f"broker.rack=${{file:{tmp_path}/more.properties:rack}}-${{env:PLACE}}-${{no:X}}\n"
        "ssl.keystore.key=${other:a:b}\n",
        PLACE="b",
        BROKER_SSL_KEYSTORE_KEY="given otherwise",
    )

    assert config.integer("node.id") == 9
    assert config.text("broker.rack") == "ra-b-${no:X}"
    assert config.text("ssl.keystore.key") == "given otherwise"
    assert "config.providers.env.class" in config.start.not_used


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("${env:none}", "the variable none is not set"),
        ("${env:lower_case}", "the variable lower_case is not set, or not one"),
        ("${other:a:b}", r"is of the class org\.example\.Vault, which does not exist here"),
        ("${dir:FOLDER:missing}", "cannot read FOLDER/missing: No such file"),
        ("${dir:FOLDER:..}", "'..' is not the name of a file in FOLDER"),
        ("${dir:FOLDER:../x}", "'../x' is not the name of a file in FOLDER"),
        ("${file:FOLDER/a\\u0000b:key}", "cannot read FOLDER/a"),
        ("${file:FOLDER/damaged.properties:key}", r"damaged\.properties:2: .u is followed by"),
        ("${file:FOLDER/server.properties:key}", r"server\.properties has no key"),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused(
    tmp_path: Path, reference: str, reason: str
) -> None:
    text = f"{PROVIDERS}broker.rack={reference.replace('FOLDER', str(tmp_path))}\n"
    (tmp_path / "damaged.properties").write_text("key=1\nother=\\u12")

    with pytest.raises(
        ConfigError, match=f":7: broker.rack: .*{reason.replace('FOLDER', str(tmp_path))}"
    ):
        load_text(tmp_path, text, lower_case="x")


def test_a_password_is_read_only_from_a_file_that_is_private(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("pencil")
    text = f"{PROVIDERS}ssl.key.password=${{dir:{tmp_path}:secret}}\n"
    secret.chmod(0o644)

    with pytest.raises(ConfigError, match="other users may read or change it"):
        load_text(tmp_path, text)
    secret.chmod(0o600)
    assert load_text(tmp_path, text).text("ssl.key.password") == "pencil"


def test_a_provider_reads_only_below_its_allowed_paths(tmp_path: Path) -> None:
    (tmp_path / "id").write_text("9")
    text = (
        f"{PROVIDERS}config.providers.dir.param.allowed.paths=/none,%s\n"
        f"node.id=${{dir:{tmp_path}:id}}\n"
    )

    assert load_text(tmp_path, text % tmp_path).integer("node.id") == 9
    with pytest.raises(ConfigError, match=r"outside of the allowed\.paths"):
        load_text(tmp_path, text % f"{tmp_path}/deeper")

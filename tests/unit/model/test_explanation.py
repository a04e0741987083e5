"""What is known of each setting, and the check of files."""

import json
from pathlib import Path

import pytest

from broker.model.config import Config, Source, load
from broker.model.errors import ConfigError
from broker.model.explanation import as_json, explain, explain_all, lint
from broker.model.settings import BROKER_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS
from broker.model.unused_settings import UNUSED_SETTINGS

DEFAULTS = load()


def given(tmp_path: Path, text: str) -> Config:
    """Load a file of Kafka's."""
    file = tmp_path / "server.properties"
    file.write_text(text)
    return load(file=file)


@pytest.mark.parametrize(
    "name",
    [*BROKER_SETTINGS, *TOPIC_SETTINGS, *GROUP_SETTINGS, *sorted(UNUSED_SETTINGS), "log.dir"],
)
def test_every_setting_is_explained_with_and_without_a_configuration(name: str) -> None:
    alone = explain(name)
    in_force = explain(name, DEFAULTS)

    assert alone.documentation.endswith(".")
    assert alone.allowed
    assert alone.source is None
    assert in_force._replace(value=None, source=None) == alone
    assert in_force.source in (Source.DEFAULT, None)
    assert in_force.value == alone.default


def test_a_setting_of_the_broker_is_explained_by_its_row(tmp_path: Path) -> None:
    found = explain("log.retention.ms", given(tmp_path, "\nlog.retention.ms=5000\n"))

    assert found.value == "5000"
    assert found.source is Source.STATIC_BROKER
    assert found.origin == f"{tmp_path}/server.properties:2"
    assert (found.kind, found.unit, found.allowed) == ("long", "ms", "-1 or more ms")
    assert found.scopes == ("broker",)
    assert found.heirs == ("retention.ms",)
    assert found.change == "running"
    assert found.origin_of_name == "kafka"
    assert found.kafka_default is None


def test_a_setting_says_where_its_default_is_not_kafkas() -> None:
    assert explain("socket.request.max.bytes").kafka_default == "104857600"
    assert explain("polylog.durability").origin_of_name == "polylog"
    assert explain("log.local.retention.ms").use == "stored"
    assert explain("num.partitions").change == "start"
    assert explain("ssl.keystore.location").change == "running, for a listener"


def test_a_key_of_topics_or_groups_is_explained_by_what_it_inherits() -> None:
    config = load(["log.retention.hours=2", "group.consumer.heartbeat.interval.ms=6000"])

    of_topic = explain("retention.ms", config)
    of_group = explain("consumer.heartbeat.interval.ms", config)

    assert of_topic.scopes == ("topic",)
    assert of_topic.synonyms == ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    assert (of_topic.value, of_topic.source) == ("7200000", Source.STATIC_BROKER)
    assert of_topic.origin == "command line"
    assert (of_group.scopes, of_group.value) == (("group",), "6000")


def test_a_listeners_setting_is_its_own_or_that_of_all() -> None:
    name = "listener.name.inside.ssl.client.auth"
    listeners = ["listeners=INSIDE://127.0.0.1:1", "listener.security.protocol.map=INSIDE:SSL"]

    inherited = explain(name, load([*listeners, "ssl.client.auth=requested"]))
    own = explain(name, load([*listeners, f"{name}=required"]))

    assert inherited.synonyms == ("ssl.client.auth",)
    assert (inherited.value, inherited.origin) == ("requested", "command line")
    assert (own.value, own.scopes) == ("required", ("listener",))
    of_mechanism = explain("listener.name.inside.plain.sasl.jaas.config", load(listeners))
    assert of_mechanism.synonyms == ("sasl.jaas.config",)


def test_an_altered_value_has_its_source_and_no_origin() -> None:
    altered = load(["log.retention.ms=1"]).altered({"log.retention.ms": "2"}, {})

    found = explain("log.retention.ms", altered)

    assert (found.value, found.source, found.origin) == ("2", Source.DYNAMIC_DEFAULT, "")
    assert explain("retention.ms", altered).source is Source.DYNAMIC_DEFAULT


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    config = given(tmp_path, "ssl.key.password=pencil\n")

    assert explain("ssl.key.password", config).value == "[hidden]"
    assert "pencil" not in as_json(config)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("num.partition", "num.partitions"),
        ("retention.m", "retention.ms"),
        ("num.io.thread", "num.io.threads"),
        ("consumer.heartbeat.interval", "consumer.heartbeat.interval.ms"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=rf"did you mean {meant}\?"):
        explain(name)


def test_the_configuration_in_force_is_printed_whole() -> None:
    report = json.loads(as_json(load(["num.io.threads=3"])))

    assert [each["name"] for each in report["settings"]] == sorted(BROKER_SETTINGS)
    assert report["not_used"] == [{"name": "num.io.threads", "origin": "command line"}]
    assert [each.name for each in explain_all()] == sorted(BROKER_SETTINGS)


def test_a_file_without_problems_has_none(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("num.partitions = 3\n")

    assert lint(file) == []


def test_the_problems_of_a_file_of_kafkas_are_found_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "num.partitions=1\n"
        "num.partitions=2\n"
        "num.io.threads=8\n"
        "num.replicas=3\n"
        "log.retention.ms=x\n"
        "log.dirs=/tmp/a\n"
        "listeners=0.0.0.0:9092\n"
        "log.local.retention.ms=5\n"
        "ssl.key.password=pencil\n"
    )
    file.chmod(0o644)

    problems = lint(file)

    assert [(each.line, each.name, each.severity) for each in problems] == [
        (1, "num.partitions", "warning"),
        (3, "num.io.threads", "note"),
        (4, "num.replicas", "error"),
        (5, "log.retention.ms", "error"),
        (6, "log.dirs", "warning"),
        (7, "listeners", "error"),
        (8, "log.local.retention.ms", "note"),
        (9, "ssl.key.password", "error"),
    ]
    assert {each.file for each in problems} == {file}
    assert "pencil" not in str(problems)
    assert not any(str(file) in each.text for each in problems if each.line < 9)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.properties", "a=\\u12", 1),
        ("a.toml", "num.partitions = ", 0),
        ("a.toml", '[num]\npartitions = "x"\n', 2),
    ],
)
def test_a_file_that_cannot_be_read_is_a_problem(
    tmp_path: Path, name: str, text: str, line: int
) -> None:
    file = tmp_path / name
    file.write_text(text)

    [problem] = lint(file)

    assert (problem.line, problem.severity) == (line, "error")
    assert lint(tmp_path / "missing.toml")[0].severity == "error"


def test_what_is_wrong_with_another_name_of_a_setting_has_its_line(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# data\nlog.dir=/tmp/kafka-logs\n")

    [problem] = lint(file)

    assert (problem.line, problem.name, problem.severity) == (2, "log.dirs", "warning")

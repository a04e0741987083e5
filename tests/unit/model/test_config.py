"""The loader: order of the layers, refusals, relations between settings."""

from pathlib import Path

import pytest

from broker.model import limits
from broker.model.config import Source, load, parse_value, value_to_text
from broker.model.errors import ConfigError
from broker.model.given import COMMAND_VARIABLES
from broker.model.settings import BROKER_SETTINGS, Setting


def test_a_setting_that_is_not_given_has_its_default() -> None:
    config = load()

    assert config.integer("num.partitions") == 1
    assert config.source("num.partitions") is Source.DEFAULT


@pytest.mark.parametrize("setting", BROKER_SETTINGS.values(), ids=lambda setting: setting.name)
def test_every_default_is_a_valid_value(setting: Setting) -> None:
    text = value_to_text(setting.default)

    assert text is None or parse_value(setting, text) == setting.default


@pytest.mark.parametrize("setting", BROKER_SETTINGS.values(), ids=lambda setting: setting.name)
def test_every_setting_has_a_description(setting: Setting) -> None:
    assert setting.doc.endswith(".")


def test_overrides_precede_environment_file_and_default(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("num.partitions = 2\nnode.id = 2\ngroup.max.size = 2\n")

    config = load(["num.partitions=4"], {"BROKER_NUM_PARTITIONS": "3", "BROKER_NODE_ID": "3"}, file)

    assert config.integer("num.partitions") == 4
    assert config.integer("node.id") == 3
    assert config.integer("group.max.size") == 2
    assert config.origins["num.partitions"] == "command line"
    assert config.origins["node.id"] == "environment BROKER_NODE_ID"
    assert config.origins["group.max.size"] == f"{file}:3"


def test_file_takes_dotted_names_quoted_names_and_tables(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(
        'num.partitions = 2\n"auto.create.topics.enable" = false\n'
        'listeners = ["127.0.0.1:1", "[::1]:2"]\n[log.retention]\nms = 5\nhours = 6\n'
    )

    config = load(file=file)

    assert config.integer("num.partitions") == 2
    assert config.flag("auto.create.topics.enable") is False
    assert config.words("listeners") == ("127.0.0.1:1", "[::1]:2")
    assert config.integer("log.retention.ms") == 5
    assert config.integer("log.retention.hours") == 6


def test_unknown_setting_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"did you mean num\.partitions\?"):
        load(["num.partition=3"])


def test_a_variable_of_a_setting_that_only_kafka_has_is_not_used() -> None:
    config = load(environment={"BROKER_NUM_IO_THREADS": "3", "BROKER_LOG_DIR": "/a"})

    assert config.start.not_used == {"num.io.threads": "environment BROKER_NUM_IO_THREADS"}
    assert config.data_dir == Path("/a")


def test_unknown_environment_variable_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean BROKER_NUM_PARTITIONS"):
        load(environment={"BROKER_NUM_PARTITION": "3"})


@pytest.mark.parametrize(
    "variable",
    [
        "BROKER_SERVICE_HOST",
        "BROKER_SERVICE_PORT_KAFKA",
        "BROKER_PORT",
        "BROKER_PORT_9092_TCP_ADDR",
    ],
)
def test_variables_set_by_kubernetes_are_not_settings(variable: str) -> None:
    config = load(environment={variable: "tcp://10.0.0.1:9092"})

    assert not config.origins


@pytest.mark.parametrize(
    ("override", "allowed"),
    [
        ("num.partitions=0", r"1 \.\. 10000"),
        ("num.partitions=many", r"1 \.\. 10000"),
        ("num.partitions=1_0", r"1 \.\. 10000"),
        ("num.partitions=", r"1 \.\. 10000"),
        ("node.id=2147483648", r"0 \.\. 2147483647"),
        ("log.retention.ms=-2", "-1 or more ms"),
        ("log.retention.ms=9223372036854775808", "-1 or more ms"),
        ("auto.create.topics.enable=1", "true or false"),
        ("polylog.durability=never", r"group-commit \| os"),
        ("log.cleanup.policy=delete,shred", r"a list of delete \| compact"),
        ("log.cleaner.min.cleanable.ratio=nan", r"0\.0 \.\. 1\.0"),
    ],
)
def test_value_out_of_range_is_refused_with_the_allowed_values(override: str, allowed: str) -> None:
    with pytest.raises(ConfigError, match=f"command line: .*allowed is {allowed}$"):
        load([override])


def test_all_errors_are_reported_at_once_each_with_its_source(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('"num.partition" = 3\nlisteners = "9092"\n')
    environment = {"BROKER_NODE_ID": "-5", "BROKER_NODE": "3"}
    overrides = [
        "num.partitions=0",
        "polylog.durability",
        "num.partitions=3",
        "node.ids=1",
    ]

    with pytest.raises(ConfigError) as refused:
        load(overrides, environment, file)

    first, *lines = str(refused.value).splitlines()
    assert first == "7 errors in the configuration:"
    assert [line.strip() for line in lines] == [
        "environment: BROKER_NODE is not a setting; did you mean BROKER_NODE_ID?",
        "--set polylog.durability: expected NAME=VALUE",
        f"{file}:1: unknown setting 'num.partition'; did you mean num.partitions?",
        "environment BROKER_NODE_ID: node.id='-5': allowed is 0 .. 2147483647",
        "command line: num.partitions='0': allowed is 1 .. 10000",
        "command line: unknown setting 'node.ids'; did you mean node.id?",
        f"{file}:2: listeners: '9092': expected HOST:PORT, for example 127.0.0.1:9092",
    ]


def test_contradicting_values_are_reported_with_the_other_errors() -> None:
    timeouts = ["group.min.session.timeout.ms=5000", "group.max.session.timeout.ms=4000"]

    with pytest.raises(ConfigError) as refused:
        load([*timeouts, "log.dirs=", "listeners=0.0.0.0:1"], {"BROKER_NODE_ID": "x"})

    lines = str(refused.value).splitlines()
    assert lines[0] == "4 errors in the configuration:"
    for line, words in zip(
        lines[1:],
        ("environment BROKER_NODE_ID: ", "is above", "name a directory", "insecure=true"),
        strict=True,
    ):
        assert words in line


def test_an_unparsable_value_causes_no_contradiction() -> None:
    with pytest.raises(ConfigError) as refused:
        load(["listeners=0.0.0.0:9092", "polylog.insecure=ture"])

    assert str(refused.value) == ("command line: polylog.insecure='ture': allowed is true or false")


def test_override_without_equals_sign_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected NAME=VALUE"):
        load(["num.partitions"])


def test_file_that_is_missing_or_not_toml_is_refused_by_name(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("num.partitions = ")

    with pytest.raises(ConfigError, match=r"cannot read .*missing\.toml: No such file"):
        load(file=tmp_path / "missing.toml")
    with pytest.raises(ConfigError, match=r"broken\.toml is not TOML"):
        load(file=broken)


@pytest.mark.parametrize("address", ["0.0.0.0:9092", ":9092", "[::]:9092", "192.0.2.1:9092"])
def test_address_beyond_loopback_needs_the_insecure_setting(address: str) -> None:
    with pytest.raises(ConfigError, match=r"--set polylog\.insecure=true"):
        load([f"listeners={address}"])

    assert load([f"listeners={address}", "polylog.insecure=true"]).listeners


def test_advertised_listeners_must_be_as_many_as_listeners() -> None:
    with pytest.raises(ConfigError, match="2 addresses for 1 listeners"):
        load(["advertised.listeners=one:9092,two:9092"])


@pytest.mark.parametrize("address", ["0.0.0.0:9092", "PLAINTEXT://:9092", "host:0"])
def test_advertised_listener_must_be_an_address_that_clients_can_connect_to(address: str) -> None:
    with pytest.raises(ConfigError, match="clients cannot connect"):
        load([f"advertised.listeners={address}"])


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", ""])
def test_a_broker_of_a_cluster_that_listens_on_every_address_needs_one_for_the_others(
    host: str,
) -> None:
    listener = [f"listeners={host}:1", "polylog.insecure=true"]
    of_cluster = [*listener, "polylog.metadata.store=etcd://127.0.0.1:2379/polylog"]

    with pytest.raises(ConfigError, match=r"cannot connect to that; set advertised\.listeners"):
        load(of_cluster)

    load(listener)
    load([*of_cluster, "advertised.listeners=host:1"])


def test_shortest_session_timeout_above_the_longest_is_refused() -> None:
    with pytest.raises(ConfigError, match="is above"):
        load(["group.min.session.timeout.ms=5000", "group.max.session.timeout.ms=4000"])


@pytest.mark.parametrize("settings", [[], ["polylog.metadata.store=etcd://h:2379/p"]])
def test_a_broker_has_several_directories(settings: list[str]) -> None:
    config = load(["log.dirs=/a, /b", *settings])

    assert (config.data_dir, config.more_dirs) == (Path("/a"), (Path("/b"),))
    assert config.start.warnings == ()


def test_workers_use_the_first_directory_with_a_warning() -> None:
    config = load(["log.dirs=/a, /b", "polylog.workers=2"])

    assert (config.data_dir, config.more_dirs) == (Path("/a"), None)
    texts = [text for name, text in config.start.warnings if name == "log.dirs"]
    assert len(texts) == 1
    assert "use only the first, /a" in texts[0]


def test_a_directory_that_is_named_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="names a directory twice"):
        load(["log.dirs=/a,/b,/a/"])


def test_frame_limit_follows_the_largest_message() -> None:
    assert load().frame_bytes_max == limits.FRAME_BYTES_MAX
    assert load(["message.max.bytes=20000000"]).frame_bytes_max == 20_000_000 + limits.MIB


def test_flushing_after_every_message_sets_group_commit() -> None:
    assert load().is_group_commit
    assert not load(["polylog.durability=os"]).is_group_commit
    assert load(["polylog.durability=os", "log.flush.interval.messages=1"]).is_group_commit


def test_reading_a_setting_as_another_type_is_an_error() -> None:
    config = load()

    for read, name in (
        (config.integer, "polylog.insecure"),
        (config.flag, "node.id"),
        (config.text, "broker.rack"),
        (config.words, "log.dirs"),
        (config.number, "node.id"),
    ):
        with pytest.raises(TypeError):
            read(name)


def test_describe_lists_every_setting_with_given_ones_first() -> None:
    entries = {entry.name: entry for entry in load(["num.partitions=3"]).describe()}

    assert set(entries) == set(BROKER_SETTINGS)
    assert entries["num.partitions"].text == "3"
    assert [(synonym.text, synonym.source) for synonym in entries["num.partitions"].synonyms] == [
        ("3", Source.STATIC_BROKER),
        ("1", Source.DEFAULT),
    ]
    assert entries["broker.rack"].text is None
    assert not entries["broker.rack"].synonyms


def test_documentation_says_which_settings_have_no_effect() -> None:
    entries = {entry.name: entry for entry in load().describe()}

    name = "log.local.retention.ms"
    assert entries[name].documentation.endswith("without effect in this version.")
    assert "nothing acts" not in entries["num.partitions"].documentation


def test_an_altered_value_takes_precedence_over_the_one_given_at_the_start() -> None:
    given = load(["message.max.bytes=1000"])

    shared = given.altered({"message.max.bytes": "2000"}, {})
    own = shared.altered({"message.max.bytes": "2000"}, {"message.max.bytes": "3000"})
    neither = own.altered({}, {})

    assert (shared.integer("message.max.bytes"), own.integer("message.max.bytes")) == (2000, 3000)
    assert shared.source("message.max.bytes") is Source.DYNAMIC_DEFAULT
    assert own.source("message.max.bytes") is Source.DYNAMIC_BROKER
    assert neither.source("message.max.bytes") is Source.STATIC_BROKER
    assert (given.integer("message.max.bytes"), neither.integer("message.max.bytes")) == (
        1000,
        1000,
    )


def test_an_altered_value_is_given_but_has_no_origin_at_the_start() -> None:
    altered = load().altered({}, {"log.retention.ms": "5"})

    assert altered.is_given("log.retention.ms")
    assert not altered.is_given("log.retention.hours")
    assert not altered.origins


@pytest.mark.parametrize("name", ["num.partitions", "log.retention.hours", "no.such.setting"])
def test_only_dynamic_settings_can_be_altered(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        load().altered({}, {name: "5"})


def test_message_max_bytes_cannot_exceed_the_frame_limit_of_this_start() -> None:
    roomy = load(["socket.request.max.bytes=67108864"])

    assert roomy.altered({}, {"message.max.bytes": "62914560"}).frame_bytes_max == 67108864
    with pytest.raises(ConfigError, match=r"socket\.request\.max\.bytes"):
        load().altered({}, {"message.max.bytes": "62914560"})


def test_the_default_of_consumer_groups_is_within_its_bounds() -> None:
    with pytest.raises(ConfigError, match=r"group\.consumer\.min\.session\.timeout\.ms=45000"):
        load(["group.consumer.session.timeout.ms=1000"])


@pytest.mark.parametrize("variable", COMMAND_VARIABLES)
def test_variables_of_commands_are_no_settings_and_no_mistakes(variable: str) -> None:
    assert not load(environment={variable: "kafka:9092"}).origins


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("BROKER_HEADLESS_SERVICE_HOST", "10.0.0.1"),
        ("BROKER_0_SERVICE_PORT_KAFKA", "9092"),
        ("BROKER_0_PORT", "tcp://10.0.0.1:9092"),
        ("BROKER_HEADLESS_PORT_9092_TCP_ADDR", "10.0.0.1"),
    ],
)
def test_variables_of_kubernetes_for_names_of_several_words_are_not_settings(
    variable: str, text: str
) -> None:
    assert not load(environment={variable: text}).origins


def test_many_thousands_of_unknown_names_are_refused_soon_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("".join(f"no.such.name.{number}=1\n" for number in range(10_000)))

    with pytest.raises(ConfigError, match=r"^10000 errors") as raised:
        load(file=file)

    assert str(raised.value).endswith("and 9000 more")


def test_a_value_with_a_zero_character_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=/data\\u0000x\n")

    with pytest.raises(ConfigError, match=r"server\.properties:1: log\.dirs has a character"):
        load(file=file)

"""Brokers altered while they run: DescribeConfigs, AlterConfigs (KIP-226)."""

import asyncio
import json
from typing import Any

import pytest

from broker.core.topics.topic import OFFSETS_TOPIC
from broker.model.config import value_to_text
from broker.model.settings import DYNAMIC_SETTINGS
from tests.support.fakes import FakeBroker, only

DESCRIBE, ALTER, INCREMENTAL = 32, 33, 44
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND = 0, 1, 2
OWN, ALL, STATIC, DEFAULT = 2, 3, 4, 5  # config sources
FOREVER = (1 << 63) - 1


def alter(
    fake_broker: FakeBroker,
    broker_id: str,
    name: str,
    value: str | None,
    op: int = SET,
    *,
    validate_only: bool = False,
) -> dict[str, Any]:
    config = {"name": name, "value": value, "config_operation": op}
    resource = {"resource_type": BROKER, "resource_name": broker_id, "configs": [config]}
    answer = fake_broker.ask(INCREMENTAL, 1, resources=[resource], validate_only=validate_only)
    return only(answer["responses"])


def set_all(fake_broker: FakeBroker, broker_id: str, **values: str) -> dict[str, Any]:
    configs = [{"name": key.replace("_", "."), "value": text} for key, text in values.items()]
    resource = {"resource_type": BROKER, "resource_name": broker_id, "configs": configs}
    return only(fake_broker.ask(ALTER, 2, resources=[resource], validate_only=False)["responses"])


def describe(fake_broker: FakeBroker, resource_type: int, name: str) -> dict[str, dict[str, Any]]:
    resource = {
        "resource_type": resource_type,
        "resource_name": name,
        "configuration_keys": None,
    }
    answer = fake_broker.ask(DESCRIBE, 4, resources=[resource], include_synonyms=True)
    result = only(answer["results"])
    assert result["error_code"] == 0
    return {each["name"]: each for each in result["configs"]}


def places(entry: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(each["name"], each["value"], each["source"]) for each in entry["synonyms"]]


def test_a_topic_that_inherits_uses_the_altered_value_at_once() -> None:
    fake_broker = FakeBroker()
    fake_broker.create("a", 2)

    assert alter(fake_broker, "", "log.retention.ms", "5")["error_code"] == 0

    assert [fake_broker.log("a", n).config.integer("retention.ms") for n in range(2)] == [5, 5]
    entry = describe(fake_broker, TOPIC, "a")["retention.ms"]
    assert (entry["value"], entry["config_source"]) == ("5", ALL)


def test_a_topic_created_later_uses_the_altered_value() -> None:
    fake_broker = FakeBroker()
    alter(fake_broker, "1", "message.max.bytes", "7777")

    fake_broker.create("a")

    assert fake_broker.log("a").config.integer("max.message.bytes") == 7777


def test_a_topics_own_value_takes_precedence_over_the_altered_one() -> None:
    fake_broker = FakeBroker()
    fake_broker.create("a", config={"retention.ms": "9"})

    alter(fake_broker, "1", "log.retention.ms", "5")

    assert fake_broker.log("a").config.integer("retention.ms") == 9
    entry = describe(fake_broker, TOPIC, "a")["retention.ms"]
    assert places(entry)[:2] == [("retention.ms", "9", 1), ("log.retention.ms", "5", OWN)]


def test_precedence_is_this_broker_then_all_brokers_then_the_start_then_the_default() -> None:
    fake_broker = FakeBroker({"message.max.bytes": "1000"})
    alter(fake_broker, "", "message.max.bytes", "2000")
    alter(fake_broker, "1", "message.max.bytes", "3000")

    entry = describe(fake_broker, BROKER, "1")["message.max.bytes"]

    assert (entry["value"], entry["config_source"], entry["read_only"]) == ("3000", OWN, False)
    assert places(entry) == [
        ("message.max.bytes", "3000", OWN),
        ("message.max.bytes", "2000", ALL),
        ("message.max.bytes", "1000", STATIC),
        ("message.max.bytes", "1048588", DEFAULT),
    ]


def test_after_a_deletion_the_next_value_in_precedence_applies() -> None:
    fake_broker = FakeBroker()
    alter(fake_broker, "", "log.retention.ms", "2000")
    alter(fake_broker, "1", "log.retention.ms", "3000")

    alter(fake_broker, "1", "log.retention.ms", None, DELETE)
    between = describe(fake_broker, BROKER, "1")["log.retention.ms"]
    alter(fake_broker, "", "log.retention.ms", None, DELETE)
    after = describe(fake_broker, BROKER, "1")["log.retention.ms"]

    assert (between["value"], between["config_source"]) == ("2000", ALL)
    assert (after["value"], after["config_source"]) == (None, DEFAULT)
    assert fake_broker.store.values == {}


def test_the_cluster_default_resource_shows_only_its_altered_values() -> None:
    fake_broker = FakeBroker()
    alter(fake_broker, "1", "message.max.bytes", "1000")
    alter(fake_broker, "", "max.connections", "7")

    described = describe(fake_broker, BROKER, "")

    [entry] = described.values()
    assert (entry["name"], entry["value"], entry["config_source"]) == ("max.connections", "7", ALL)


def test_alterations_survive_a_restart() -> None:
    fake_broker = FakeBroker()
    fake_broker.create("a")
    alter(fake_broker, "1", "log.retention.ms", "5")
    alter(fake_broker, "", "log.segment.bytes", "4096")
    after = FakeBroker(store=fake_broker.store)

    after.topics.load()

    assert after.config.integer("log.retention.ms") == 5
    assert after.log("a").config.integer("retention.ms") == 5
    assert after.log("a").config.integer("segment.bytes") == 4096


def test_alterations_are_stored_under_their_broker() -> None:
    fake_broker = FakeBroker()
    alter(fake_broker, "1", "log.retention.ms", "5")
    alter(fake_broker, "", "log.retention.ms", "6")

    stored = {key: json.loads(value)["config"] for key, value in fake_broker.store.values.items()}

    assert stored == {
        b"conf/broker/1": {"log.retention.ms": "5"},
        b"conf/broker/": {"log.retention.ms": "6"},
    }


def test_only_an_invalid_stored_value_is_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fake_broker = FakeBroker()
    config = {"max.connections": "7", "no.such.key": "1", "log.retention.ms": "soon"}
    value = {"version": 1, "config": config}
    fake_broker.store.values[b"conf/broker/1"] = json.dumps(value).encode()

    after = FakeBroker(store=fake_broker.store)

    assert after.config.integer("max.connections") == 7
    assert after.config.get("log.retention.ms") is None
    assert "no.such.key" in caplog.text
    assert "log.retention.ms" in caplog.text


def test_a_stored_value_that_contradicts_the_next_starts_settings_is_skipped() -> None:
    fake_broker = FakeBroker()
    alter(fake_broker, "1", "log.cleaner.min.compaction.lag.ms", "6")
    alter(fake_broker, "1", "max.connections", "7")

    after = FakeBroker({"log.cleaner.max.compaction.lag.ms": "5"}, store=fake_broker.store)

    assert after.config.integer("log.cleaner.min.compaction.lag.ms") == 0
    assert after.config.integer("max.connections") == 7


@pytest.mark.parametrize("name", sorted(DYNAMIC_SETTINGS))
def test_every_dynamic_setting_can_be_altered_and_refuses_invalid_values(name: str) -> None:
    fake_broker = FakeBroker()
    fake_broker.create("a")
    setting = DYNAMIC_SETTINGS[name]
    text = value_to_text(setting.minimum if setting.default is None else setting.default)

    assert alter(fake_broker, "1", name, "\N{INVERTED QUESTION MARK}")["error_code"] == 42
    assert not fake_broker.config.is_given(name)
    assert alter(fake_broker, "1", name, text)["error_code"] == 0
    assert fake_broker.config.is_given(name)


def test_alter_configs_replaces_all_altered_values_of_the_broker() -> None:
    fake_broker = FakeBroker()
    set_all(fake_broker, "1", max_connections="7", message_max_bytes="1000")

    set_all(fake_broker, "1", max_connections="8")

    assert fake_broker.config.integer("max.connections") == 8
    assert fake_broker.config.integer("message.max.bytes") == 1048588


@pytest.mark.parametrize("broker", ["", "1"])
@pytest.mark.parametrize(
    ("name", "value", "error", "said"),
    [
        ("node.id", "4", 42, "only at its start"),
        ("auto.create.topics.enable", "false", 42, "only at its start"),
        ("log.retention.hours", "1", 42, "only at its start"),
        ("log.retention.mss", "1", 42, "did you mean log.retention.ms?"),
        ("log.retention.ms", "soon", 42, "-1 or more ms"),
        ("message.max.bytes", str(100 << 20), 42, "socket.request.max.bytes"),
        ("log.cleaner.min.compaction.lag.ms", str(FOREVER), 0, None),
    ],
)
def test_settings_that_are_not_dynamic_are_refused_and_nothing_changes(
    broker: str, name: str, value: str, error: int, said: str | None
) -> None:
    fake_broker = FakeBroker()
    before = describe(fake_broker, BROKER, "1")

    answer = alter(fake_broker, broker, name, value)

    assert answer["error_code"] == error
    assert (said is None) or said in answer["error_message"]
    assert (describe(fake_broker, BROKER, "1") == before) == bool(error)


def test_only_lists_can_be_appended_to() -> None:
    fake_broker = FakeBroker()

    refused = alter(fake_broker, "1", "log.retention.ms", "5", APPEND)
    done = alter(fake_broker, "1", "log.cleanup.policy", "compact", APPEND)

    assert (refused["error_code"], done["error_code"]) == (40, 0)
    assert fake_broker.config.words("log.cleanup.policy") == ("delete", "compact")


def test_contradicting_defaults_are_refused() -> None:
    fake_broker = FakeBroker()
    alter(fake_broker, "1", "log.cleaner.max.compaction.lag.ms", "5")

    answer = alter(fake_broker, "1", "log.cleaner.min.compaction.lag.ms", "6")

    assert answer["error_code"] == 42
    assert fake_broker.config.integer("log.cleaner.min.compaction.lag.ms") == 0


def test_a_default_that_a_topic_cannot_inherit_is_refused_with_the_topics_name() -> None:
    fake_broker = FakeBroker()
    fake_broker.create("a", config={"max.compaction.lag.ms": "5"})

    answer = alter(fake_broker, "", "log.cleaner.min.compaction.lag.ms", "6")

    assert answer["error_code"] == 42
    assert "'a'" in answer["error_message"]
    assert fake_broker.store.get(b"conf/broker/") is None
    assert fake_broker.log("a").config.integer("min.compaction.lag.ms") == 0


def test_internal_topics_keep_group_commit_whatever_the_default() -> None:
    fake_broker = FakeBroker()
    asyncio.run(fake_broker.topics.offsets_topic())
    fake_broker.create("a")

    assert alter(fake_broker, "", "polylog.durability", "os")["error_code"] == 0

    assert not fake_broker.log("a").config.is_group_commit
    assert fake_broker.log(OFFSETS_TOPIC).config.is_group_commit


def test_validate_only_checks_and_changes_nothing() -> None:
    fake_broker = FakeBroker()
    fake_broker.create("a", config={"max.compaction.lag.ms": "5"})

    good = alter(fake_broker, "1", "log.retention.ms", "5", validate_only=True)
    bad = alter(fake_broker, "1", "node.id", "5", validate_only=True)
    inherited = alter(
        fake_broker, "1", "log.cleaner.min.compaction.lag.ms", "6", validate_only=True
    )

    assert (good["error_code"], bad["error_code"], inherited["error_code"]) == (0, 42, 42)
    assert fake_broker.config.get("log.retention.ms") is None
    assert b"conf/broker/1" not in fake_broker.store.values


def test_a_failing_disk_is_a_storage_error_and_changes_nothing() -> None:
    fake_broker = FakeBroker()
    fake_broker.create("a")
    fake_broker.store.is_broken = True

    assert alter(fake_broker, "1", "log.retention.ms", "5")["error_code"] == 56

    assert fake_broker.config.get("log.retention.ms") is None
    assert fake_broker.log("a").config.integer("retention.ms") == 604_800_000


def test_followers_of_the_configuration_are_called_and_the_change_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    fake_broker = FakeBroker()
    received: list[int] = []
    fake_broker.configs.when_altered(
        lambda config: received.append(config.integer("max.connections"))
    )

    alter(fake_broker, "1", "max.connections", "7")

    assert received == [7]
    assert "broker setting altered: name=max.connections old=10000 new=7" in caplog.text


def test_concurrent_alterations_both_take_effect() -> None:
    fake_broker = FakeBroker()

    async def both() -> None:
        resources = [
            {
                "resource_type": BROKER,
                "resource_name": "1",
                "configs": [{"name": name, "value": "7", "config_operation": SET}],
            }
            for name in ("max.connections", "log.retention.ms")
        ]
        await asyncio.gather(
            *(
                fake_broker.ask_soon(INCREMENTAL, 1, resources=[each], validate_only=False)
                for each in resources
            )
        )

    asyncio.run(both())

    assert fake_broker.config.integer("max.connections") == 7
    assert fake_broker.config.integer("log.retention.ms") == 7


@pytest.mark.parametrize("op", [SET, DELETE, APPEND])
@pytest.mark.parametrize(
    "name", ["background.threads", "ssl.provider", "listener.name.internal.ssl.protocol"]
)
def test_a_setting_known_only_to_kafka_is_accepted_and_has_no_effect(name: str, op: int) -> None:
    fake_broker = FakeBroker()
    before = describe(fake_broker, BROKER, "1")

    assert alter(fake_broker, "1", name, "5", op)["error_code"] == 0
    assert describe(fake_broker, BROKER, "1") == before


def test_a_set_with_kafka_only_settings_is_accepted_and_the_known_ones_apply() -> None:
    fake_broker = FakeBroker()

    answer = set_all(fake_broker, "1", background_threads="5", message_max_bytes="2000000")

    assert answer["error_code"] == 0
    assert describe(fake_broker, BROKER, "1")["message.max.bytes"]["value"] == "2000000"


def test_an_unknown_setting_is_refused() -> None:
    answer = alter(FakeBroker(), "1", "background.thread", "5")

    assert answer["error_code"] != 0

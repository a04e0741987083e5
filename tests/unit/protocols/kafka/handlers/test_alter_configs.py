"""AlterConfigs and IncrementalAlterConfigs (KIP-133, KIP-339)."""

import asyncio
import json
from typing import Any

import pytest

from broker.core.topics.topic import OFFSETS_TOPIC
from broker.model.config import Source
from tests.support.fakes import FakeBroker, only

ALTER, INCREMENTAL = 33, 44
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def key(name: str, value: str | None, op: int = SET) -> dict[str, Any]:
    return {"name": name, "value": value, "config_operation": op}


def fields_of(api: int, *configs: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the keys as in an API's request."""
    known = ("name", "value", "config_operation") if api == INCREMENTAL else ("name", "value")
    return [{name: config[name] for name in known} for config in configs]


def alter(
    broker: FakeBroker,
    api: int,
    *configs: dict[str, Any],
    topic: str = "a",
    resource_type: int = TOPIC,
    version: int = 1,
    validate_only: bool = False,
) -> dict[str, Any]:
    resource = {
        "resource_type": resource_type,
        "resource_name": topic,
        "configs": fields_of(api, *configs),
    }
    answer = broker.ask(api, version, resources=[resource], validate_only=validate_only)
    return only(answer["responses"])


def own(broker: FakeBroker, topic: str = "a") -> dict[str, str]:
    found = broker.topics.get(topic)
    assert found is not None
    return dict(found.config.overrides)


def stored(broker: FakeBroker, topic: str = "a") -> Any:
    value = broker.store.values.get(b"conf/topic/" + topic.encode())
    return None if value is None else json.loads(value)["config"]


@pytest.mark.parametrize(("api", "version"), [(ALTER, 0), (ALTER, 2), (INCREMENTAL, 0)])
def test_a_set_key_applies_to_the_logs_and_is_stored(api: int, version: int) -> None:
    broker = FakeBroker()
    broker.create("a", 2)

    answer = alter(broker, api, key("retention.ms", "5"), version=version)

    assert (answer["error_code"], answer["error_message"]) == (0, None)
    assert (answer["resource_type"], answer["resource_name"]) == (TOPIC, "a")
    assert [broker.log("a", n).config.integer("retention.ms") for n in range(2)] == [5, 5]
    assert stored(broker) == {"retention.ms": "5"}


def test_an_altered_topic_survives_a_restart() -> None:
    broker = FakeBroker()
    broker.create("a", config={"segment.ms": "7"})
    alter(broker, INCREMENTAL, key("retention.ms", "5"))
    after = FakeBroker(store=broker.store)

    after.topics.load()

    assert own(after) == {"retention.ms": "5", "segment.ms": "7"}


def test_alter_configs_replaces_the_whole_configuration() -> None:
    broker = FakeBroker()
    broker.create("a", config={"segment.ms": "7"})

    alter(broker, ALTER, key("retention.ms", "5"))

    assert own(broker) == stored(broker) == {"retention.ms": "5"}


def test_alter_configs_without_keys_restores_the_brokers_values() -> None:
    broker = FakeBroker({"log.retention.ms": "9"})
    topic = broker.create("a", config={"retention.ms": "7"})

    assert alter(broker, ALTER)["error_code"] == 0

    assert stored(broker) is None
    assert topic.config.integer("retention.ms") == 9
    assert topic.config.source("retention.ms") is Source.STATIC_BROKER


def test_incremental_alterations_keep_other_keys() -> None:
    broker = FakeBroker()
    broker.create("a", config={"segment.ms": "7", "retention.ms": "5"})

    alter(broker, INCREMENTAL, key("segment.ms", None, DELETE), key("flush.ms", "3"))

    assert own(broker) == {"retention.ms": "5", "flush.ms": "3"}


def test_deleting_a_key_that_is_not_set_changes_nothing() -> None:
    broker = FakeBroker()
    broker.create("a")

    for name in ("segment.ms", "no.such.key"):
        assert alter(broker, INCREMENTAL, key(name, "x", DELETE))["error_code"] == 0

    assert own(broker) == {}


@pytest.mark.parametrize(
    ("op", "text", "result"),
    [
        (APPEND, "compact", "delete,compact"),
        (APPEND, "delete", "delete"),
        (APPEND, "compact, delete", "delete,compact"),
        (SUBTRACT, "delete", ""),
        (SUBTRACT, "compact", "delete"),
    ],
)
def test_append_and_subtract_apply_to_the_list_in_force(op: int, text: str, result: str) -> None:
    broker = FakeBroker()
    broker.create("a")

    assert alter(broker, INCREMENTAL, key("cleanup.policy", text, op))["error_code"] == 0

    assert own(broker) == {"cleanup.policy": result}


@pytest.mark.parametrize("op", [APPEND, SUBTRACT])
def test_only_lists_can_be_appended_to(op: int) -> None:
    broker = FakeBroker()
    broker.create("a")

    answer = alter(broker, INCREMENTAL, key("retention.ms", "5", op))

    assert answer["error_code"] == 40
    assert "retention.ms" in answer["error_message"]


@pytest.mark.parametrize("api", [ALTER, INCREMENTAL])
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("retention.mss", "5", ("retention.mss", "did you mean retention.ms?")),
        ("retention.ms", "soon", ("retention.ms", "'soon'", "-1 or more ms")),
        ("segment.bytes", "-4", ("segment.bytes", "'-4'", "1024 .. 2147483647 bytes")),
        ("cleanup.policy", "shred", ("cleanup.policy", "delete | compact")),
        ("min.compaction.lag.ms", str((1 << 63) - 1) + "0", ("min.compaction.lag.ms", "0")),
    ],
)
def test_an_invalid_key_or_value_is_refused_with_the_allowed_values(
    api: int, name: str, value: str, said: tuple[str, ...]
) -> None:
    broker = FakeBroker()
    broker.create("a", config={"flush.ms": "3"})

    answer = alter(broker, api, key("segment.ms", "9"), key(name, value))

    assert answer["error_code"] == 40
    assert all(each in answer["error_message"] for each in said)
    assert own(broker) == stored(broker) == {"flush.ms": "3"}


@pytest.mark.parametrize(
    "config",
    [
        key("x" * 32_767, "5"),
        key("retention.ms", "\N{GRINNING FACE}" * 8_191),
        key("leader.replication.throttled.replicas", "0:1," * 8_191 + "x"),
    ],
    ids=["key", "value", "list"],
)
def test_a_long_invalid_value_has_a_short_error_message(config: dict[str, Any]) -> None:
    broker = FakeBroker()
    broker.create("a")

    answer = alter(broker, INCREMENTAL, config, version=0)

    assert answer["error_code"] == 40
    assert 20 < len(answer["error_message"]) <= 1_000


def test_many_invalid_values_have_a_short_error_message() -> None:
    broker = FakeBroker()
    broker.create("a")

    answer = alter(broker, ALTER, *(key(f"key.{number}" * 20, None) for number in range(500)))

    assert (answer["error_code"], len(answer["error_message"])) == (42, 1_000)


def test_a_list_cannot_grow_beyond_what_a_response_can_show() -> None:
    broker = FakeBroker()
    broker.create("a")
    name = "leader.replication.throttled.replicas"

    def append(first: int) -> int:
        words = ",".join(f"{first + place}:1" for place in range(3_000))
        code: int = alter(broker, INCREMENTAL, key(name, words, APPEND))["error_code"]
        return code

    assert [append(10_000), append(20_000), append(10_000)] == [0, 40, 0]
    assert own(broker)[name].count(",") == 2_999


def test_contradicting_keys_are_refused() -> None:
    broker = FakeBroker()
    broker.create("a", config={"max.compaction.lag.ms": "5"})

    answer = alter(broker, INCREMENTAL, key("min.compaction.lag.ms", "6"))

    assert answer["error_code"] == 40
    assert "is above" in answer["error_message"]


@pytest.mark.parametrize("api", [ALTER, INCREMENTAL])
def test_validate_only_checks_and_changes_nothing(api: int) -> None:
    broker = FakeBroker()
    broker.create("a")

    good = alter(broker, api, key("retention.ms", "5"), validate_only=True)
    bad = alter(broker, api, key("retention.ms", "x"), validate_only=True)

    assert (good["error_code"], bad["error_code"]) == (0, 40)
    assert own(broker) == {}
    assert stored(broker) is None


@pytest.mark.parametrize("api", [ALTER, INCREMENTAL])
@pytest.mark.parametrize(
    ("topic", "resource_type", "error"),
    [
        ("b", TOPIC, 3),
        ("a b", TOPIC, 17),
        ("", TOPIC, 42),
        ("2", BROKER, 42),
        ("one", BROKER, 42),
        ("2", LOGGER, 42),
        ("", LOGGER, 42),
        ("m", METRICS, 42),
        ("", GROUP, 42),
        ("g" * 1_001, GROUP, 42),
        ("a", 77, 42),
    ],
)
def test_a_resource_that_cannot_be_altered_has_an_error_and_a_message(
    api: int, topic: str, resource_type: int, error: int
) -> None:
    answer = alter(FakeBroker(), api, topic=topic, resource_type=resource_type)

    assert answer["error_code"] == error
    assert answer["error_message"]


@pytest.mark.parametrize("api", [ALTER, INCREMENTAL])
def test_a_key_without_a_value_is_an_invalid_request(api: int) -> None:
    broker = FakeBroker()
    broker.create("a")

    answer = alter(broker, api, key("retention.ms", None))

    assert answer["error_code"] == 42
    assert "retention.ms" in answer["error_message"]


@pytest.mark.parametrize("api", [ALTER, INCREMENTAL])
def test_a_key_named_twice_is_an_invalid_request(api: int) -> None:
    broker = FakeBroker()
    broker.create("a")

    assert alter(broker, api, key("flush.ms", "1"), key("flush.ms", "2"))["error_code"] == 42


def test_an_unknown_operation_is_an_invalid_request() -> None:
    broker = FakeBroker()
    broker.create("a")

    assert alter(broker, INCREMENTAL, key("flush.ms", "1", 4))["error_code"] == 42
    assert alter(broker, INCREMENTAL, key("flush.ms", "1", -1))["error_code"] == 42


@pytest.mark.parametrize("api", [ALTER, INCREMENTAL])
def test_a_resource_named_twice_is_refused_and_answered_once(api: int) -> None:
    broker = FakeBroker()
    broker.create("a")
    broker.create("b")
    resources = [
        {
            "resource_type": TOPIC,
            "resource_name": name,
            "configs": fields_of(api, key("flush.ms", "1")),
        }
        for name in ("a", "b", "a")
    ]

    answer = broker.ask(api, 1, resources=resources, validate_only=False)["responses"]

    codes = [(each["resource_name"], each["error_code"]) for each in answer]
    assert codes == [("a", 42), ("b", 0)]
    assert (own(broker, "a"), own(broker, "b")) == ({}, {"flush.ms": "1"})


def test_concurrent_alterations_both_take_effect() -> None:
    broker = FakeBroker()
    broker.create("a")

    async def both() -> None:
        await asyncio.gather(
            *(
                broker.ask_soon(
                    INCREMENTAL,
                    1,
                    resources=[{"resource_type": TOPIC, "resource_name": "a", "configs": [each]}],
                    validate_only=False,
                )
                for each in (key("flush.ms", "1"), key("segment.ms", "2"))
            )
        )

    asyncio.run(both())

    assert own(broker) == stored(broker) == {"flush.ms": "1", "segment.ms": "2"}


def test_a_topic_deleted_during_the_request_is_unknown() -> None:
    broker = FakeBroker()
    topic = broker.create("a")
    broker.store.values.clear()
    broker.reload()

    assert alter(broker, INCREMENTAL, key("flush.ms", "1"))["error_code"] == 3
    assert topic.config.overrides == {}


def test_a_failing_disk_is_a_storage_error_and_changes_nothing() -> None:
    broker = FakeBroker()
    broker.create("a")
    broker.store.is_broken = True

    assert alter(broker, INCREMENTAL, key("flush.ms", "1"))["error_code"] == 56
    assert own(broker) == {}


def test_internal_topics_keep_group_commit_whatever_is_requested() -> None:
    broker = FakeBroker()
    broker.create(OFFSETS_TOPIC)

    answer = alter(broker, INCREMENTAL, key("polylog.durability", "os"), topic=OFFSETS_TOPIC)

    assert answer["error_code"] == 40
    assert "group-commit" in answer["error_message"]

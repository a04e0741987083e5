"""Configurations of groups: DescribeConfigs, AlterConfigs (KIP-848)."""

import json
from typing import Any

import pytest

from broker.core.configs import group_configs
from tests.support.fakes import FakeBroker, only

DESCRIBE, INCREMENTAL = 32, 44
GROUP = 32
SET, DELETE = 0, 1
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def alter(
    broker: FakeBroker,
    group: str,
    name: str,
    value: str | None,
    op: int = SET,
    *,
    validate_only: bool = False,
) -> dict[str, Any]:
    config = {"name": name, "value": value, "config_operation": op}
    resource = {"resource_type": GROUP, "resource_name": group, "configs": [config]}
    answer = broker.ask(INCREMENTAL, 1, resources=[resource], validate_only=validate_only)
    return only(answer["responses"])


def describe(broker: FakeBroker, group: str) -> dict[str, tuple[str, int, list[tuple[str, int]]]]:
    resource = {"resource_type": GROUP, "resource_name": group, "configuration_keys": None}
    answer = broker.ask(DESCRIBE, 4, resources=[resource], include_synonyms=True)
    return {
        each["name"]: (
            each["value"],
            each["config_source"],
            [(synonym["name"], synonym["source"]) for synonym in each["synonyms"]],
        )
        for each in only(answer["results"])["configs"]
    }


def test_an_unknown_group_shows_the_brokers_defaults() -> None:
    assert describe(FakeBroker(), "g") == {
        SESSION: ("45000", 5, [(f"group.{SESSION}", 5)]),
        HEARTBEAT: ("5000", 5, [(f"group.{HEARTBEAT}", 5)]),
    }


def test_a_groups_own_value_takes_precedence_and_survives_a_restart() -> None:
    broker = FakeBroker()

    assert alter(broker, "g", SESSION, "50000")["error_code"] == 0

    for each in (broker, FakeBroker(store=broker.store)):
        assert describe(each, "g")[SESSION] == (
            "50000",
            8,
            [(SESSION, 8), (f"group.{SESSION}", 5)],
        )
        assert each.group_configs.setting("g", SESSION) == 50_000
        assert each.group_configs.setting("other", SESSION) == 45_000
    assert json.loads(broker.store.values[b"conf/group/g"])["config"] == {SESSION: "50000"}


def test_an_alteration_is_logged_in_one_line_whatever_the_groups_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")

    alter(FakeBroker(), "a\nb", SESSION, "50000")

    [line] = caplog.messages
    assert line.endswith(r"group='a\nb' own={'consumer.session.timeout.ms': '50000'}")


def test_a_group_without_own_values_is_removed_from_the_store() -> None:
    broker = FakeBroker()
    alter(broker, "g", SESSION, "50000")

    alter(broker, "g", SESSION, None, DELETE)

    assert broker.group_configs.names == []
    assert broker.store.values == {}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (SESSION, "44999", "group.consumer.min.session.timeout.ms"),
        (SESSION, "60001", "group.consumer.max.session.timeout.ms"),
        (HEARTBEAT, "4999", "5000 .. 15000"),
        (HEARTBEAT, "often", "'often'"),
        ("consumer.session.timeout", "50000", "did you mean consumer.session.timeout.ms?"),
    ],
)
def test_values_out_of_range_and_unknown_keys_are_refused(name: str, value: str, said: str) -> None:
    broker = FakeBroker()

    answer = alter(broker, "g", name, value)

    assert answer["error_code"] == 40
    assert said in answer["error_message"]
    assert broker.group_configs.names == []


def test_the_bounds_are_settings_of_the_broker() -> None:
    broker = FakeBroker({"group.consumer.min.session.timeout.ms": "1000"})

    assert alter(broker, "g", SESSION, "1000")["error_code"] == 0
    assert FakeBroker(store=broker.store).group_configs.setting("g", SESSION) == 45_000


def test_validate_only_changes_nothing() -> None:
    broker = FakeBroker()

    assert alter(broker, "g", SESSION, "50000", validate_only=True)["error_code"] == 0
    assert alter(broker, "g", SESSION, "1", validate_only=True)["error_code"] == 40
    assert broker.group_configs.names == []


def test_the_number_of_groups_with_configurations_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_configs, "GROUP_CONFIGS_MAX", 1)
    broker = FakeBroker()

    codes = [alter(broker, group, SESSION, "50000")["error_code"] for group in ("a", "b", "a")]

    assert codes == [0, 44, 0]


def test_a_failing_disk_is_a_storage_error_and_changes_nothing() -> None:
    broker = FakeBroker()
    broker.store.is_broken = True

    assert alter(broker, "g", SESSION, "50000")["error_code"] == 56
    assert broker.group_configs.names == []

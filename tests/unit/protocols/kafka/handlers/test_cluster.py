"""DescribeCluster (KIP-700), DescribeConfigs (KIP-133), InitProducerId (KIP-98)."""

from typing import Any

import pytest

from broker.model.explanation import explain
from broker.model.limits import CONFIGS_DESCRIBED_PER_STEP
from tests.support.fakes import FakeBroker, only

TOPIC, BROKER, LOGGERS, GROUP = 2, 4, 8, 32


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_this_broker(version: int) -> None:
    answer = FakeBroker({"node.id": "3"}).ask(60, version)

    broker = only(answer["brokers"])
    assert (broker["broker_id"], broker["host"], broker["port"]) == (3, "broker.example", 9092)
    assert answer["controller_id"] == 3


@pytest.mark.parametrize(("endpoint_type", "error"), [(1, 0), (2, 114), (3, 115)])
def test_only_brokers_are_endpoints(endpoint_type: int, error: int) -> None:
    answer = FakeBroker().ask(60, 1, endpoint_type=endpoint_type)

    assert answer["error_code"] == error
    assert bool(answer["error_message"]) == bool(error)


def test_cluster_operations_are_returned_only_on_request() -> None:
    fake_broker = FakeBroker()

    silent = fake_broker.ask(60, 0)
    asked = fake_broker.ask(60, 0, include_cluster_authorized_operations=True)

    assert silent["cluster_authorized_operations"] == -(1 << 31)
    assert asked["cluster_authorized_operations"] == 8096


def describe(
    fake_broker: FakeBroker,
    version: int,
    resource_type: int,
    name: str,
    keys: list[str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    resource = {
        "resource_type": resource_type,
        "resource_name": name,
        "configuration_keys": keys,
    }
    return only(fake_broker.ask(32, version, resources=[resource], **more)["results"])


@pytest.mark.parametrize("version", range(5))
def test_a_topic_is_described_with_all_its_keys_and_their_defaults(version: int) -> None:
    fake_broker = FakeBroker()
    fake_broker.create("a", config={"cleanup.policy": "compact"})

    configs = {each["name"]: each for each in describe(fake_broker, version, TOPIC, "a")["configs"]}

    assert configs["cleanup.policy"]["value"] == "compact"
    assert {"retention.ms", "max.message.bytes", "polylog.durability"} <= configs.keys()
    assert not any(each["read_only"] or each["is_sensitive"] for each in configs.values())


def test_version_0_marks_defaults() -> None:
    fake_broker = FakeBroker()
    fake_broker.create("a", config={"cleanup.policy": "compact"})

    configs = {each["name"]: each for each in describe(fake_broker, 0, TOPIC, "a")["configs"]}

    assert not configs["cleanup.policy"]["is_default"]
    assert configs["retention.ms"]["is_default"]


def test_a_key_inherited_from_the_broker_has_the_static_broker_source() -> None:
    fake_broker = FakeBroker({"log.retention.ms": "77"})
    fake_broker.create("a")

    config = only(describe(fake_broker, 1, TOPIC, "a", ["retention.ms"])["configs"])

    assert (config["value"], config["config_source"]) == ("77", 4)


def test_synonyms_are_returned_on_request_from_the_most_specific_on() -> None:
    fake_broker = FakeBroker({"log.retention.ms": "77"})
    fake_broker.create("a", config={"retention.ms": "5"})

    silent = only(describe(fake_broker, 1, TOPIC, "a", ["retention.ms"])["configs"])
    asked = only(
        describe(fake_broker, 1, TOPIC, "a", ["retention.ms"], include_synonyms=True)["configs"]
    )

    assert silent["synonyms"] == []
    sources = [(each["name"], each["source"]) for each in asked["synonyms"]]
    assert sources[:2] == [("retention.ms", 1), ("log.retention.ms", 4)]


def test_types_and_documentation_are_returned_since_version_3() -> None:
    fake_broker = FakeBroker()
    fake_broker.create("a")

    config = only(
        describe(fake_broker, 3, TOPIC, "a", ["retention.ms"], include_documentation=True)[
            "configs"
        ]
    )

    assert config["config_type"] == 5
    assert config["documentation"] == explain("retention.ms").documentation


@pytest.mark.parametrize(
    ("resource_type", "name"), [(TOPIC, "a"), (BROKER, "1"), (BROKER, ""), (GROUP, "g")]
)
@pytest.mark.parametrize("version", [3, 4])
def test_every_key_has_the_documentation_of_its_explanation(
    version: int, resource_type: int, name: str
) -> None:
    fake_broker = FakeBroker()
    fake_broker.create("a")
    if not name:
        alter = {"name": "log.retention.ms", "config_operation": 0, "value": "5"}
        resource = {"resource_type": BROKER, "resource_name": "", "configs": [alter]}
        [altered] = fake_broker.ask(44, 1, resources=[resource])["responses"]
        assert altered["error_code"] == 0

    silent = describe(fake_broker, version, resource_type, name)["configs"]
    asked = describe(fake_broker, version, resource_type, name, include_documentation=True)

    documents = {each["name"]: each["documentation"] for each in asked["configs"]}
    assert documents
    assert documents == {key: explain(key).documentation for key in documents}
    assert {each["documentation"] for each in silent} == {None}


@pytest.mark.parametrize("version", [3, 4])
def test_loggers_are_documented(version: int) -> None:
    fake_broker = FakeBroker()

    asked = describe(fake_broker, version, LOGGERS, "1", include_documentation=True)["configs"]

    assert {each["name"] for each in asked} >= {"root", "broker"}
    assert all("FATAL, ERROR, WARN" in each["documentation"] for each in asked)


def test_unknown_keys_are_omitted_and_an_empty_list_means_all() -> None:
    fake_broker = FakeBroker()
    fake_broker.create("a")

    assert describe(fake_broker, 4, TOPIC, "a", ["no.such.key"])["configs"] == []
    assert describe(fake_broker, 4, TOPIC, "a", [])["configs"]


def test_the_broker_resource_shows_its_settings_and_which_are_read_only() -> None:
    configs = describe(FakeBroker({"num.partitions": "9"}), 4, BROKER, "1")["configs"]

    by_name = {each["name"]: each for each in configs}
    assert {"advertised.listeners", "auto.create.topics.enable"} <= by_name.keys()
    assert (by_name["num.partitions"]["value"], by_name["num.partitions"]["config_source"]) == (
        "9",
        4,
    )
    read_only = {each["name"] for each in configs if each["read_only"]}
    assert {"num.partitions", "node.id", "listeners", "log.retention.hours"} <= read_only
    assert read_only.isdisjoint({"log.retention.ms", "message.max.bytes", "max.connections"})


def test_the_cluster_default_resource_is_empty_by_default() -> None:
    answer = describe(FakeBroker(), 4, BROKER, "")

    assert (answer["error_code"], answer["configs"]) == (0, [])


@pytest.mark.parametrize(
    ("resource_type", "name", "error"),
    [
        (TOPIC, "b", 3),
        (TOPIC, "a b", 17),
        (BROKER, "2", 42),
        (BROKER, "x", 42),
        (8, "2", 42),
        (16, "m", 42),
        (32, "", 42),
    ],
)
def test_an_unknown_resource_has_an_error_and_a_message(
    resource_type: int, name: str, error: int
) -> None:
    answer = describe(FakeBroker(), 4, resource_type, name)

    assert answer["error_code"] == error
    assert answer["error_message"]


def test_other_tasks_run_while_many_resources_are_described() -> None:
    fake_broker = FakeBroker()
    resources = [
        {"resource_type": 32, "resource_name": f"g{number}", "configuration_keys": None}
        for number in range(3 * CONFIGS_DESCRIBED_PER_STEP)
    ]

    assert fake_broker.turns(32, 4, resources=resources) >= 3


def test_resources_are_returned_once_in_the_order_of_the_request() -> None:
    resources = [
        {"resource_type": resource_type, "resource_name": name, "configuration_keys": None}
        for resource_type, name in ((BROKER, "1"), (TOPIC, "x"), (BROKER, "1"))
    ]

    results = FakeBroker().ask(32, 4, resources=resources)["results"]

    assert [each["resource_name"] for each in results] == ["1", "x"]


@pytest.mark.parametrize("version", range(6))
def test_every_idempotent_producer_gets_a_new_id_with_epoch_0(version: int) -> None:
    fake_broker = FakeBroker()

    first, second = (fake_broker.ask(22, version, transactional_id=None) for _ in range(2))

    assert (first["error_code"], first["producer_epoch"]) == (0, 0)
    assert first["producer_id"] != second["producer_id"]


def test_a_producer_that_has_an_id_gets_a_new_one_too() -> None:
    answer = FakeBroker().ask(22, 4, transactional_id=None, producer_id=5, producer_epoch=2)

    assert (answer["error_code"], answer["producer_id"], answer["producer_epoch"]) == (0, 1000, 0)


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5)])
def test_an_id_without_an_epoch_or_the_reverse_is_an_invalid_request(
    producer_id: int, epoch: int
) -> None:
    answer = FakeBroker().ask(
        22, 4, transactional_id=None, producer_id=producer_id, producer_epoch=epoch
    )

    assert (answer["error_code"], answer["producer_id"]) == (42, -1)


def test_ids_that_cannot_be_reserved_are_a_storage_error() -> None:
    fake_broker = FakeBroker()
    fake_broker.producer_ids.is_broken = True

    assert fake_broker.ask(22, 0, transactional_id=None)["error_code"] == 56

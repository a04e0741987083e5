"""ApiVersions (KIP-35, KIP-511)."""

import pytest

from broker.protocols.kafka import features
from tests.support.fakes import FakeBroker


@pytest.mark.parametrize("version", range(5))
def test_the_advertised_list_shows_produce_from_0(version: int) -> None:
    answer = FakeBroker().ask(18, version, client_software_name="a", client_software_version="1")

    assert answer["api_keys"][0] == {"api_key": 0, "min_version": 0, "max_version": 13}


@pytest.mark.parametrize("name", ["", "-a", "a-", "a b", "é", "a/b", "a\n"])
def test_an_invalid_software_name_is_an_invalid_request(name: str) -> None:
    answer = FakeBroker().ask(18, 3, client_software_name=name, client_software_version="1")

    assert answer["error_code"] == 42


def test_an_invalid_software_version_is_an_invalid_request() -> None:
    answer = FakeBroker().ask(18, 4, client_software_name="a", client_software_version="1_0")

    assert answer["error_code"] == 42


def test_names_of_one_character_and_with_dots_and_dashes_are_valid() -> None:
    for name in ("a", "7", "apache-kafka.java", "a1"):
        answer = FakeBroker().ask(18, 3, client_software_name=name, client_software_version="2.8.0")

        assert answer["error_code"] == 0


@pytest.mark.parametrize("version", [3, 4])
def test_features_with_minimum_0_are_returned_only_to_versions_that_can_represent_them(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(features.FEATURES, "new.version", features.Feature("new.version", 0, 2, 1))

    answer = FakeBroker().ask(18, version, client_software_name="a", client_software_version="1")

    supported = {
        each["name"]: (each["min_version"], each["max_version"])
        for each in answer["supported_features"]
    }
    finalized = {
        each["name"]: (each["min_version_level"], each["max_version_level"])
        for each in answer["finalized_features"]
    }
    assert supported.get("new.version") == (None if version < 4 else (0, 2))
    assert finalized["new.version"] == (1, 1)


def test_a_disabled_feature_is_not_finalized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(features.FEATURES, "new.version", features.Feature("new.version", 0, 2, 0))

    answer = FakeBroker().ask(18, 4, client_software_name="a", client_software_version="1")

    assert "new.version" not in {each["name"] for each in answer["finalized_features"]}


def test_the_features_are_those_of_kafka_4_3() -> None:
    answer = FakeBroker().ask(18, 4, client_software_name="a", client_software_version="1")

    finalized = {each["name"]: each["max_version_level"] for each in answer["finalized_features"]}
    kafka_4_3 = {"metadata.version": 30, "group.version": 1, "transaction.version": 2}
    assert finalized.items() <= kafka_4_3.items()
    assert answer["finalized_features_epoch"] == sum(finalized.values())

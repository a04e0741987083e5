"""ApiVersions (kafka.md 2.1)."""

import pytest

from tests.fakes import World


@pytest.mark.parametrize("version", range(5))
def test_the_advertised_list_shows_produce_from_0(version: int) -> None:
    answer = World().ask(18, version, client_software_name="a", client_software_version="1")

    assert answer["api_keys"][0] == {"api_key": 0, "min_version": 0, "max_version": 13}


@pytest.mark.parametrize("name", ["", "-a", "a-", "a b", "é", "a/b", "a\n"])
def test_an_invalid_software_name_is_an_invalid_request(name: str) -> None:
    answer = World().ask(18, 3, client_software_name=name, client_software_version="1")

    assert answer["error_code"] == 42


def test_an_invalid_software_version_is_an_invalid_request() -> None:
    answer = World().ask(18, 4, client_software_name="a", client_software_version="1_0")

    assert answer["error_code"] == 42


def test_names_of_one_character_and_with_dots_and_dashes_are_valid() -> None:
    for name in ("a", "7", "apache-kafka.java", "a1"):
        answer = World().ask(18, 3, client_software_name=name, client_software_version="2.8.0")

        assert answer["error_code"] == 0


def test_no_features_are_advertised_that_are_not_true() -> None:
    answer = World().ask(18, 4, client_software_name="a", client_software_version="1")

    assert answer["supported_features"] == []
    assert answer["finalized_features"] == []

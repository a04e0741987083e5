"""The table of APIs: what it advertises, and that every version can be served."""

import re
import sys
from typing import Any

import pytest

from broker.codec import schema
from broker.codec.schema import Definition
from broker.protocols.kafka import table
from tests.support.fakes import FakeBroker

# The versions that a Kafka 4.3.1 broker advertises; Produce 0-2 is served here.
KAFKA_4_3 = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9),
    12: (0, 4), 13: (0, 5), 14: (0, 5), 18: (0, 4), 19: (2, 7), 20: (1, 6), 21: (0, 2), 22: (0, 5),
    23: (2, 4), 29: (1, 3), 30: (1, 3), 31: (1, 3), 32: (1, 4), 33: (0, 2), 35: (1, 5), 37: (0, 3),
    43: (0, 2), 44: (0, 1), 45: (0, 1), 46: (0, 0), 48: (0, 1), 50: (0, 0), 55: (0, 2), 57: (0, 2),
    60: (0, 2), 74: (0, 1), 75: (0, 0),
}  # fmt: skip
ALL_VERSIONS = [(key, version) for key, api in table.APIS.items() for version in api.versions]
# Fields that a request with one element everywhere needs besides the defaults.
SPECIAL: dict[int, dict[str, Any]] = {
    0: {"acks": 1},
    1: {"max_wait_ms": 0},
    18: {"client_software_name": "test", "client_software_version": "1"},
}


def one_of_everything(definitions: list[Definition]) -> dict[str, Any]:
    """Return a value with one element in each array, and defaults everywhere else."""
    value: dict[str, Any] = {}
    for each in definitions:
        if each.type.startswith("[]"):
            plain: Any = {"[]string": "x"}.get(each.type, 0)
            value[each.name] = [one_of_everything(each.fields) if each.fields else plain]
        elif each.type == "string" and each.default == "":
            value[each.name] = "x"
    return value


def test_apis_are_in_the_order_of_their_keys() -> None:
    assert list(table.APIS) == sorted(table.APIS)


@pytest.mark.parametrize("key", list(KAFKA_4_3))
def test_every_version_of_kafka_4_3_is_advertised(key: int) -> None:
    lowest, highest = KAFKA_4_3[key]
    versions = table.APIS[key].versions

    assert versions.start <= lowest
    assert versions.stop - 1 == highest


@pytest.mark.parametrize("key", range(19))
def test_apis_used_by_clients_from_0_8_to_0_10_are_advertised_from_version_0(key: int) -> None:
    """Old librdkafka requires single old versions; 4-7 are not served."""
    if key in {4, 5, 6, 7}:
        assert key not in table.APIS
    else:
        assert table.APIS[key].versions.start == 0


def test_names_are_the_schemas() -> None:
    names = {key: api.name for key, api in table.APIS.items()}

    assert names == {key: schema.API_KEYS[key] for key in names}


@pytest.mark.parametrize("key", list(table.APIS))
def test_the_versions_in_a_handlers_docstring_are_the_served_ones(key: int) -> None:
    api = table.APIS[key]
    documentation = sys.modules[api.handle.__module__].__doc__ or ""

    match = re.match(rf"{api.name}, v(\d+)-(\d+)[.:]", documentation)

    assert match, documentation.splitlines()[0]
    assert range(int(match[1]), int(match[2]) + 1) == api.versions


@pytest.mark.parametrize(("key", "version"), ALL_VERSIONS)
def test_an_empty_request_of_any_version_is_answered(key: int, version: int) -> None:
    broker = FakeBroker()

    answer = broker.ask(key, version, **SPECIAL.get(key, {}))

    assert isinstance(answer, dict)


@pytest.mark.parametrize(("key", "version"), ALL_VERSIONS)
def test_a_request_with_one_element_in_every_array_is_answered(key: int, version: int) -> None:
    broker = FakeBroker()
    broker.create("x")
    fields = one_of_everything(schema.request(key).fields)

    answer = broker.ask(key, version, **{**fields, **SPECIAL.get(key, {})})

    assert isinstance(answer, dict)

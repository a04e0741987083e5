"""Levels of loggers: DescribeConfigs, AlterConfigs (KIP-412)."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fakes import FakeBroker, only

DESCRIBE, ALTER, INCREMENTAL = 32, 33, 44
LOGGER = 8
SET, DELETE, APPEND = 0, 1, 2
NAME = "broker.core.configs.broker_configs"


@pytest.fixture(autouse=True)
def _levels_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(), logging.getLogger(NAME)]
    levels = [each.level for each in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def alter(
    name: str, value: str | None, op: int = SET, *, validate_only: bool = False
) -> dict[str, Any]:
    config = {"name": name, "value": value, "config_operation": op}
    resource = {"resource_type": LOGGER, "resource_name": "1", "configs": [config]}
    answer = FakeBroker().ask(INCREMENTAL, 1, resources=[resource], validate_only=validate_only)
    return only(answer["responses"])


def levels() -> dict[str, str]:
    resource = {"resource_type": LOGGER, "resource_name": "1", "configuration_keys": None}
    configs = only(FakeBroker().ask(DESCRIBE, 4, resources=[resource])["results"])["configs"]
    assert all((each["config_source"], each["read_only"]) == (6, False) for each in configs)
    return {each["name"]: each["value"] for each in configs}


def test_every_logger_of_the_broker_is_described_and_none_of_a_library() -> None:
    logging.getLogger("a.library")

    names = list(levels())

    assert names[0] == "root"
    assert NAME in names
    assert all(name.split(".")[0] == "broker" for name in names[1:])


@pytest.mark.parametrize(
    ("word", "level"),
    [
        ("FATAL", logging.CRITICAL),
        ("ERROR", logging.ERROR),
        ("WARN", logging.WARNING),
        ("INFO", logging.INFO),
        ("DEBUG", logging.DEBUG),
        ("TRACE", 5),
    ],
)
def test_a_level_is_set_by_its_kafka_name(word: str, level: int) -> None:
    assert alter(NAME, word)["error_code"] == 0

    assert logging.getLogger(NAME).level == level
    assert levels()[NAME] == word


def test_after_a_removal_the_roots_level_applies() -> None:
    alter("root", "ERROR")
    alter(NAME, "DEBUG")

    assert alter(NAME, None, DELETE)["error_code"] == 0

    assert levels()[NAME] == "ERROR"


def test_the_roots_level_cannot_be_removed() -> None:
    before = logging.getLogger().level

    assert alter("root", None, DELETE, validate_only=True)["error_code"] == 42
    assert alter("root", None, DELETE)["error_code"] == 42

    assert logging.getLogger().level == before


@pytest.mark.parametrize(
    ("name", "value", "op"),
    [
        ("no.such.logger", "INFO", SET),
        ("no.such.logger", None, DELETE),
        (NAME, "LOUD", SET),
        (NAME, "info", SET),
        (NAME, "INFO", APPEND),
    ],
)
def test_an_unknown_logger_or_level_is_refused(name: str, value: str | None, op: int) -> None:
    before = levels()

    answer = alter(name, value, op)

    assert answer["error_code"] == 40
    assert answer["error_message"]
    assert levels() == before


def test_validate_only_changes_nothing() -> None:
    before = levels()

    assert alter(NAME, "TRACE", validate_only=True)["error_code"] == 0
    assert alter(NAME, "LOUD", validate_only=True)["error_code"] == 40
    assert levels() == before


def test_alter_configs_is_refused_for_loggers() -> None:
    configs = [{"name": NAME, "value": "DEBUG"}]
    resource = {"resource_type": LOGGER, "resource_name": "1", "configs": configs}

    answer = FakeBroker().ask(ALTER, 2, resources=[resource], validate_only=False)

    assert only(answer["responses"])["error_code"] == 42
    assert logging.getLogger(NAME).level == logging.NOTSET

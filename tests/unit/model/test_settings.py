"""The table of settings against the code that acts on them."""

import ast
from pathlib import Path

import pytest

import broker
from broker.model import settings
from broker.model.settings import BROKER_SETTINGS, Setting


def looked_up() -> set[str]:
    """Return the strings that a source hands to a call: a value is asked for by its name."""
    calls = [
        node
        for file in Path(broker.__file__).parent.rglob("*.py")
        if file != Path(settings.__file__)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
    ]
    arguments = [each for call in calls for each in call.args if isinstance(each, ast.Constant)]
    return {each.value for each in arguments if isinstance(each.value, str)}


LOOKED_UP = looked_up()


def is_read(setting: Setting) -> bool:
    """Return whether something asks for the setting, as the broker's, a topic's or a group's."""
    return not {setting.name, setting.topic, setting.group}.isdisjoint(LOOKED_UP - {""})


@pytest.mark.parametrize("name", [each.name for each in BROKER_SETTINGS.values() if each.applies])
def test_a_setting_that_applies_is_read_by_something(name: str) -> None:
    assert is_read(BROKER_SETTINGS[name])


def test_a_setting_that_nothing_reads_is_found() -> None:
    unread = BROKER_SETTINGS["num.partitions"]._replace(name="nobody.reads.this")

    assert not is_read(unread)
    assert not is_read(unread._replace(topic="nor.this"))
    assert is_read(unread._replace(topic="segment.bytes"))

"""docs/configuration.md has every setting, and what it says of files and variables is so."""

import os
import re
from pathlib import Path

import pytest

from broker.model.config import load
from broker.model.explanation import lint
from broker.model.given import COMMAND_VARIABLES
from broker.model.settings import BROKER_SETTINGS, GROUP_SETTINGS
from broker.model.unused_settings import UNUSED_SETTINGS
from tools import configuration as writer

PAGE = writer.PAGE.read_text()


def blocks(language: str) -> list[str]:
    """Return the examples of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_page_is_what_the_tool_writes() -> None:
    assert writer.text() == PAGE


def test_the_page_has_every_setting() -> None:
    names = [*BROKER_SETTINGS, *GROUP_SETTINGS, *UNUSED_SETTINGS]

    assert [name for name in names if f"`{name}`" not in PAGE] == []


@pytest.mark.parametrize(("language", "suffix"), [("toml", ".toml"), ("properties", ".properties")])
def test_the_examples_of_files_are_without_errors(
    tmp_path: Path, language: str, suffix: str
) -> None:
    examples = blocks(language)
    assert examples
    for text in examples:
        file = tmp_path / f"example{suffix}"
        file.write_text(text)
        assert [each for each in lint(file) if each.severity == "error"] == []


def test_the_example_of_variables_is_a_configuration() -> None:
    [text] = blocks("ini")
    environment = dict(line.split("=", 1) for line in text.splitlines())
    assert not environment.keys() & os.environ.keys()

    config = load(environment=environment)

    assert config.integer("num.partitions") == 3
    assert len(config.listeners) == 1
    assert config.start.ignored == ("KAFKA_HEAP_OPTS",)


@pytest.mark.parametrize("variable", COMMAND_VARIABLES)
def test_the_page_has_every_variable_that_is_no_setting(variable: str) -> None:
    assert f"`{variable}`" in PAGE

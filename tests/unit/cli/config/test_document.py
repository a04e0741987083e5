"""Files of settings that are exported and applied."""

import io
import json
from pathlib import Path

import pytest

from broker.cli.config.document import read_document
from broker.cli.config.entities import parse_entity
from broker.cli.config.export_verb import Exported
from broker.cli.output import Output
from broker.model.errors import ConfigError

SETTINGS = {
    "retention.ms": "5000",
    "cleanup.policy": "compact,delete",
    "odd": ' a: "b" # c',
    "empty": "",
    "truth": "true",
}
ROWS = [Exported("topic/a:b", SETTINGS), Exported("user/alice/client-id/x", {"rate": "1"})]


@pytest.mark.parametrize("format_", ["yaml", "json", "jsonl"])
def test_what_is_exported_is_read_as_it_was(format_: str, tmp_path: Path) -> None:
    stream = io.StringIO()
    output = Output(format_, Exported._fields, Exported._fields, stream=stream)
    for each in ROWS:
        output.write(each)
    output.close()
    file = tmp_path / "settings"
    file.write_text(stream.getvalue())

    found = read_document(file)

    assert [values for _, values in found] == [each.settings for each in ROWS]
    assert [entity for entity, _ in found] == [parse_entity(each.entity) for each in ROWS]


@pytest.mark.parametrize(
    "text",
    [
        "topic/a: 1",
        "- entity: topic/a\n",
        "- entity: table/a\n  settings:\n    a: b\n",
        "- entity: topic/a\n  settings:\n    nothing\n",
        "- entity: topic/a\n  settings:\n    a: 5 # five\n",
        "- entity: topic/a\n  settings:\n    a: '5'\n",
        "- entity: topic/a\n  settings:\n    a: [5]\n",
        "[1]",
        '[{"entity": "topic/a", "settings": {"a": [1]}}]',
        '{"entity": "topic/a", "settings": {"a": null}}',
        '{"entity"',
        "[" * 200_000,
        '[{"settings": {}}]',
    ],
)
def test_what_has_another_shape_is_refused_with_the_files_name(text: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)

    with pytest.raises(ConfigError, match=r"settings\.yaml"):
        read_document(file)


@pytest.mark.parametrize("text", ["", "[]\n", "# nothing\n"])
def test_a_file_without_settings_changes_nothing(text: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)

    assert read_document(file) == []


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("topic/a/b", ["--topic", "a/b"]),
        ("broker/1", ["--broker", "1"]),
        ("broker/default", ["--broker", "default"]),
        ("user/default", ["--user", "default"]),
        ("user/alice/client-id/x", ["--client-id", "x", "--user", "alice"]),
    ],
)
def test_an_entity_can_be_named_by_options(text: str, options: list[str]) -> None:
    assert parse_entity(text).options() == options
    assert parse_entity(str(parse_entity(text))) == parse_entity(text)


def test_a_document_can_be_written_by_hand(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps([{"entity": "topic/a", "settings": {"retention.ms": 5}}]))

    assert [values for _, values in read_document(file)] == [{"retention.ms": "5"}]

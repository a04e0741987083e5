"""Files of settings: what `broker config export` writes and `broker config apply` reads.

    - entity: topic/orders
      settings:
        retention.ms: "86400000"

The same as JSON is a list of objects, or an object per line. Of YAML this shape is read.
"""

import json
from pathlib import Path
from typing import Any, Final

from broker.cli.config.entities import Entity, parse_entity
from broker.cli.text_files import read_text
from broker.model.errors import ConfigError

_NOT_PLAIN: Final = frozenset("'[{&*!|>%@`#")  # what no text without quotes begins with in YAML


def read_document(file: Path) -> list[tuple[Entity, dict[str, str]]]:
    """Read a file; raise ConfigError if it cannot be read, or is not of this shape."""
    text = read_text(file)
    try:
        rows = (
            _json(text) if text.lstrip()[:1] in {"[", "{"} and text.strip() != "[]" else _yaml(text)
        )
        return [_entry(each) for each in rows]
    except (ValueError, TypeError, RecursionError, ConfigError) as error:
        raise ConfigError(f"{file}: {error}") from None


def _entry(row: Any) -> tuple[Entity, dict[str, str]]:  # noqa: ANN401 - whatever is in the file
    if (
        not isinstance(row, dict)
        or "entity" not in row
        or not isinstance(row.get("settings"), dict)
    ):
        raise ConfigError("expected objects with entity and settings")
    values = {}
    for name, value in row["settings"].items():
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise ConfigError(f"{row['entity']}: {name}: expected a text or a number")
        values[name] = str(value)
    return parse_entity(str(row["entity"])), values


def _json(text: str) -> list[Any]:
    if text.lstrip().startswith("["):
        found: list[Any] = json.loads(text)
        return found
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _yaml(text: str) -> list[Any]:
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines(), 1):
        content = line.strip()
        if not content or content[0] == "#" or content in {"---", "[]"}:
            continue
        indent = len(line) - len(line.lstrip())
        if content.startswith("- "):
            rows.append({})
            indent, content = indent + 2, content[2:].strip()
        name, value = _pair(content, number)
        if not rows:
            raise ConfigError(f"line {number}: expected - entity: KIND/NAME")
        if indent <= 2:  # noqa: PLR2004 - the fields of an object; its settings are deeper
            rows[-1][name] = {} if name == "settings" else value
        else:
            rows[-1].setdefault("settings", {})[name] = value
    return rows


def _pair(content: str, number: int) -> tuple[str, str]:
    """Return the name and the text of NAME: VALUE."""
    if content.startswith('"'):
        name, end = json.JSONDecoder().raw_decode(content)
        rest = content[end:]
    else:
        name, colon, rest = content.partition(":")
        rest = colon + rest
    if not rest.startswith(":"):
        raise ConfigError(f"line {number}: expected NAME: VALUE")
    value = rest[1:].strip()
    if value.startswith('"'):
        return str(name), str(json.loads(value))
    # In YAML it would be something else than this text, which nobody means.
    if name != "settings" and (value[:1] in _NOT_PLAIN or " #" in value):
        raise ConfigError(f"line {number}: write the value of {name} between double quotes")
    return str(name), value

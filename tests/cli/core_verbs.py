"""What the core verbs must do with any broker that speaks Kafka's protocol."""

import json
from pathlib import Path

from tests.support.command_line import CommandLine

LINES = b"a:1\nb:2\nc:\nno key\n\xff:\xfe\n"


def check_core_verbs(cli: CommandLine, topic: str, folder: Path) -> None:
    """Create, write, read, look, alter, copy, export, import, trim and delete."""
    created = cli("topic", "create", topic, "-p", "3", "--config", "retention.ms=90000000").rows
    assert created == [{"topic": topic, "partitions": 3, "replicas": 1, "status": "created"}]
    cli("topic", "create", topic, code=7)

    written = cli(
        "topic", "produce", topic, "-K", ":", "-H", "h=x", "-Z", "-o", "jsonl", stdin=LINES
    )
    assert len(written.rows) == 5
    read = cli("topic", "consume", topic, "-e", "-o", "jsonl").rows
    assert {(row["partition"], row["offset"]) for row in read} == {
        (row["partition"], row["offset"]) for row in written.rows
    }
    by_key = {json.dumps(row["key"]): row["value"] for row in read}
    assert by_key == {
        '"a"': "1",
        '"b"': "2",
        '"c"': None,
        "null": "no key",
        '{"base64": "/w=="}': {"base64": "/g=="},
    }
    assert all(row["headers"] == [{"name": "h", "value": "x"}] for row in read)

    [listed] = cli("topic", "list", topic).rows
    assert (listed["partitions"], listed["replicas"], listed["under_replicated"]) == (3, 1, 0)
    assert listed["size_bytes"] > 0
    [described] = cli("topic", "describe", topic).rows
    assert described["configs"]["retention.ms"] == "90000000"
    assert described["records"] == 5
    assert [each["leader"] for each in described["partitions"]] == [1, 1, 1]

    altered = cli("topic", "alter", topic, "--config", "retention.ms=95000000", "-p", "4")
    assert f"undo: broker topic alter {topic} --config retention.ms=90000000" in altered.err
    offsets = cli("topic", "offsets", topic, "--at", "-1h").rows
    assert len(offsets) == 4
    assert sum(each["end_offset"] - each["start_offset"] for each in offsets) == 5
    assert all(each["at_offset"] == 0 for each in offsets if each["end_offset"])

    copy, renamed, imported = (f"{topic}-{each}" for each in ("copy", "renamed", "imported"))
    [cloned] = cli("topic", "clone", topic, copy).rows
    assert (cloned["records"], cloned["status"]) == (5, "copied")
    [moved] = cli("topic", "rename", copy, renamed, "--yes").rows
    assert (moved["records"], moved["status"]) == (5, "renamed")
    assert cli("topic", "describe", copy, code=3).out == b""
    [settings] = cli("topic", "describe", renamed).rows
    assert settings["configs"] == {"retention.ms": "95000000"}

    file = folder / "records.jsonl"
    cli("topic", "export", renamed, str(file))
    cli("topic", "create", imported, "-p", "4")
    assert cli("topic", "import", imported, str(file)).rows[0]["records"] == 5
    assert without_topic(cli, imported) == without_topic(cli, topic)

    first = cli("topic", "consume", topic, "-g", f"{topic}-readers", "-n", "2", "-o", "jsonl").rows
    others = cli("topic", "consume", topic, "-g", f"{topic}-readers", "-e", "-o", "jsonl").rows
    assert first + others == read

    [hit] = cli("topic", "search", topic, "--key", "b", "-o", "jsonl").rows
    assert hit["value"] == "2"
    trimmed = cli("topic", "trim", topic, "--all", "--yes").rows
    assert sum(each["records"] for each in trimmed) == 5
    assert cli("topic", "consume", topic, "-e").out == b""
    [gone] = cli("topic", "delete", topic, "--dry-run").rows
    assert (gone["status"], gone["groups"]) == ("would_be_deleted", [f"{topic}-readers"])
    cli("topic", "delete", topic, renamed, imported, "--yes")
    cli("topic", "list", topic, code=3)


def without_topic(cli: CommandLine, topic: str) -> list[dict[str, object]]:
    """Return a topic's records but for its name."""
    rows = cli("topic", "consume", topic, "-e", "-o", "jsonl").rows
    return [{key: value for key, value in row.items() if key != "topic"} for row in rows]

"""The verbs of topics."""

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.cli.core_verbs import check_core_verbs, without_topic
from tests.support.command_line import CommandLine


def fill(cli: CommandLine, topic: str, count: int, partition: int = 0) -> None:
    """Write the numbers from 0 on."""
    lines = "".join(f"{each}\n" for each in range(count))
    cli("topic", "produce", topic, "-p", str(partition), stdin=lines.encode())


@pytest.mark.slow("runs thirty commands, one after the other")
def test_the_core_verbs_do_what_they_say(cli: CommandLine, topic: str, tmp_path: Path) -> None:
    check_core_verbs(cli, f"{topic}-core", tmp_path)


def test_one_of_several_topics_that_exists_fails_the_creation_of_that_one(
    cli: CommandLine, topic: str
) -> None:
    ended = cli("topic", "create", topic, f"{topic}-new", code=7)

    assert [row["topic"] for row in ended.rows] == [f"{topic}-new"]
    assert ended.err.startswith(f"broker: topic '{topic}'")
    assert cli("topic", "create", topic, "--if-not-exists").rows[0]["status"] == "exists"


def test_a_dry_run_creates_alters_trims_and_deletes_nothing(cli: CommandLine, topic: str) -> None:
    fill(cli, topic, 3)
    before = cli("topic", "describe", topic).rows

    assert cli("topic", "create", f"{topic}-x", "--dry-run").rows[0]["status"] == "valid"
    cli("topic", "alter", topic, "--config", "retention.ms=1000", "-p", "9", "--dry-run")
    cli("topic", "clone", topic, f"{topic}-x", "--dry-run")
    cli("topic", "rename", topic, f"{topic}-x", "--dry-run")
    cli("topic", "trim", topic, "--all", "--dry-run")
    cli("topic", "delete", topic, "--dry-run")

    assert cli("topic", "describe", topic).rows == before
    cli("topic", "describe", f"{topic}-x", code=3)


def test_topics_are_selected_by_names_and_expressions(cli: CommandLine, topic: str) -> None:
    cli("topic", "create", f"{topic}-b")

    assert cli("topic", "list", f"{topic}.*", "-o", "name").text.split() == [topic, f"{topic}-b"]
    assert cli("topic", "list", topic, "-o", "name").text.split() == [topic]
    assert "no topic" in cli("topic", "list", f"{topic}-nope.*", code=3).err
    assert "regular expression" in cli("topic", "list", "(", code=2).err
    assert cli("topic", "list", f"{topic}.*", "--under-replicated").out == b""


def test_a_deletion_without_a_terminal_needs_yes(cli: CommandLine, topic: str) -> None:
    refused = cli("topic", "delete", topic, code=2)

    assert "--yes" in refused.err
    cli("topic", "describe", topic)


@pytest.mark.parametrize("is_right", [True, False])
def test_a_deletion_on_a_terminal_needs_the_name(
    cli: CommandLine, topic: str, is_right: bool
) -> None:
    leader, follower = pty.openpty()
    os.write(leader, f"{topic if is_right else 'y'}\n".encode())
    environment = {**os.environ, "BROKER_BOOTSTRAP_SERVER": cli.address}

    ended = subprocess.run(
        [sys.executable, "-m", "broker", "topic", "delete", topic],
        stdin=follower,
        capture_output=True,
        env=environment,
        check=False,
        timeout=60,
    )
    os.close(leader)
    os.close(follower)

    assert ended.returncode == (0 if is_right else 2), ended.stderr
    cli("topic", "describe", topic, code=3 if is_right else 0)


def test_the_undo_command_of_an_alteration_restores_the_settings(
    cli: CommandLine, topic: str
) -> None:
    cli("topic", "alter", topic, "--config", "retention.ms=90000000")
    before = cli("topic", "describe", topic).rows

    ended = cli(
        "topic", "alter", topic, "--unset", "retention.ms", "--config", "segment.ms=80000000"
    )
    undo = ended.err.strip().removeprefix("undo: broker ").split()
    cli(*undo)

    assert cli("topic", "describe", topic).rows == before


@pytest.mark.parametrize(
    ("range_", "expected"),
    [
        ("start", "0 1 2 3 4 5 6 7 8 9"),
        ("7", "7 8 9"),
        ("+8", "8 9"),
        ("-2", "8 9"),
        ("2:5", "2 3 4"),
        (":2", "0 1"),
        ("4:+2", "4 5"),
        ("-3:end", "7 8 9"),
        ("end", ""),
        ("@-1h:end", "0 1 2 3 4 5 6 7 8 9"),
        ("@2999-01-01T00:00:00", ""),
        ("90:99", ""),
    ],
)
def test_ranges_of_offsets(cli: CommandLine, topic: str, range_: str, expected: str) -> None:
    fill(cli, topic, 10)

    read = cli("topic", "consume", topic, "-p", "0", "-e", "-O", range_, "-f", "%v ").text

    assert read.strip() == expected


def test_a_record_is_formatted(cli: CommandLine, topic: str) -> None:
    headers = ("-H", "a=1", "-H", "b=", "-H", "a=2")
    cli("topic", "produce", topic, "-k", "key", *headers, "-p", "2", stdin=b"val")

    text = cli(
        *("topic", "consume", topic, "-e"),
        *("-f", r"%t|%p|%o|%k|%k{hex}|%v{base64}|%K|%V|%H|%h{%k:%v,}|%%|%d{%Y}\t\x41\n"),
    ).text

    year = time.gmtime().tm_year
    assert text == f"{topic}|2|0|key|6b6579|dmFs|3|3|3|a:1,b:,a:2,|%|{year}\tA\n"
    assert "is no field" in cli("topic", "consume", topic, "-e", "-f", "%z", code=2).err


def test_json_lines_are_written_exactly(cli: CommandLine, topic: str) -> None:
    rows: list[dict[str, Any]] = [
        {
            "partition": 1,
            "timestamp_ms": 1_700_000_000_000,
            "key": None,
            "value": {"base64": "gIE="},
            "headers": [{"name": "h", "value": None}, {"name": "h", "value": "2"}],
        },
        {"partition": 1, "timestamp_ms": 5, "key": "", "value": "", "headers": []},
    ]
    lines = "".join(json.dumps(each) + "\n" for each in rows).encode()

    cli("topic", "produce", topic, "--json", "-z", "gzip", stdin=lines)

    read = without_topic(cli, topic)
    assert read == [row | {"offset": number} for number, row in enumerate(rows)]
    assert "line 1" in cli("topic", "produce", topic, "--json", stdin=b"{", code=2).err


def test_an_empty_key_of_all_records_is_one(cli: CommandLine, topic: str) -> None:
    for more in ((), ("--json",)):
        cli("topic", "produce", topic, "-k", "", *more, stdin=b'{"key": "a"}\n')

    assert [row["key"] for row in without_topic(cli, topic)] == ["", ""]


def test_an_invalid_line_behind_others_is_no_usage_error(cli: CommandLine, topic: str) -> None:
    """The exit code of those means that nothing was done."""
    failed = cli("topic", "produce", topic, "--json", stdin=b'{"value": "a"}\n{\n', code=1)

    assert "line 2: not JSON" in failed.err
    assert "the 1 records before it were written" in failed.err
    assert cli("topic", "consume", topic, "-e").text == "a\n"


def test_an_invalid_line_behind_the_first_request_of_an_import_is_no_usage_error(
    cli: CommandLine, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text('{"value": "' + "x" * 1000 + '", "partition": 0}\n')
    file.write_text(file.read_text() * 2000 + "{")

    failed = cli("topic", "import", topic, str(file), code=1)

    [row, *_] = cli("topic", "offsets", topic).rows
    assert row["end_offset"] > 0
    assert f"the {row['end_offset']:,} records before it were written" in failed.err


def test_records_without_a_key_are_spread_and_keys_stay_together(
    cli: CommandLine, topic: str
) -> None:
    large = b"".join(b"x" * 1000 + b"\n" for _ in range(5000))

    cli("topic", "produce", topic, stdin=large)

    offsets = cli("topic", "offsets", topic).rows
    assert sum(each["end_offset"] for each in offsets) == 5000
    assert all(each["end_offset"] > 1000 for each in offsets)


@pytest.mark.parametrize("words", [("tail", "-n", "1"), ("consume",)])
def test_what_waits_for_records_ends_when_nobody_reads(
    cli: CommandLine, topic: str, words: tuple[str, ...]
) -> None:
    cli("topic", "produce", topic, stdin=b"one\n")
    with cli.start("topic", words[0], topic, *words[1:]) as process:
        assert process.stdout is not None
        assert b"one" in process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_a_line_of_a_pipe_that_stays_open_is_written_at_once(cli: CommandLine, topic: str) -> None:
    with cli.start("topic", "produce", topic, "-o", "jsonl") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"first\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["offset"] == 0
        process.stdin.close()
        assert process.wait(60) == 0


def test_a_tail_prints_the_last_records_and_those_that_come(cli: CommandLine, topic: str) -> None:
    fill(cli, topic, 20)

    with cli.start("topic", "tail", topic, "-n", "2", "-f", "%v\\n") as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"18\n", b"19\n"]
        cli("topic", "produce", topic, "-p", "2", stdin=b"new\n")
        assert process.stdout.readline() == b"new\n"
        process.terminate()


def test_a_search_is_bounded_and_tells_what_it_has_seen(cli: CommandLine, topic: str) -> None:
    fill(cli, topic, 100)

    assert len(cli("topic", "search", topic, "7", "-o", "jsonl").rows) == 19
    bounded = cli("topic", "search", topic, "--regex", "^9.$", "-n", "4", "-f", "%v ")
    assert bounded.text == "90 91 92 93 "
    assert "stopped at 4" in bounded.err
    assert "0 hits in 100 of 100" in cli("topic", "search", topic, "nothing", code=3).err
    assert cli("topic", "search", topic, "7", "--in", "key", code=3).out == b""


@pytest.mark.parametrize(
    ("options", "left"),
    [(("--keep", "3"), 3), (("--to-offset", "4"), 6), (("--all",), 0), (("--before", "-1h"), 10)],
)
def test_a_trim_deletes_the_oldest_records(
    cli: CommandLine, topic: str, options: tuple[str, ...], left: int
) -> None:
    fill(cli, topic, 10)

    [row] = cli("topic", "trim", topic, *options, "-p", "0", "--yes").rows

    assert (row["records"], row["start_offset"]) == (10 - left, 10 - left)
    assert len(cli("topic", "consume", topic, "-e").text.split()) == left


def test_an_export_that_was_cut_short_goes_on(cli: CommandLine, topic: str, tmp_path: Path) -> None:
    for partition in range(3):
        fill(cli, topic, 10, partition)
    file = tmp_path / "records.jsonl"
    cli("topic", "export", topic, str(file))
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])

    cli("topic", "export", topic, str(file), code=7)
    [resumed] = cli("topic", "export", topic, str(file), "--resume").rows

    assert file.read_bytes() == whole
    assert 10 < resumed["records"] < 20
    assert cli("topic", "export", topic, "-").out == whole


def test_an_import_that_was_cut_short_goes_on(cli: CommandLine, topic: str, tmp_path: Path) -> None:
    for partition in range(3):
        fill(cli, topic, 10, partition)
    file, part = tmp_path / "records.jsonl", tmp_path / "part.jsonl"
    cli("topic", "export", topic, str(file))
    lines = file.read_bytes().splitlines(keepends=True)
    part.write_bytes(b"".join(lines[:17]))
    cli("topic", "create", f"{topic}-copy", "-p", "3")
    cli("topic", "import", f"{topic}-copy", str(part))

    [resumed] = cli("topic", "import", f"{topic}-copy", str(file), "--resume").rows

    assert (resumed["records"], resumed["skipped"]) == (13, 17)
    assert without_topic(cli, f"{topic}-copy") == without_topic(cli, topic)
    cli("topic", "create", f"{topic}-small", "-p", "1")
    assert "--by-key" in cli("topic", "import", f"{topic}-small", str(file), code=2).err


def test_parquet_has_the_same_records(cli: CommandLine, topic: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    cli("topic", "produce", topic, "-K", ":", "-H", "h=1", stdin=b"a:1\n\xff:\xfe\nplain\n")
    file = tmp_path / "records.parquet"

    cli("topic", "export", topic, str(file))
    cli("topic", "create", f"{topic}-copy", "-p", "3")
    cli("topic", "import", f"{topic}-copy", str(file))

    assert without_topic(cli, f"{topic}-copy") == without_topic(cli, topic)


def test_records_of_an_aborted_transaction_are_not_copied(cli: CommandLine, topic: str) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    settings = {"bootstrap.servers": cli.address, "transactional.id": topic}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions()
    for value, is_committed in (("kept", True), ("lost", False), ("too", True)):
        producer.begin_transaction()
        producer.produce(topic, value.encode(), partition=0)
        producer.flush()
        producer.commit_transaction() if is_committed else producer.abort_transaction()

    [cloned] = cli("topic", "clone", topic, f"{topic}-copy").rows

    assert cloned["records"] == 2
    assert cli("topic", "consume", f"{topic}-copy", "-e").text == "kept\ntoo\n"
    uncommitted = cli("topic", "consume", topic, "-e", "--read-uncommitted").text
    assert uncommitted == "kept\nlost\ntoo\n"


def test_a_group_goes_on_where_it_was(cli: CommandLine, topic: str) -> None:
    fill(cli, topic, 3)

    cli("topic", "consume", topic, "-g", f"{topic}-g", "-n", "2")
    assert cli("topic", "consume", topic, "-g", f"{topic}-g", "-e").text == "2\n"
    assert cli("topic", "consume", topic, "-g", f"{topic}-g", "-e").text == ""


def test_a_topic_with_an_open_transaction_is_copied_up_to_it_and_not_renamed(
    cli: CommandLine, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": cli.address, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(30) == 0
    fill(cli, topic, 3)  # behind the open one

    refused = cli("topic", "rename", topic, f"{topic}-x", "--yes", code=7)
    cloned = cli("topic", "clone", topic, f"{topic}-copy")
    producer.commit_transaction(30)

    assert "open transaction" in refused.err
    cli("topic", "describe", f"{topic}-x", code=3)
    assert cloned.rows[0]["records"] == 0
    assert f"{topic}-0: copied up to an open transaction at offset 0" in cloned.err
    renamed = cli("topic", "rename", topic, f"{topic}-x", "--yes").rows
    assert renamed[0]["records"] == 4


def test_records_of_partitions_that_do_not_exist_are_refused_at_once(
    cli: CommandLine, topic: str
) -> None:
    refused = cli("topic", "produce", topic, "--json", stdin=b'{"partition": 3}\n', code=3)

    assert "has no partition 3" in refused.err


def test_keys_and_texts_may_be_bytes_that_are_no_text(cli: CommandLine, topic: str) -> None:
    odd = os.fsdecode(b"\xff")
    cli("topic", "produce", topic, "-k", odd, "-H", f"h={odd}", stdin=b"a\n")

    [row] = cli("topic", "search", topic, "--key", odd, "-o", "jsonl").rows
    assert row["key"] == {"base64": "/w=="}
    assert row["headers"] == [{"name": "h", "value": {"base64": "/w=="}}]


def test_an_import_that_is_resumed_needs_partitions(
    cli: CommandLine, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text('{"value": "a"}\n')

    assert "without a partition" in cli("topic", "import", topic, str(file), "--resume", code=2).err


@pytest.mark.parametrize("verb", ["describe", "consume"])
def test_no_topic_has_a_name_that_is_no_text(cli: CommandLine, verb: str) -> None:
    refused = cli("topic", verb, os.fsdecode(b"odd-\xff"), code=3)

    assert refused.err.startswith("broker: ")
    assert "there is no topic" in refused.err


def test_no_topic_is_created_with_a_name_that_is_no_text(cli: CommandLine) -> None:
    refused = cli("topic", "create", os.fsdecode(b"odd-\xff"), code=2)

    assert refused.err.startswith("broker: no request has such a value")

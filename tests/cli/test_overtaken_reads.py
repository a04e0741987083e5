"""Verbs that read records while the broker deletes them: what is missing is said, and exit code 8.

A reader is stopped by its pipe, which nobody empties: it has asked for a part of the records and
prints them. What it has not asked for is deleted meanwhile. Others are stopped by a broker that
does not answer their requests yet.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from select import select

import pytest

from broker.client.metadata import Cluster
from broker.client.topics import delete_records
from broker.model.address import parse_address
from broker.testing import Broker
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.command_line import TIMEOUT_S, CommandLine

UNHEALTHY = 8
COUNT = 30
VALUE_BYTES = 100_000  # more than a pipe holds, so that a reader is stopped by its first record
MISSED = re.compile(
    r"^broker: (\S+)-0: offsets (\d+) to (\d+) were deleted before they were read: up to (\d+)"
    r" records are missing, going on at offset (\d+)$",
    re.MULTILINE,
)
# The ways of reading, and what they print of a record before its value.
READS = {
    "consume -e": (["topic", "consume", "{topic}", "-e", "-f", "%o %v\\n"], rb"^(\d+) "),
    "consume -n": (["topic", "consume", "{topic}", "-f", "%o %v\\n", "-n"], rb"^(\d+) "),
    "export": (["topic", "export", "{topic}", "-"], rb'"offset": (\d+)'),
    "search": (["topic", "search", "{topic}", "0", "-n", "0", "-f", "%o %v\\n"], rb"^(\d+) "),
}
# What a reader is told of a request that it repeats until the broker serves it.
NOT_YET = "NOT_LEADER_OR_FOLLOWER"


def fill(cli: CommandLine, topic: str) -> None:
    """Write COUNT records; a fetch returns some of them."""
    lines = b"".join(b"%0*d\n" % (VALUE_BYTES, each) for each in range(COUNT))
    cli("topic", "produce", topic, "-p", "0", stdin=lines)


def start_offset(cli: CommandLine, topic: str) -> int:
    rows = cli("topic", "offsets", topic).rows
    return next(int(each["start_offset"]) for each in rows if each["partition"] == 0)


def stopped(cli: CommandLine, words: list[str]) -> subprocess.Popen[bytes]:
    """Start a reader and return once it prints its first record, which its pipe cannot hold."""
    reader = cli.start(*words)
    assert reader.stdout is not None
    assert select([reader.stdout], [], [], TIMEOUT_S)[0]  # nothing of it is read here
    return reader


def ended(reader: subprocess.Popen[bytes], offset: bytes) -> tuple[list[int], str]:
    """Read what a reader prints to its end; return the offsets, and what it says."""
    with reader:
        out, err = reader.communicate(timeout=TIMEOUT_S)
    assert reader.returncode == UNHEALTHY, err
    return [int(each) for each in re.findall(offset, out, re.MULTILINE)], err.decode()


@pytest.mark.parametrize("how", READS)
def test_records_that_are_deleted_under_a_reader_are_counted_and_it_goes_on(
    how: str, cli: CommandLine, topic: str
) -> None:
    fill(cli, topic)
    words, offset = READS[how]
    words = [each.format(topic=topic) for each in words]
    if how == "consume -n":
        words.append(str(COUNT))  # it is told to end: otherwise it waits for new records
    left = COUNT - COUNT // 10

    reader = stopped(cli, words)
    cli("topic", "trim", topic, "--to-offset", str(left), "-p", "0", "--yes")
    if how == "consume -n":
        fill(cli, topic)
    read, said = ended(reader, offset)

    [(name, first, last, count, next_)] = MISSED.findall(said)
    assert name == topic
    assert int(last) + 1 == int(next_) == left
    assert int(count) == left - int(first) > 0
    end = COUNT if how != "consume -n" else left + COUNT - int(first)
    assert read == [*range(int(first)), *range(left, end)]


def test_what_retention_deletes_under_an_export_is_counted_too(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    broker = start_broker("log.retention.check.interval.ms=100", "log.segment.delete.delay.ms=0")
    cli = CommandLine(broker.address, {"XDG_CONFIG_HOME": str(tmp_path)})
    cli("topic", "create", "orders", "-p", "1", "--config", "segment.bytes=1048576")
    fill(cli, "orders")
    words, offset = READS["export"]

    reader = stopped(cli, [each.format(topic="orders") for each in words])
    cli("topic", "alter", "orders", "--config", "retention.bytes=1")
    wait_until(lambda: start_offset(cli, "orders") > COUNT // 2, "retention deletes segments")
    left = start_offset(cli, "orders")
    read, said = ended(reader, offset)

    [(_, first, _, _, next_)] = MISSED.findall(said)
    assert COUNT // 2 < int(next_) <= left
    assert read == [*range(int(first)), *range(int(next_), COUNT)]


def test_a_group_and_an_export_that_go_on_are_told_what_was_deleted_meanwhile(
    cli: CommandLine, topic: str, tmp_path: Path
) -> None:
    def write(first: int) -> None:
        lines = b"".join(b"%d\n" % each for each in range(first, first + 10))
        cli("topic", "produce", topic, "-p", "0", stdin=lines)

    file = tmp_path / "records.jsonl"
    readers = ("topic", "consume", topic, "-g", f"{topic}-readers", "-e")
    write(0)
    cli("topic", "export", topic, str(file))
    cli(*readers)
    write(10)
    cli("topic", "trim", topic, "--to-offset", "15", "-p", "0", "--yes")

    consumed = cli(*readers, code=UNHEALTHY)
    exported = cli("topic", "export", topic, str(file), "--resume", code=UNHEALTHY)

    for each in (consumed, exported):
        assert MISSED.findall(each.err) == [(topic, "10", "14", "5", "15")]
    assert consumed.text.split() == [str(each) for each in range(15, 20)]
    offsets = [json.loads(each)["offset"] for each in file.read_text().splitlines()]
    assert offsets == [*range(10), *range(15, 20)]
    assert cli(*readers).out == b""
    assert cli("topic", "export", topic, str(file), "--resume").rows[0]["records"] == 0


@pytest.fixture(scope="module")
def held() -> Iterator[Broker]:
    """A broker that serves requests when a test wants it to."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def held_cli(held: Broker, tmp_path: Path) -> CommandLine:
    """Commands for it."""
    return CommandLine(held.bootstrap_servers, {"XDG_CONFIG_HOME": str(tmp_path)})


def trim(broker: Broker, topic: str, offset: int) -> None:
    """Delete the records before an offset."""
    cluster = Cluster([parse_address(broker.bootstrap_servers)])
    delete_records(cluster, {(topic, 0): offset})
    cluster.close()


@pytest.mark.parametrize(
    "words",
    [("search", "", "-n", "0"), ("tail", "-n", "20", "--no-follow")],
    ids=["search", "tail"],
)
@pytest.mark.parametrize("left", [15, 20], ids=["a part", "all"])
def test_records_deleted_before_the_first_answer_are_counted(
    left: int, words: tuple[str, ...], held: Broker, held_cli: CommandLine
) -> None:
    verb, *options = words
    topic = f"{verb}-{left}"
    held.create_topic(topic)
    held.produce(topic, *(b"%d" % each for each in range(20)))

    with held.faults.error("Fetch", NOT_YET) as fault:
        reader = held_cli.start("topic", verb, topic, *options, "-o", "jsonl", "--timeout", "120")
        wait_until(lambda: fault.hits > 0, "the reader has asked")
        trim(held, topic, left)
    read, said = ended(reader, rb'"offset": (\d+)')

    assert MISSED.findall(said) == [(topic, "0", str(left - 1), str(left), str(left))]
    assert read == [*range(left, 20)]


def test_a_tail_that_waits_goes_on_behind_what_was_deleted_before_it_asked(
    held: Broker, held_cli: CommandLine
) -> None:
    """It learns of new records as they come, so what is missing may be told in parts."""
    held.create_topic("followed")
    held.produce("followed", *(b"%d" % each for each in range(10)))
    reader = held_cli.start("topic", "tail", "followed", "-f", "%o\\n", "--timeout", "120")
    assert reader.stdout is not None
    read = [int(reader.stdout.readline()) for _ in range(10)]

    with held.faults.error("Fetch", NOT_YET) as fault:
        held.produce("followed", *(b"%d" % each for each in range(10, 20)))
        wait_until(lambda: fault.hits > 0, "the reader has asked for what is new")
        trim(held, "followed", 15)
    while read[-1] < 19:
        read.append(int(reader.stdout.readline()))
    reader.terminate()
    _, said = reader.communicate(timeout=TIMEOUT_S)

    parts = MISSED.findall(said.decode())
    missed = [at for each in parts for at in range(int(each[1]), int(each[2]) + 1)]
    assert sorted(read + missed) == [*range(20)]
    assert read[-5:] == [*range(15, 20)]
    assert parts


@pytest.mark.parametrize("words", [("clone",), ("rename", "--yes")], ids=["clone", "rename"])
def test_a_copy_lacks_what_was_deleted_while_it_was_made_and_says_so(
    words: tuple[str, ...], held: Broker, held_cli: CommandLine
) -> None:
    """It writes the first of the records while others are still to be read."""
    verb, *options = words
    source, target = f"{verb}-source", f"{verb}-target"
    held.create_topic(source)
    held.produce(source, *(b"%0*d" % (VALUE_BYTES, each) for each in range(60)))

    with held.faults.error("Produce", NOT_YET) as fault:
        copier = held_cli.start(
            *("topic", verb, source, target, *options, "-o", "jsonl", "--timeout", "120")
        )
        wait_until(lambda: fault.hits > 0, "the copier has written")
        trim(held, source, 55)
    with copier:
        out, said = copier.communicate(timeout=TIMEOUT_S)

    assert copier.returncode == UNHEALTHY, said
    [(_, first, last, count, next_)] = MISSED.findall(said.decode())
    copied = [*range(int(first)), *range(55, 60)]
    assert (last, next_, int(count)) == ("54", "55", 55 - int(first))
    assert 0 < int(first) < 55
    [row] = [json.loads(line) for line in out.splitlines()]
    assert row["records"] == len(copied)
    assert row["status"] == {"clone": "copied", "rename": "renamed"}[verb]
    assert [int((each.value or b"")[-9:]) for each in held.records(target)] == copied
    assert (source in held.topics()) == (verb == "clone")

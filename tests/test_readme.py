"""The README's first screen does what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.broker_process import BrokerProcess, ExternalBroker
from tests.segment_files import write_ascending

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
SNIPPET_TIMEOUT_S = 60


def code_blocks(language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def run(snippet: str, folder: Path) -> str:
    """Run a snippet in a folder as its reader would; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", snippet],
        capture_output=True,
        text=True,
        timeout=SNIPPET_TIMEOUT_S,
        cwd=folder,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_client_snippet_works(broker: BrokerProcess | ExternalBroker, tmp_path: Path) -> None:
    [snippet, *_] = code_blocks("python")
    assert re.search(r"(?:localhost|127\.0\.0\.1):9092", snippet), "it names make run's address"

    shown = run(re.sub(r"(?:localhost|127\.0\.0\.1):9092", broker.address, snippet), tmp_path)

    assert shown.strip(), "it shows what it read"


def test_the_frame_snippet_reads_what_a_log_has(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write_ascending(tmp_path, count=50).rename(data / "greetings-0")
    [_, snippet, _] = code_blocks("python")

    assert "(500, 4)" in run(snippet, tmp_path)


def test_the_codec_snippet_shows_the_record_and_the_request(tmp_path: Path) -> None:
    [*_, snippet] = code_blocks("python")

    shown = run(snippet, tmp_path)

    assert "0 b'k' b'v' [(b'trace', b'1')]" in shown
    assert "correlation_id=7" in shown


def test_every_make_command_it_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))

    named = set(re.findall(r"\bmake ([a-z-]+)", "\n".join(code_blocks("sh")) + README))

    assert named >= {"run", "test"}
    assert named <= targets, f"no such target: {named - targets}"

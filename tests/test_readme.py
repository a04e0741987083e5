"""The README's first screen does what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.broker_process import BrokerProcess, ExternalBroker

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
SNIPPET_TIMEOUT_S = 60


def code_blocks(language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_client_snippet_works(broker: BrokerProcess | ExternalBroker) -> None:
    [snippet, *_] = code_blocks("python")
    assert re.search(r"(?:localhost|127\.0\.0\.1):9092", snippet), "it names make run's address"
    here = re.sub(r"(?:localhost|127\.0\.0\.1):9092", broker.address, snippet)

    done = subprocess.run(
        [sys.executable, "-c", here],
        capture_output=True,
        text=True,
        timeout=SNIPPET_TIMEOUT_S,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "it shows what it read"


def test_every_make_command_it_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))

    named = set(re.findall(r"\bmake ([a-z]+)", "\n".join(code_blocks("sh")) + README))

    assert named >= {"run", "test"}
    assert named <= targets, f"no such target: {named - targets}"

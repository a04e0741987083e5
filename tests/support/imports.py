"""`broker import PROTOCOL` as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.broker_process import Broker


def run_import(
    protocol: str, folder: Path, broker: Broker, *options: str
) -> subprocess.CompletedProcess[str]:
    """Import a folder into a broker."""
    command = [sys.executable, "-m", "broker", "import", protocol, str(folder)]
    return subprocess.run(
        [*command, "--broker", broker.address, *options],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def report(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return what an import has printed for programs."""
    found: dict[str, Any] = json.loads(ended.stdout)
    return found

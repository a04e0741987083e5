"""kcat: the program on the path, or Debian's, taken out of its packages.

The packages are not installed: what is on the path of this machine stays as it is.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.compatibility.programs import (
    BUILD,
    RUN_TIMEOUT_S,
    UnavailableError,
    fetch_with,
    needs,
    one_at_a_time,
)

PACKAGES = ("kcat", "librdkafka1", "libyajl2")
FOLDER = BUILD / "kcat"


@dataclass(frozen=True)
class Kcat:
    """The program, and the broker that it talks to."""

    program: str
    libraries: Mapping[str, str] = field(default_factory=dict)
    address: str = ""

    def run(self, *options: str, stdin: str = "", fails: bool = False) -> str:
        """Run it and return what it printed, with what it said if it is expected to fail."""
        done = subprocess.run(
            [self.program, "-b", self.address, *options],
            input=stdin,
            env=os.environ | self.libraries,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        assert bool(done.returncode) == fails, (options, done.stdout, done.stderr)
        return done.stdout + done.stderr if fails else done.stdout

    def produce(self, topic: str, *options: str, lines: str) -> None:
        """Produce each line of a text."""
        self.run("-P", "-t", topic, *options, stdin=lines)

    def consume(self, topic: str, *options: str) -> list[dict[str, Any]]:
        """Return the records of a topic from its beginning to its end, unless options differ."""
        printed = self.run("-C", "-t", topic, "-e", "-q", "-J", *(options or ("-o", "beginning")))
        return [json.loads(line) for line in printed.splitlines()]


@one_at_a_time()
def find() -> Kcat:
    """Return the program; raises UnavailableError."""
    installed = shutil.which("kcat")
    if installed:
        return Kcat(installed)
    program = FOLDER / "usr/bin/kcat"
    if not program.exists():
        _fetch()
    [folder] = {str(each.parent) for each in FOLDER.glob("usr/lib/*/librdkafka.so.1")}
    found = Kcat(str(program), {"LD_LIBRARY_PATH": folder})
    try:
        found.run("-V")
    except AssertionError as error:  # a library of another package is missing
        raise UnavailableError(f"Debian's kcat does not run here: {error}") from None
    return found


def _fetch() -> None:
    needs("apt-get", "fetch kcat")
    needs("dpkg", "unpack kcat")
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        fetch_with(["apt-get", "-qq", "download", *PACKAGES], FOLDER)
    except UnavailableError:
        fetch_with(["apt-get", "-qq", "update"], FOLDER)
        fetch_with(["apt-get", "-qq", "download", *PACKAGES], FOLDER)
    for package in sorted(FOLDER.glob("*.deb")):
        fetch_with(["dpkg", "-x", str(package), "."], Path(FOLDER))
        package.unlink()

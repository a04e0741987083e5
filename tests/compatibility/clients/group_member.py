"""A group member in its own process, so that it can be lost without leaving the group.

Run as `python -m tests.compatibility.clients.group_member CLIENT ADDRESS GROUP TOPIC`, it reads
until it is killed, commits once (after `COMMIT_AT` records) and prints a JSON line at each change
of its state.
"""

import importlib
import json
import subprocess
import sys
from pathlib import Path

from tests.compatibility.clients.client import Client

ROOT = Path(__file__).parents[3]
COMMIT_AT = 20


def connect(name: str, address: str) -> Client:
    """Return the adapter of a client library by the name of its module."""
    module = importlib.import_module(f"tests.compatibility.clients.{name}_client")
    client: Client = module.connect(address)
    return client


class GroupMember:
    """The other process, seen from the test."""

    def __init__(self, folder: Path, name: str, address: str, group: str, topic: str) -> None:
        """Start it; what it prints goes to a file, so nothing here can block."""
        self._state_file = folder / "member.jsonl"
        with self._state_file.open("wb") as stdout:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, name, address, group, topic],
                cwd=ROOT,
                stdout=stdout,
            )

    def _state(self) -> dict[str, list[int]]:
        assert self._process.poll() in (None, -9), "the group member died by itself"
        complete, _, _ = self._state_file.read_text().rpartition("\n")
        state: dict[str, list[int]] = json.loads(complete.rpartition("\n")[2] or "{}")
        return state

    def assignment(self) -> list[int]:
        """Return the partitions it holds, sorted."""
        return self._state().get("assignment", [])

    def has_read(self, count: int) -> bool:
        """Return whether it has read that many records."""
        return self._state().get("read", 0) == count

    def has_committed(self, count: int) -> bool:
        """Return whether it has committed that many records."""
        return self._state().get("committed", 0) == count

    def kill(self) -> None:
        """Kill -9: it neither commits nor leaves."""
        self._process.kill()
        self._process.wait()


def main(name: str, address: str, group: str, topic: str) -> None:
    """Read forever."""
    member = connect(name, address).join(group, topic)
    state: dict[str, object] = {}
    read = committed = 0
    while True:
        read += len(member.poll())
        if read == COMMIT_AT and not committed:
            member.commit()
            committed = read
        now = {"assignment": member.assignment(), "read": read, "committed": committed}
        if now != state:
            state = now
            sys.stdout.write(json.dumps(now) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The audit's events reach the file and the topic, in order, across faults and restarts."""

import asyncio
import errno
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from broker._native.kernel import file_ops
from broker.core.security.audit import Decision, Login, Peer
from broker.core.security.audit_chain import check
from broker.core.security.ocsf import Producer
from broker.model.config import load
from broker.model.errors import StorageError
from broker.model.security_limits import AUDIT_EVENTS_PER_WRITE
from broker.server.auditing import Auditing, Settings, path_of
from broker.storage.files.audit_file import AuditFile
from tests.support.manual_clock import ManualClock

if TYPE_CHECKING:
    from broker.server.audit_topic import AuditTopic
    from broker.storage.log_dir import LogDir

PEER = Peer("127.0.0.1", "SASL_SSL", "kafka")
KEY = b"a key"


@pytest.fixture(autouse=True)
def recording() -> Iterator[None]:
    file_ops.start_recording(failures_only=True)
    yield
    file_ops.stop_recording()


class Topic:
    """What is written to the topic."""

    def __init__(self) -> None:
        """Have nothing."""
        self.lines: list[bytes] = []

    def add(self, lines: Sequence[bytes]) -> None:
        """Take lines."""
        self.lines.extend(lines)


def auditing(path: Path, topic: Topic, *, is_fail_closed: bool = False) -> Auditing:
    """Return what writes the events of a broker."""
    return Auditing(
        AuditFile(path, 1 << 20, 10),
        Settings(10_000, is_fail_closed, KEY),
        lambda: Producer(1, "a-cluster", "1.0"),
        ManualClock(),
        cast("AuditTopic", topic),
    )


def login(user: str) -> Login:
    """Return a login."""
    return Login(PEER, f"User:{user}", "PLAIN")


def users(path: Path) -> list[str]:
    """Return the users in the file, and "start" and "stop"; the chain is checked."""
    lines = path.read_bytes().splitlines()
    assert check(lines, KEY, is_whole=True).fault == ""
    return [_user(json.loads(line)) for line in lines]


def _user(fields: dict[str, Any]) -> str:
    if fields["class_uid"] == 6002:
        return "start" if fields["activity_id"] == 3 else "stop"
    return str(fields["user"]["name"])


async def run(writing: Auditing, *events: Login) -> None:
    """Start, write some events while it runs, and stop."""
    writing.start()
    running = asyncio.ensure_future(writing.run())
    for each in events:
        assert writing.put(each)
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    await writing.stop()


def test_events_are_written_between_start_and_stop(tmp_path: Path) -> None:
    path, topic = tmp_path / "audit.jsonl", Topic()

    asyncio.run(run(auditing(path, topic), login("alice"), login("bob")))

    assert users(path) == ["start", "alice", "bob", "stop"]
    assert topic.lines == path.read_bytes().splitlines()


def test_the_chain_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"

    for user in ("alice", "bob"):
        asyncio.run(run(auditing(path, Topic()), login(user)))

    assert users(path) == ["start", "alice", "stop", "start", "bob", "stop"]


def test_after_a_kill_within_a_write_the_chain_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    asyncio.run(run(auditing(path, Topic()), login("alice")))
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])

    asyncio.run(run(auditing(path, Topic()), login("bob")))

    assert users(path) == ["start", "alice", "start", "bob", "stop"]


def test_a_file_that_is_no_audit_ends_the_start(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"somebody's notes\n")

    with pytest.raises(StorageError, match="move its files away"):
        auditing(path, Topic()).start()


def test_more_events_than_one_write_takes_are_written_in_order(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    names = [f"user-{number}" for number in range(2 * AUDIT_EVENTS_PER_WRITE + 3)]

    asyncio.run(run(auditing(path, Topic()), *map(login, names)))

    assert users(path) == ["start", *names, "stop"]


@pytest.mark.parametrize("is_fail_closed", [True, False])
def test_while_the_disk_fails_events_wait_and_fail_closed_requests_are_refused(
    tmp_path: Path, is_fail_closed: bool
) -> None:
    path, topic = tmp_path / "audit.jsonl", Topic()

    async def fail_for_a_while() -> list[bool]:
        writing = auditing(path, topic, is_fail_closed=is_fail_closed)
        writing.start()
        running = asyncio.ensure_future(writing.run())
        file_ops.fail("sync", "audit.jsonl", errno.EIO, times=2)
        goes_on = [writing.put(login("before"))]
        while file_ops.recorded() == []:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        goes_on.append(writing.put(login("meanwhile")))
        while not topic.lines:
            await asyncio.sleep(0.01)
        goes_on.append(writing.put(login("after")))
        running.cancel()
        await asyncio.wait([running])
        await writing.stop()
        return goes_on

    goes_on = asyncio.run(fail_for_a_while())

    assert goes_on == [True, not is_fail_closed, True]
    found = path.read_bytes().splitlines()
    assert check(found, KEY, is_whole=True).fault == ""
    assert check(found, KEY, is_whole=True).dropped == (1 if is_fail_closed else 0)
    assert (b"meanwhile" in path.read_bytes()) is not is_fail_closed
    assert topic.lines == found


def test_a_denial_is_recorded_even_when_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    denial = Decision(PEER, "User:eve", "Produce", "Write", "Topic", "orders", False)

    async def deny() -> None:
        writing = auditing(path, Topic(), is_fail_closed=True)
        writing.start()
        assert writing.put(denial)
        await writing.stop()

    asyncio.run(deny())

    assert b'"name":"orders"' in path.read_bytes()


@pytest.mark.parametrize(
    ("named", "own", "expected"),
    [
        (None, "data", "data/audit.jsonl"),
        (None, "data/workers/2", "data/workers/2/audit.jsonl"),
        ("logs/audit.jsonl", "data", "logs/audit.jsonl"),
        ("logs/audit.jsonl", "data/workers/2", "logs/audit.2.jsonl"),
    ],
)
def test_each_worker_has_a_file_of_its_own(
    tmp_path: Path, named: str | None, own: str, expected: str
) -> None:
    config = load([] if named is None else [f"polylog.audit.file={tmp_path / named}"])
    log_dir = SimpleNamespace(path=tmp_path / "data", own=tmp_path / own, node_id=2)

    assert path_of(config, cast("LogDir", log_dir)) == tmp_path / expected

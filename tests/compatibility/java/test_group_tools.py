"""Apache Kafka's kafka-consumer-groups tool (newest release) against this broker."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compatibility.clients.group_member import GroupMember
from tests.compatibility.java.tools import JavaTools
from tests.support import wire_requests
from tests.support.broker_process import Broker, wait_until
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
HOUR_MS = 3_600_000
COMMITTED = 7
Member = Callable[[str, str, str, str], GroupMember]


@pytest.fixture
def group(topic: str) -> str:
    """A group name that no other test has."""
    return f"group-of-{topic}"


@pytest.fixture
def read(broker: Broker, topic: str, group: str) -> str:
    """A topic of ten records, five of them two hours old, of which a group has read seven."""
    now_ms = time.time_ns() // 1_000_000
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic)
        for timestamp in (now_ms - 2 * HOUR_MS, now_ms):
            batch = Batch([b"value"] * 5, timestamp=timestamp)
            wire_requests.produce(client, topic, batch.encode())
        assert wire_requests.find_coordinator(client, group) == 0
        assert wire_requests.commit_offset(client, group, topic, COMMITTED) == 0
    return topic


def at(broker: Broker) -> tuple[str, str]:
    """Return the option that names the broker."""
    return "--bootstrap-server", broker.address


def committed(broker: Broker, group: str, topic: str) -> int:
    """Return the offset that the group has committed for partition 0."""
    with WireClient(broker.address) as client:
        error, offset = wire_requests.committed_offset(client, group, topic)
    assert error == 0
    return offset


def started(member: Member, broker: Broker, group: str, topic: str) -> GroupMember:
    """Return a live member that has its assignment."""
    process = member("kafka_python", broker.address, group, topic)
    wait_until(lambda: process.assignment() == [0], "the member has its assignment")
    return process


# ---- list and describe ---------------------------------------------------------------------------


def test_groups_are_listed_by_state_and_type(
    java: JavaTools, broker: Broker, group: str, read: str, doomed_member: Member
) -> None:
    started(doomed_member, broker, f"live-{group}", read)

    everything = java.run(TOOL, *at(broker), "--list")
    states = java.run(TOOL, *at(broker), "--list", "--state")
    stable = java.run(TOOL, *at(broker), "--list", "--state", "stable")
    classic = java.run(TOOL, *at(broker), "--list", "--type", "classic")

    assert {group, f"live-{group}"} <= set(everything.split())
    assert re.search(rf"^{group}\s+Empty", states, re.MULTILINE), states
    assert re.search(rf"^live-{group}\s+Stable", states, re.MULTILINE), states
    assert re.search(rf"^live-{group}\s+Stable", stable, re.MULTILINE), stable
    assert not re.search(rf"^{group}\s", stable, re.MULTILINE), stable
    assert f"live-{group}" in classic


def test_a_group_without_members_is_described_with_its_lag(
    java: JavaTools, broker: Broker, group: str, read: str
) -> None:
    described = java.run(TOOL, *at(broker), "--describe", "--group", group)

    assert "has no active members" in described
    assert re.search(rf"{group}\s+{read}\s+0\s+7\s+10\s+3\s+-\s+-\s+-", described), described


def test_a_live_group_is_described_with_members_and_state(
    java: JavaTools, broker: Broker, group: str, read: str, doomed_member: Member
) -> None:
    started(doomed_member, broker, group, read)
    of = (*at(broker), "--describe", "--group", group)

    offsets = java.run(TOOL, *of, "--offsets")
    members = java.run(TOOL, *of, "--members", "--verbose")
    state = java.run(TOOL, *of, "--state")

    assert re.search(rf"{group}\s+{read}\s+0\s+7\s+10\s+3\s+\S+-\S+\s+/127\.0\.0\.1\s", offsets)
    assert re.search(
        rf"{group}\s+\S+\s+/127\.0\.0\.1\s+\S+\s+1\s.*{read}\(0\)|{read}:0", members
    ), members
    assert re.search(rf"{group}\s+\S+\s+\(1\)\s+range\s+Stable\s.*1$", state, re.MULTILINE), state


def test_a_group_that_does_not_exist_is_reported_as_such(
    java: JavaTools, broker: Broker, group: str
) -> None:
    described = java.run(TOOL, *at(broker), "--describe", "--group", group)

    assert "GroupIdNotFoundException" in described


# ---- reset ---------------------------------------------------------------------------------------


def an_hour_ago() -> str:
    """Return a time between the old and the new records, in the tool's format."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000", time.gmtime(time.time() - HOUR_MS / 1000))


@pytest.mark.parametrize(
    ("options", "offset"),
    [
        (("--to-earliest",), 0),
        (("--to-latest",), 10),
        (("--to-offset", "3"), 3),
        (("--to-offset", "99"), 10),
        (("--shift-by", "-2"), 5),
        (("--shift-by", "2"), 9),
        (("--by-duration", "PT1H"), 5),
        (("--to-datetime", "an hour ago"), 5),
        (("--to-current",), COMMITTED),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_offsets_are_reset(
    java: JavaTools,
    broker: Broker,
    group: str,
    read: str,
    options: tuple[str, ...],
    offset: int,
) -> None:
    words = [an_hour_ago() if word == "an hour ago" else word for word in options]

    done = java.run(
        TOOL,
        *(*at(broker), "--reset-offsets", "--group", group, "--topic", read, *words, "--execute"),
    )

    assert re.search(rf"{group}\s+{read}\s+0\s+{offset}\s", done), done
    assert committed(broker, group, read) == offset


def test_a_reset_plan_is_shown_exported_and_read_back(
    java: JavaTools, broker: Broker, group: str, read: str, tmp_path: Path
) -> None:
    of = (*at(broker), "--reset-offsets", "--group", group)

    shown = java.run(TOOL, *of, "--all-topics", "--to-offset", "4", "--dry-run")
    exported = java.run(TOOL, *of, "--topic", f"{read}:0", "--to-offset", "4", "--export")
    before = committed(broker, group, read)
    plan = tmp_path / "plan.csv"
    plan.write_text(next(line for line in exported.splitlines() if read in line) + "\n")
    java.run(TOOL, *of, "--from-file", str(plan), "--execute")

    assert re.search(rf"{group}\s+{read}\s+0\s+4\s", shown), shown
    assert f"{read},0,4" in plan.read_text().replace('"', "")
    assert before == COMMITTED
    assert committed(broker, group, read) == 4


def test_offsets_of_a_group_with_members_are_not_reset(
    java: JavaTools, broker: Broker, group: str, read: str, doomed_member: Member
) -> None:
    started(doomed_member, broker, group, read)

    refused = java.run(
        TOOL,
        *(*at(broker), "--reset-offsets", "--group", group, "--topic", read),
        *("--to-earliest", "--execute"),
    )

    assert "can only be reset if the group" in refused
    assert committed(broker, group, read) == COMMITTED


# ---- delete --------------------------------------------------------------------------------------


def test_a_group_is_deleted_only_without_members(
    java: JavaTools, broker: Broker, group: str, read: str, doomed_member: Member
) -> None:
    started(doomed_member, broker, f"live-{group}", read)

    refused = java.run(TOOL, *at(broker), "--delete", "--group", f"live-{group}")
    deleted = java.run(TOOL, *at(broker), "--delete", "--group", group)
    listed = java.run(TOOL, *at(broker), "--list")

    assert "GroupNotEmptyException" in refused
    assert f"('{group}') was successful" in deleted
    assert group not in listed.split()
    assert f"live-{group}" in listed.split()
    assert committed(broker, group, read) == -1


def test_offsets_are_deleted_of_topics_that_no_member_reads(
    java: JavaTools, broker: Broker, group: str, read: str, doomed_member: Member
) -> None:
    other = f"other-{read}"
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, other)
    started(doomed_member, broker, group, other)
    of = (*at(broker), "--delete-offsets", "--group", group)

    deleted = java.run(TOOL, *of, "--topic", read)
    refused = java.run(TOOL, *of, "--topic", other)

    assert "actively subscribed" in refused
    assert re.search(rf"{read}\s+0\s+Successful", deleted), deleted
    assert committed(broker, group, read) == -1

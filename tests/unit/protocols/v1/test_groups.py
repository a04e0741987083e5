"""The commands that V1's group commands send to the coordinator."""

import pytest

from broker.core.groups.commands.assigned import (
    AssignedCall,
    AssignedCommit,
    AssignedJoin,
    AssignedProtocol,
    Assignor,
)
from tests.unit.protocols.v1.v1_client import V1Client

CALL = AssignedCall(AssignedProtocol.V1, "g", "t", "c", 4, 5)


@pytest.fixture
def client() -> V1Client:
    client = V1Client()
    client.fakes.create("t", 5)
    return client


@pytest.mark.parametrize(
    ("option", "assignor"),
    [
        ("", None),
        (" assignor=range", Assignor.RANGE),
        (" Assignor=ROUND_ROBIN", Assignor.ROUND_ROBIN),
    ],
)
def test_a_join_uses_the_existing_partitions(
    client: V1Client, option: str, assignor: Assignor | None
) -> None:
    assert client.say(f"JOIN g t c{option}") == "OK|generation=2 assigned=[0 2]"

    [command] = client.groups.commands
    assert command == AssignedJoin(
        AssignedProtocol.V1, "g", "t", "c", 5, assignor, client_host="/192.0.2.7"
    )


def test_a_topic_that_does_not_exist_counts_with_the_default_partitions(client: V1Client) -> None:
    client.say("JOIN g new c")

    [command] = client.groups.commands
    assert command.partition_count == 3
    assert client.fakes.topics.get("new") is None


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("SYNC", "OK|generation=2 assigned=[0 2]"),
        ("HEARTBEAT", "OK|heartbeat=ok"),
        ("LEAVE", "OK|left=true"),
    ],
)
def test_member_commands_pass_member_and_generation_to_the_group(
    client: V1Client, word: str, answer: str
) -> None:
    assert client.say(f"{word} g t c 4") == answer

    assert client.groups.commands == [CALL]


def test_a_commit_stores_the_next_offset_to_read(client: V1Client) -> None:
    assert client.say("COMMIT g t c 4 2 17") == "OK|committed=true"

    assert client.groups.commands == [AssignedCommit(CALL, 2, 17)]

"""What V1's group commands ask of the coordinator."""

import pytest

from broker.core.groups.assigned.commands import (
    AssignedCall,
    AssignedCommit,
    AssignedJoin,
    AssignedProtocol,
    Assignor,
)
from tests.unit.protocols.v1.speaking import Speaker

CALL = AssignedCall(AssignedProtocol.V1, "g", "t", "c", 4, 5)


@pytest.fixture
def speaker() -> Speaker:
    speaker = Speaker()
    speaker.fakes.create("t", 5)
    return speaker


@pytest.mark.parametrize(
    ("option", "assignor"),
    [
        ("", None),
        (" assignor=range", Assignor.RANGE),
        (" Assignor=ROUND_ROBIN", Assignor.ROUND_ROBIN),
    ],
)
def test_a_join_uses_the_existing_partitions(
    speaker: Speaker, option: str, assignor: Assignor | None
) -> None:
    assert speaker.say(f"JOIN g t c{option}") == "OK|generation=2 assigned=[0 2]"

    [command] = speaker.groups.commands
    assert command == AssignedJoin(
        AssignedProtocol.V1, "g", "t", "c", 5, assignor, client_host="/192.0.2.7"
    )


def test_a_topic_that_does_not_exist_counts_with_the_default_partitions(speaker: Speaker) -> None:
    speaker.say("JOIN g new c")

    [command] = speaker.groups.commands
    assert command.partition_count == 3
    assert speaker.fakes.topics.get("new") is None


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("SYNC", "OK|generation=2 assigned=[0 2]"),
        ("HEARTBEAT", "OK|heartbeat=ok"),
        ("LEAVE", "OK|left=true"),
    ],
)
def test_member_commands_pass_member_and_generation_to_the_group(
    speaker: Speaker, word: str, answer: str
) -> None:
    assert speaker.say(f"{word} g t c 4") == answer

    assert speaker.groups.commands == [CALL]


def test_a_commit_stores_the_next_offset_to_read(speaker: Speaker) -> None:
    assert speaker.say("COMMIT g t c 4 2 17") == "OK|committed=true"

    assert speaker.groups.commands == [AssignedCommit(CALL, 2, 17)]

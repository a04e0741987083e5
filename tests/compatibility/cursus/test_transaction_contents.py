"""The contents of Cursus's transactions: messages and offsets."""

from collections.abc import Callable

import pytest

from tests.compatibility.cursus.transactions import begun, initialised, joined, seen
from tests.support.cursus_client import CursusClient, Message


@pytest.fixture
def topic(cursus_topic: Callable[..., str]) -> str:
    """A topic of two partitions."""
    return cursus_topic(2)


def test_a_repeated_transactional_message_is_written_once(
    cursus: CursusClient, topic: str, name: str
) -> None:
    who = begun(cursus, name)

    def publish(sequence: int, message: str, place: str = " partition=0") -> str:
        return cursus.ask(f"TXN_PUBLISH {who} topic={topic}{place} seqNum={sequence} {message}")

    for _ in range(2):
        assert publish(1, "message=a").endswith(" partition=0")
    routed = {publish(2, "message=b", " partition=-1") for _ in range(3)}
    publish(3, "message=b")
    publish(3, "key=k message=b")
    publish(1, "message=a", " partition=1")

    assert len(routed) == 1, "where it is, also when it is its turn elsewhere"
    status = cursus.ask(f"TXN_STATUS transactional_id={name}")
    assert status.endswith(" state=open messages=5 offsets=0")
    cursus.ask(f"END_TXN {who}")
    assert sorted(seen(cursus, topic) + seen(cursus, topic, 1)) == ["a", "a", "b", "b", "b"]


def test_a_transactional_message_is_returned_with_all_its_fields(
    cursus: CursusClient, topic: str, name: str
) -> None:
    initialised(cursus, name)
    who = begun(cursus, name)
    producer_id = who.split()[1].split("=")[1].encode()
    cursus.ask(f"TXN_PUBLISH {who} topic={topic} partition=1 seqNum=7 key=k message=a=b message=c")
    cursus.ask(f"END_TXN {who}")

    found = cursus.consume(f"CONSUME topic={topic} partition=1 offset=0")

    assert found.messages == [Message(b"a=b message=c", 7, producer_id, b"k", 1)]


def test_a_keyed_message_goes_to_the_partition_publish_would_choose_and_others_round_robin(
    cursus: CursusClient, topic: str, name: str
) -> None:
    plain = {}
    for key in "abcdef":
        answer = cursus.ask(f"PUBLISH topic={topic} producerId=p key={key} message=x")
        assert '"status":"OK"' in answer
    for partition in (0, 1):
        for message in cursus.consume(
            f"CONSUME topic={topic} partition={partition} offset=0"
        ).messages:
            plain[message.key.decode()] = partition
    who = begun(cursus, name)

    def partition_of(sequence: int, key: str) -> int:
        message = f"topic={topic} partition=-1 seqNum={sequence}{key} message={sequence}"
        return int(cursus.ask(f"TXN_PUBLISH {who} {message}").split("partition=")[1])

    assert {key: partition_of(n, f" key={key}") for n, key in enumerate(plain, 1)} == plain
    assert sorted(partition_of(n, "") for n in range(10, 16)) == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("message", "stored"),
    [
        ("hi there principal=bob auth_token=s3cr3t", "hi there"),
        ("hi  principal=bob auth_token=s3cr3t", "hi"),
        ("principal=bob auth_token=s3cr3t hi", "principal=bob auth_token=s3cr3t hi"),
        ("principal=bob auth_token=", "principal=bob auth_token="),
        ("x auth_token=a principal=b", "x auth_token=a principal=b"),
    ],
)
def test_credentials_after_a_message_are_not_stored(
    cursus: CursusClient, topic: str, name: str, message: str, stored: str
) -> None:
    who = begun(cursus, name)

    publish = f"TXN_PUBLISH {who} topic={topic} partition=0 seqNum=1 message={message}"
    assert cursus.ask(publish).startswith("OK ")
    cursus.ask(f"END_TXN {who}")

    assert seen(cursus, topic) == [stored]


def test_a_message_of_credentials_alone_is_missing(
    cursus: CursusClient, topic: str, name: str
) -> None:
    who = begun(cursus, name)

    for message in ("principal=bob auth_token=s", " principal=bob auth_token=s"):
        publish = f"TXN_PUBLISH {who} topic={topic} seqNum=1 message={message}"
        assert cursus.ask(publish) == "ERROR: missing_message command=TXN_PUBLISH"


def test_a_message_above_the_limit_is_refused_and_the_transaction_continues(
    cursus: CursusClient, topic: str, name: str
) -> None:
    who = begun(cursus, name)
    publish = f"TXN_PUBLISH {who} topic={topic} partition=0"

    refused = cursus.ask(f"{publish} seqNum=1 message={'x' * (16 << 20)}")

    assert refused.startswith('ERROR: transaction_publish_failed reason="')
    assert cursus.ask(f"{publish} seqNum=1 message=small").startswith("OK ")
    assert cursus.ask(f"END_TXN {who}").endswith(" state=committed messages=1 offsets=0")
    assert seen(cursus, topic) == ["small"]


# ---- offsets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", ["commit", "abort"])
def test_offsets_are_committed_with_the_transaction(
    cursus: CursusClient, topic: str, name: str, result: str
) -> None:
    member = joined(cursus, topic, name)
    there = f"topic={topic} group={name} member={member} generation=1"
    cursus.ask(f"BATCH_COMMIT {there} P0:3,P1:3")
    who = begun(cursus, name)
    fetch = f"FETCH_OFFSET topic={topic} group={name} partition="

    for payload in ("P0:10,1:4", "offsets=P0:11"):
        assert cursus.ask(f"SEND_OFFSETS_TO_TXN {who} {there} {payload}").startswith("OK ")
    before = [cursus.ask(f"{fetch}{partition}") for partition in (0, 1)]
    cursus.ask(f"END_TXN {who} result={result}")

    assert before == ["OK offset=3", "OK offset=3"]
    after = ["OK offset=11", "OK offset=4"] if result == "commit" else before
    assert [cursus.ask(f"{fetch}{partition}") for partition in (0, 1)] == after


@pytest.mark.parametrize(
    "command", ["COMMIT_OFFSET {} partition=0 offset={}", "BATCH_COMMIT {} P0:{}"]
)
def test_a_member_cannot_commit_below_the_pending_offset_of_its_transaction(
    cursus: CursusClient, topic: str, name: str, command: str
) -> None:
    """Its client commits handled messages at intervals; a message is handled in between."""
    who, group = begun(cursus, name), f"g-{name}"
    member = joined(cursus, topic, group)
    here = f"topic={topic} group={group} member={member} generation=1"
    cursus.ask(f"SEND_OFFSETS_TO_TXN {who} {here} P0:10")

    other = begun(cursus, f"{name}-2")
    assert cursus.ask(f"SEND_OFFSETS_TO_TXN {other} {here} P0:9").endswith('current=10 got=9"')
    assert cursus.ask(command.format(here, 9)) == (
        f'ERROR: offset_regression reason="offset regression group={group} topic={topic}'
        ' partition=0 current=10 got=9"'
    )
    assert cursus.ask(f"END_TXN {who}").endswith(" offsets=1")
    fetch = f"FETCH_OFFSET topic={topic} partition=0 group={group}"
    assert cursus.ask(fetch) == "OK offset=10"

    cursus.ask(f"BEGIN_TXN {who}")
    cursus.ask(f"SEND_OFFSETS_TO_TXN {who} {here} P0:20")
    assert cursus.ask(f"END_TXN {who} result=abort").startswith("OK ")
    assert cursus.ask(command.format(here, 11)).startswith("OK")
    assert cursus.ask(fetch) == "OK offset=11"

    cursus.ask(f"BEGIN_TXN {who}")
    cursus.ask(f"SEND_OFFSETS_TO_TXN {who} {here} P0:20")
    cursus.ask(f"JOIN_GROUP topic={topic} group={group} member=other")
    assert cursus.ask(command.format(here, 12)).startswith("ERROR: GEN_MISMATCH ")


def test_the_offsets_of_a_transaction_belong_to_one_member_in_one_generation(
    cursus: CursusClient, topic: str, name: str
) -> None:
    member = joined(cursus, topic, name)
    other = joined(cursus, topic, f"{name}-2")
    who = begun(cursus, name)
    send = f"SEND_OFFSETS_TO_TXN {who} topic={topic}"
    there = f"group={name} member={member} generation=1"

    assert cursus.ask(f"{send} {there} P0:5").startswith("OK ")
    assert cursus.ask(f"{send} group={name}-2 member={other} generation=1 P0:5") == (
        'ERROR: transaction_offsets_failed reason="the transaction has offsets of'
        f' topic={topic} group={name} member={member} generation=1"'
    )
    assert cursus.ask(f"{send} {there} P0:4") == (
        f'ERROR: offset_regression reason="offset regression group={name} topic={topic}'
        ' partition=0 current=5 got=4"'
    )


def test_only_a_member_can_send_offsets_of_its_assigned_partitions(
    cursus: CursusClient, topic: str, name: str
) -> None:
    member = joined(cursus, topic, name)
    cursus.ask(f"BATCH_COMMIT topic={topic} group={name} member={member} generation=1 P0:7")
    who = begun(cursus, name)
    send = f"SEND_OFFSETS_TO_TXN {who} topic={topic}"

    def refusal(rest: str) -> str:
        return cursus.ask(f"{send} {rest}").removeprefix("ERROR: ").split()[0]

    there = f"group={name} member={member}"
    assert refusal(f"group=nog member={member} generation=1 P0:8") == "group_not_found"
    assert refusal(f"group={name} member=x generation=1 P0:8") == "member_not_found"
    assert refusal(f"{there} generation=2 P0:8") == "GEN_MISMATCH"
    assert refusal(f"{there} generation=1 P0:6") == "offset_regression"
    assert refusal(f"{there} generation=1 P2:1") == "invalid_txn_offsets"
    cursus.ask(f"JOIN_GROUP topic={topic} group={name} member=other")
    cursus.ask(f"JOIN_GROUP topic={topic} group={name} member={member}")
    assert refusal(f"{there} generation=2 P1:1") == "NOT_OWNER"
    assert cursus.ask(f"END_TXN {who}").endswith(" messages=0 offsets=0")


def test_a_transaction_of_a_member_that_lost_its_partitions_does_not_commit(
    cursus: CursusClient, topic: str, name: str
) -> None:
    member = joined(cursus, topic, name)
    who = begun(cursus, name)
    there = f"topic={topic} group={name} member={member} generation=1"
    cursus.ask(f"TXN_PUBLISH {who} topic={topic} partition=0 seqNum=1 message=x")
    assert cursus.ask(f"SEND_OFFSETS_TO_TXN {who} {there} P0:5").startswith("OK ")
    cursus.ask(f"JOIN_GROUP topic={topic} group={name} member=other")

    answer = cursus.ask(f"END_TXN {who} result=commit")

    assert answer.startswith("ERROR: GEN_MISMATCH current=2 requested=1 ")
    assert cursus.ask(f"TXN_STATUS transactional_id={name}").endswith(" messages=1 offsets=1")
    assert cursus.ask(f"END_TXN {who} result=abort").endswith(" state=aborted")
    assert cursus.ask(f"FETCH_OFFSET topic={topic} group={name} partition=0") == "OK offset=0"
    assert seen(cursus, topic) == []

"""Cursus's transactions: golden answers, its clients, and what consumers of Kafka's see of them."""

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from threading import Thread

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.broker_process import Broker, BrokerProcess, wait_until
from tests.compatibility.committed import committed, committed_values
from tests.compatibility.cursus_transactional import (
    FencedError,
    GoTransactions,
    JavaTransactions,
    PythonTransactions,
    TransactionalProducer,
)
from tests.cursus_client import CursusClient, Message, envelope
from tests.wire_client import WireClient

TIMEOUT_S = 30.0
KILLS = 3
MANY_PARTITIONS = 1_000
TRANSACTIONAL_ID_NOT_FOUND = 105
LIFE_TIMEOUT_S = 120.0
StartBroker = Callable[..., BrokerProcess]
INITIALISED = re.compile(r"OK transactional_id=(\S+) producerId=(txn-[0-9a-f]{16}) epoch=(\d+)")
CLIENTS = pytest.mark.parametrize("client", [JavaTransactions, PythonTransactions, GoTransactions])


@pytest.fixture
def topic(cursus: CursusClient) -> Iterator[str]:
    """A topic of two partitions."""
    name = f"txn-{uuid.uuid4().hex[:8]}"
    assert cursus.ask(f"CREATE topic={name} partitions=2").startswith("OK ")
    yield name
    cursus.ask(f"DELETE topic={name}")


@pytest.fixture
def name() -> str:
    """Return a transactional id that no other test has."""
    return f"tx-{uuid.uuid4().hex[:8]}"


def initialised(cursus: CursusClient, name: str) -> str:
    """Take a transactional id: the arguments of who holds it."""
    found = INITIALISED.fullmatch(cursus.ask(f"INIT_PRODUCER_ID transactional_id={name}"))
    assert found
    assert found[1] == name
    return f"transactional_id={name} producerId={found[2]} epoch={found[3]}"


def begun(cursus: CursusClient, name: str) -> str:
    """Take a transactional id and begin; the arguments of who holds it."""
    who = initialised(cursus, name)
    assert cursus.ask(f"BEGIN_TXN {who}").startswith("OK ")
    return who


def joined(cursus: CursusClient, topic: str, group: str) -> str:
    """Join a group; the member's id, of generation 1."""
    answer = cursus.ask(f"JOIN_GROUP topic={topic} group={group} member=m")
    assert answer.startswith("OK generation=1 "), answer
    return answer.split("member=")[1].split()[0]


def seen(cursus: CursusClient, topic: str, partition: int = 0, isolation: str = "") -> list[str]:
    """The payloads that a CONSUME sees."""
    option = f" isolation_level=read_{isolation}" if isolation else ""
    found = cursus.consume(f"CONSUME topic={topic} partition={partition} offset=0{option}")
    return [message.payload.decode() for message in found.messages]


# ---- golden answers ------------------------------------------------------------------------------


def test_a_transaction_has_its_answers(cursus: CursusClient, topic: str, name: str) -> None:
    answer = cursus.ask(f"INIT_PRODUCER_ID transactional_id={name}")
    found = INITIALISED.fullmatch(answer)
    assert found, answer
    producer_id, tx = found[2], f"transactional_id={name}"
    who = f"{tx} producerId={producer_id} epoch=0"
    group = f"g-{name}"
    member = joined(cursus, topic, group)
    there = f"topic={topic} group={group} member={member} generation=1"

    assert answer == f"OK {tx} producerId={producer_id} epoch=0"
    assert cursus.ask(f"TXN_STATUS {tx}") == f"OK {tx} state=aborted messages=0 offsets=0"
    assert cursus.ask(envelope(f"BEGIN_TXN {who}")) == (
        f"OK {tx} state=open producerId={producer_id} epoch=0"
    )
    publish = f"TXN_PUBLISH {who} topic={topic} partition=1"
    assert cursus.ask(f"{publish} seqNum=1 key=k message=hi there") == (
        f"OK {tx} staged_messages=1 topic={topic} partition=1"
    )
    assert cursus.ask(f"{publish} seqNum=2 message=x").startswith(f"OK {tx} staged_messages=1 ")
    assert cursus.ask(f"SEND_OFFSETS_TO_TXN {who} {there} P0:10,P1:20") == (
        f"OK {tx} staged_offsets=2"
    )
    assert cursus.ask(f"TXN_STATUS {tx}") == f"OK {tx} state=open messages=2 offsets=2"
    committed = f"OK {tx} state=committed messages=2 offsets=2"
    assert cursus.ask(f"END_TXN {who} result=commit") == committed
    assert cursus.ask(f"TXN_STATUS {tx}") == committed
    assert cursus.ask(f"END_TXN {who} result=commit") == committed, "again"
    assert cursus.ask(f"END_TXN {who} result=abort") == f"ERROR: transaction_already_committed {tx}"


def test_an_aborted_transaction_has_its_answers(
    cursus: CursusClient, topic: str, name: str
) -> None:
    who, tx = begun(cursus, name), f"transactional_id={name}"
    cursus.ask(f"TXN_PUBLISH {who} topic={topic} partition=0 seqNum=1 message=x")

    for _ in range(2):
        assert cursus.ask(f"END_TXN {who} result=abort") == f"OK {tx} state=aborted"
    assert cursus.ask(f"END_TXN {who} result=commit") == f"ERROR: transaction_aborted {tx}"
    assert cursus.ask(f"TXN_STATUS {tx}") == f"OK {tx} state=aborted messages=0 offsets=0"


def test_every_parameter_has_its_aliases(cursus: CursusClient, topic: str, name: str) -> None:
    who = initialised(cursus, name)
    producer_id = who.split()[1].split("=")[1]

    for alias in ("transactional_id", "txn", "transaction"):
        assert INITIALISED.fullmatch(cursus.ask(f"INIT_PRODUCER_ID {alias}={name}"))
        assert cursus.ask(f"TXN_STATUS {alias}={name}").startswith("OK ")
    for epoch, (result, end) in enumerate((("action", "COMMIT"), ("state", "abort")), 3):
        who = f"txn={name} producer_id={producer_id} epoch={epoch}"
        assert cursus.ask(f"BEGIN_TXN {who}").startswith("OK ")
        publish = f"TXN_PUBLISH transaction={name} producer_id={producer_id} epoch={epoch}"
        assert cursus.ask(f"{publish} topic={topic} seqNum=1 message=x").startswith("OK ")
        assert cursus.ask(f"END_TXN {who} {result}={end}").startswith("OK ")
        initialised(cursus, name)
    assert cursus.ask(f"BEGIN_TXN txn={name} producer_id={producer_id} epoch=5").startswith("OK ")
    assert " state=committed " in cursus.ask(f"END_TXN txn={name} producerId={producer_id} epoch=5")


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("INIT_PRODUCER_ID", "missing_transactional_id command=INIT_PRODUCER_ID"),
        ("INIT_PRODUCER_ID tx", 'unknown_command command="INIT_PRODUCER_ID tx"'),
        ("BEGIN_TXN producerId=p", "missing_transactional_id command=BEGIN_TXN"),
        ("BEGIN_TXN transactional_id={n}", "missing_producer_id command=BEGIN_TXN"),
        ("BEGIN_TXN {w}x", 'invalid_epoch reason="0x is no epoch"'),
        ("BEGIN_TXN {w}9", 'invalid_epoch reason="epoch 9 was not given out, the last one is 0"'),
        ("TXN_PUBLISH {w} seqNum=1 message=x", "missing_topic command=TXN_PUBLISH"),
        ("TXN_PUBLISH {w} topic={t} seqNum=1", "missing_message command=TXN_PUBLISH"),
        ("TXN_PUBLISH {w} topic={t} seqNum=1 message= ", "missing_message command=TXN_PUBLISH"),
        (
            "TXN_PUBLISH {w} topic={t} message=x",
            'invalid_seq_num command=TXN_PUBLISH reason="seqNum  is not a number above 0"',
        ),
        (
            "TXN_PUBLISH {w} topic={t} seqNum=0 message=x",
            'invalid_seq_num command=TXN_PUBLISH reason="seqNum 0 is not a number above 0"',
        ),
        ("TXN_PUBLISH {w} topic=nope seqNum=1 message=x", "topic_not_found topic=nope"),
        (
            "TXN_PUBLISH {w} topic={t} partition=2 seqNum=1 message=x",
            "partition_not_found partition=2",
        ),
        (
            "TXN_PUBLISH {w} topic={t} partition=x seqNum=1 message=x",
            'invalid_partition reason="x is not a partition"',
        ),
        (
            "TXN_PUBLISH {w} topic=__transaction_state seqNum=1 message=x",
            "internal_topic_write_forbidden topic=__transaction_state",
        ),
        (
            "TXN_PUBLISH {w} topic={t} seqNum=1 message=x",
            'transaction_publish_failed reason="transaction {n} is not open"',
        ),
        (
            "TXN_PUBLISH transactional_id={n} topic={t} seqNum=1 message=x",
            "missing_producer_id command=TXN_PUBLISH",
        ),
        ("SEND_OFFSETS_TO_TXN {w} group=g P0:1", "missing_topic command=SEND_OFFSETS_TO_TXN"),
        ("SEND_OFFSETS_TO_TXN {w} topic={t} P0:1", "missing_group command=SEND_OFFSETS_TO_TXN"),
        (
            "SEND_OFFSETS_TO_TXN {w} topic={t} group=g P0:1",
            "missing_member command=SEND_OFFSETS_TO_TXN",
        ),
        (
            "SEND_OFFSETS_TO_TXN {w} topic={t} group=g member=m generation=x P0:1",
            "invalid_generation command=SEND_OFFSETS_TO_TXN",
        ),
        (
            "SEND_OFFSETS_TO_TXN {w} topic={t} group=g member=m generation=1 0",
            'invalid_txn_offsets reason="invalid_batch_commit_entry entry=\\"0\\""',
        ),
        (
            "SEND_OFFSETS_TO_TXN {w} topic={t} group=g member=m generation=1 P0:1",
            'transaction_offsets_failed reason="transaction {n} is not open"',
        ),
        ("END_TXN {w} result=zzz", "invalid_transaction_result value=zzz"),
        ("END_TXN {w} result=commit", "transaction_aborted transactional_id={n}"),
        ("TXN_STATUS", "missing_transactional_id command=TXN_STATUS"),
    ],
)
def test_what_cannot_be_done_is_refused(
    cursus: CursusClient, topic: str, name: str, command: str, error: str
) -> None:
    who = initialised(cursus, name)

    answer = cursus.ask(command.format(w=who, n=name, t=topic))

    assert answer == f"ERROR: {error.format(n=name, t=topic)}"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("BEGIN_TXN", "transaction_begin_failed"),
        ("TXN_PUBLISH topic={t} seqNum=1 message=x", "transaction_publish_failed"),
        (
            "SEND_OFFSETS_TO_TXN topic={t} group=g member=m generation=1 P0:1",
            "transaction_offsets_failed",
        ),
        ("END_TXN result=commit", "transaction_not_found"),
        ("END_TXN result=abort", "transaction_not_found"),
    ],
)
def test_an_id_that_nobody_has_taken_is_not_known(
    cursus: CursusClient, topic: str, name: str, command: str, code: str
) -> None:
    keyword, _, rest = command.format(t=topic).partition(" ")
    who = f"transactional_id={name} producerId=txn-{0:016x} epoch=0"

    assert cursus.ask(f"{keyword} {who} {rest}") == (
        f'ERROR: {code} reason="transactional id {name} is not initialised: INIT_PRODUCER_ID first"'
    )
    assert cursus.ask(f"TXN_STATUS transactional_id={name}") == (
        f'ERROR: transaction_not_found reason="transaction {name} not found"'
    )


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (b"\xff", 'ERROR: invalid_transactional_id reason="it is no text"'),
        (b"x" * 1_010, 'ERROR: invalid_transactional_id reason="at most 1009 bytes"'),
    ],
)
def test_a_transactional_id_that_cannot_be_kept_is_refused(
    cursus: CursusClient, name: bytes, error: str
) -> None:
    assert cursus.ask(b"INIT_PRODUCER_ID transactional_id=" + name) == error
    assert INITIALISED.fullmatch(cursus.ask("INIT_PRODUCER_ID transactional_id=" + "y" * 1_009))


def test_errors_say_their_class_where_that_was_negotiated(
    cursus: CursusClient, topic: str, name: str
) -> None:
    cursus.ask("NEGOTIATE version=1 features=structured_errors_v1")
    old, new = initialised(cursus, name), initialised(cursus, name)

    assert cursus.ask(f"BEGIN_TXN {old}") == (
        f"ERROR: producer_fenced class=fencing retryable=false transactional_id={name}"
        " current_epoch=1 requested_epoch=0 reason=stale_producer_epoch"
    )
    assert cursus.ask(f"END_TXN {new}") == (
        f"ERROR: transaction_aborted class=conflict retryable=false transactional_id={name}"
    )
    assert cursus.ask(f"TXN_PUBLISH {new} topic={topic} seqNum=1 message=x") == (
        "ERROR: transaction_publish_failed class=internal retryable=false"
        f' reason="transaction {name} is not open"'
    )


# ---- who holds it --------------------------------------------------------------------------------


def test_a_second_instance_fences_the_first_and_aborts_what_it_has_open(
    cursus: CursusClient, topic: str, name: str
) -> None:
    old = begun(cursus, name)
    cursus.ask(f"TXN_PUBLISH {old} topic={topic} partition=0 seqNum=1 message=lost")

    new = initialised(cursus, name)

    for command in (
        f"BEGIN_TXN {old}",
        f"TXN_PUBLISH {old} topic={topic} partition=0 seqNum=2 message=late",
        f"SEND_OFFSETS_TO_TXN {old} topic={topic} group=g member=m generation=1 P0:1",
        f"END_TXN {old} result=commit",
        f"END_TXN {old} result=abort",
    ):
        answer = cursus.ask(command)
        assert answer.startswith(f"ERROR: producer_fenced transactional_id={name} current_epoch=")
        assert answer.endswith(" requested_epoch=0 reason=stale_producer_epoch")
    assert cursus.ask(f"BEGIN_TXN {new}").startswith("OK ")
    cursus.ask(f"TXN_PUBLISH {new} topic={topic} partition=0 seqNum=1 message=mine")
    assert cursus.ask(f"END_TXN {old}").startswith("ERROR: producer_fenced ")
    assert cursus.ask(f"END_TXN {new}").startswith("OK ")
    assert seen(cursus, topic) == ["mine"]


def test_a_zombie_is_fenced_also_when_the_new_instance_has_aborted(
    cursus: CursusClient, name: str
) -> None:
    old, new = begun(cursus, name), begun(cursus, name)
    cursus.ask(f"END_TXN {new} result=abort")

    assert cursus.ask(f"END_TXN {old} result=abort").startswith("ERROR: producer_fenced ")
    zombie = re.sub(r"epoch=(\d+)", lambda found: f"epoch={int(found[1]) - 1}", new)
    assert cursus.ask(f"BEGIN_TXN {zombie}").startswith("ERROR: producer_fenced ")


def test_another_producer_id_is_fenced(cursus: CursusClient, name: str) -> None:
    initialised(cursus, name)

    for producer_id in ("txn-ffffffffffffffff", "p1"):
        who = f"transactional_id={name} producerId={producer_id} epoch=0"
        assert cursus.ask(f"BEGIN_TXN {who}") == (
            f"ERROR: producer_fenced transactional_id={name} producerId={producer_id}"
            ' reason="another producer holds it"'
        )


def test_a_transaction_may_be_begun_again_while_nothing_is_in_it(
    cursus: CursusClient, topic: str, name: str
) -> None:
    who = begun(cursus, name)
    assert cursus.ask(f"BEGIN_TXN {who}").startswith("OK ")
    cursus.ask(f"TXN_PUBLISH {who} topic={topic} seqNum=1 message=x")

    assert cursus.ask(f"BEGIN_TXN {who}") == (
        f'ERROR: transaction_begin_failed reason="transaction {name} is already active"'
    )


def test_one_epoch_has_many_transactions(cursus: CursusClient, topic: str, name: str) -> None:
    who = initialised(cursus, name)

    for number in range(6):
        assert cursus.ask(f"BEGIN_TXN {who}").startswith("OK ")
        message = f"topic={topic} partition=0 seqNum=1 message={number}"
        assert cursus.ask(f"TXN_PUBLISH {who} {message}").startswith("OK ")
        result = "abort" if number % 3 == 2 else "commit"
        assert cursus.ask(f"END_TXN {who} result={result}").startswith("OK ")

    assert seen(cursus, topic) == ["0", "1", "3", "4"]


# ---- messages ------------------------------------------------------------------------------------


def test_a_message_that_is_sent_again_is_staged_once(
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


def test_a_message_brings_its_fields_back(cursus: CursusClient, topic: str, name: str) -> None:
    initialised(cursus, name)
    who = begun(cursus, name)
    producer_id = who.split()[1].split("=")[1].encode()
    cursus.ask(f"TXN_PUBLISH {who} topic={topic} partition=1 seqNum=7 key=k message=a=b message=c")
    cursus.ask(f"END_TXN {who}")

    found = cursus.consume(f"CONSUME topic={topic} partition=1 offset=0")

    assert found.messages == [Message(b"a=b message=c", 7, producer_id, b"k", 1)]


def test_a_key_goes_where_publish_takes_it_and_nothing_else_in_turn(
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
def test_credentials_behind_a_message_are_not_stored(
    cursus: CursusClient, topic: str, name: str, message: str, stored: str
) -> None:
    who = begun(cursus, name)

    publish = f"TXN_PUBLISH {who} topic={topic} partition=0 seqNum=1 message={message}"
    assert cursus.ask(publish).startswith("OK ")
    cursus.ask(f"END_TXN {who}")

    assert seen(cursus, topic) == [stored]


def test_nothing_but_credentials_is_no_message(cursus: CursusClient, topic: str, name: str) -> None:
    who = begun(cursus, name)

    for message in ("principal=bob auth_token=s", " principal=bob auth_token=s"):
        publish = f"TXN_PUBLISH {who} topic={topic} seqNum=1 message={message}"
        assert cursus.ask(publish) == "ERROR: missing_message command=TXN_PUBLISH"


def test_a_message_that_is_too_large_is_refused_and_the_transaction_goes_on(
    cursus: CursusClient, topic: str, name: str
) -> None:
    who = begun(cursus, name)
    publish = f"TXN_PUBLISH {who} topic={topic} partition=0"

    refused = cursus.ask(f"{publish} seqNum=1 message={'x' * (2 << 20)}")

    assert refused.startswith('ERROR: transaction_publish_failed reason="')
    assert cursus.ask(f"{publish} seqNum=1 message=small").startswith("OK ")
    assert cursus.ask(f"END_TXN {who}").endswith(" state=committed messages=1 offsets=0")
    assert seen(cursus, topic) == ["small"]


# ---- offsets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", ["commit", "abort"])
def test_offsets_count_with_the_transaction(
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
def test_a_member_commits_nothing_lower_than_what_its_transaction_will(
    cursus: CursusClient, topic: str, name: str, command: str
) -> None:
    """Its client commits what it has handled from time to time, a message is handled in between."""
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


def test_offsets_are_those_of_one_member_in_one_generation(
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


def test_only_a_member_sends_offsets_of_what_it_was_assigned(
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


def test_a_member_that_has_lost_its_partitions_does_not_commit(
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


# ---- who else is there ---------------------------------------------------------------------------


def test_consumers_of_kafkas_see_what_is_committed_or_everything_as_they_ask(
    broker: Broker, cursus: CursusClient, topic: str, name: str
) -> None:
    for number, result in enumerate(("commit", "abort", "commit")):
        who = begun(cursus, name)
        for partition in (0, 1):
            message = f"topic={topic} partition={partition} seqNum=1 key=k message={result}{number}"
            assert cursus.ask(f"TXN_PUBLISH {who} {message}").startswith("OK ")
        cursus.ask(f"END_TXN {who} result={result}")
    who = begun(cursus, name)
    cursus.ask(f"TXN_PUBLISH {who} topic={topic} partition=0 seqNum=1 message=open")

    read = committed(broker.address, topic, at_least=4, partitions=2)
    everything = committed_values(
        broker.address, topic, at_least=7, partitions=2, isolation="uncommitted"
    )

    assert sorted((each.value() or b"") for each in read) == [b"commit0"] * 2 + [b"commit2"] * 2
    assert {each.key() for each in read} == {b"k"}
    assert sorted(everything) == ["abort1"] * 2 + ["commit0"] * 2 + ["commit2"] * 2 + ["open"]
    assert seen(cursus, topic) == ["commit0", "commit2"], "up to the last stable offset"
    assert seen(cursus, topic, isolation="uncommitted") == ["commit0", "abort1", "commit2", "open"]


def test_the_same_id_in_kafka_is_another_one(
    broker: Broker, cursus: CursusClient, topic: str, name: str
) -> None:
    who = begun(cursus, name)
    cursus.ask(f"TXN_PUBLISH {who} topic={topic} partition=0 seqNum=1 message=cursus")
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": name})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"kafka", partition=0)
    producer.commit_transaction()

    assert seen(cursus, topic) == []
    assert cursus.ask(f"END_TXN {who}").endswith(" state=committed messages=1 offsets=0")
    assert seen(cursus, topic) == ["cursus", "kafka"]
    reserved = {"bootstrap.servers": broker.address, "transactional.id": f"polylog-cursus:{name}"}
    with pytest.raises(KafkaException) as refused:
        Producer(reserved).init_transactions(TIMEOUT_S)
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_tools_of_kafkas_see_a_transaction_under_a_name_that_nobody_else_has(
    broker: Broker, cursus: CursusClient, topic: str, name: str
) -> None:
    who = begun(cursus, name)
    cursus.ask(f"TXN_PUBLISH {who} topic={topic} partition=1 seqNum=1 message=x")
    number = int(who.split("txn-")[1].split()[0], 16)
    inner = f"polylog-cursus:{name}"

    with WireClient(broker.address) as wire:
        listed = wire.request("ListTransactions", 0, {"producer_id_filters": [number]})
        described = wire.request("DescribeTransactions", 0, {"transactional_ids": [name, inner]})

    [found] = listed["transaction_states"]
    assert (found["transactional_id"], found["transaction_state"]) == (inner, "Ongoing")
    stranger, ours = described["transaction_states"]
    assert stranger["error_code"] == TRANSACTIONAL_ID_NOT_FOUND
    assert (ours["transaction_timeout_ms"], ours["producer_id"]) == (60_000, number)
    assert ours["topics"] == [{"topic": topic, "partitions": [1]}]


@CLIENTS
def test_a_client_has_two_transactions_with_one_producer_object(
    broker: Broker, cursus: CursusClient, topic: str, name: str, client: type[TransactionalProducer]
) -> None:
    member = joined(cursus, topic, name)
    producer = client(broker.address, name, " principal=bob auth_token=s3cr3t")
    for number in range(3):
        producer.begin()
        for message in "ab":
            producer.publish(topic, f"{message}{number}", 0)
        producer.publish(topic, f"routed{number}", key="k")
        producer.send_offsets(topic, name, member, 1, {0: 3 * number + 3})
        assert producer.status() == ("open", 3, 1)
        if number == 1:
            producer.abort()
            producer.abort()
        else:
            producer.commit()
            producer.commit()
            assert producer.status() == ("committed", 3, 1)

    both = seen(cursus, topic) + seen(cursus, topic, 1)
    assert sorted(both) == ["a0", "a2", "b0", "b2", "routed0", "routed2"]
    assert cursus.ask(f"FETCH_OFFSET topic={topic} group={name} partition=0") == "OK offset=9"


@CLIENTS
def test_a_client_hears_that_it_is_fenced(
    broker: Broker, cursus: CursusClient, topic: str, name: str, client: type[TransactionalProducer]
) -> None:
    producer = client(broker.address, name)
    producer.begin()
    other = client(broker.address, name)
    other.begin()

    with pytest.raises(FencedError):
        producer.publish(topic, "late")
    with pytest.raises(FencedError):
        producer.commit()
    other.publish(topic, "mine", 0)
    other.commit()
    assert seen(cursus, topic) == ["mine"]


@CLIENTS
def test_a_client_that_repeats_a_message_whose_answer_was_lost_stores_it_once(
    broker: Broker, cursus: CursusClient, topic: str, name: str, client: type[TransactionalProducer]
) -> None:
    producer = client(broker.address, name)
    producer.begin()
    for _ in range(2):
        sent = producer.publish(topic, "same")
        producer.command(sent)
    producer.commit()

    assert seen(cursus, topic) + seen(cursus, topic, 1) == ["same", "same"]


def test_an_idempotent_topic_takes_a_transaction_with_whatever_numbers_its_messages_have(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    plain = "PUBLISH topic=t producerId=p seqNum={0} message=plain{0}"
    with CursusClient(broker.address) as cursus:
        cursus.ask("CREATE topic=t partitions=1 idempotent=true")
        who = begun(cursus, "tx")
        for number in (9, 3, 700, 20_000):
            message = f"topic=t seqNum={number} message={number}"
            assert cursus.ask(f"TXN_PUBLISH {who} {message}").startswith("OK ")
        cursus.ask(f"END_TXN {who}")
        assert '"status":"OK"' in cursus.ask(plain.format(1))
    broker.kill()
    broker.start()

    with CursusClient(broker.address) as cursus:
        for number in (1, 2):
            assert '"status":"OK"' in cursus.ask(plain.format(number))
        assert seen(cursus, "t") == ["9", "3", "700", "20000", "plain1", "plain2"]


# ---- time, and death -----------------------------------------------------------------------------


def test_a_transaction_that_is_left_open_is_aborted_by_its_timeout(
    start_broker: StartBroker,
) -> None:
    broker = start_broker("transaction.max.timeout.ms=300")
    with CursusClient(broker.address) as cursus:
        cursus.ask("CREATE topic=t partitions=1")
        old = begun(cursus, "tx")
        cursus.ask(f"TXN_PUBLISH {old} topic=t partition=0 seqNum=1 message=lost")
        wait_until(
            lambda: "state=aborted" in cursus.ask("TXN_STATUS transactional_id=tx"), "it is over"
        )

        aborted = "ERROR: transaction_aborted transactional_id=tx"
        assert cursus.ask(f"END_TXN {old} result=commit") == aborted
        publish = f"TXN_PUBLISH {old} topic=t seqNum=2 message=late"
        assert cursus.ask(publish) == aborted
        assert cursus.ask(f"END_TXN {old} result=abort") == "OK transactional_id=tx state=aborted"
        assert cursus.ask(f"BEGIN_TXN {old}") == (
            "ERROR: producer_reinitialization_required transactional_id=tx epoch=0"
        )
        who = begun(cursus, "tx")
        assert "staged" in cursus.ask(f"TXN_PUBLISH {who} topic=t seqNum=1 message=next")
        cursus.ask(f"END_TXN {who}")
        assert cursus.ask(f"BEGIN_TXN {old}").startswith("ERROR: producer_fenced ")


@pytest.mark.parametrize("durability", ["os", "group-commit"])
def test_kill_9_leaves_committed_transactions_whole_and_open_ones_aborted(
    start_broker: StartBroker, durability: str
) -> None:
    broker = start_broker(f"polylog.durability={durability}")
    with CursusClient(broker.address) as cursus:
        cursus.ask("CREATE topic=t partitions=2")
        member = joined(cursus, "t", "g")
        who = {name: begun(cursus, name) for name in ("open", "done", "sure")}
        for name, each in who.items():
            cursus.ask(f"TXN_PUBLISH {each} topic=t partition=0 seqNum=1 message={name}")
        there = f"topic=t group=g member={member} generation=1"
        cursus.ask(f"SEND_OFFSETS_TO_TXN {who['open']} {there} P1:9")
        cursus.ask(f"SEND_OFFSETS_TO_TXN {who['done']} {there} P0:5")
        cursus.ask(f"END_TXN {who['done']} result=commit")
        cursus.send(f"END_TXN {who['sure']} result=commit")  # on its way when it dies
        broker.kill()
    broker.start()

    with CursusClient(broker.address) as cursus:
        again = f"END_TXN {who['done']} result=commit"
        wait_until(lambda: "coordinator_not_available" not in cursus.ask(again), "it has loaded")
        assert cursus.ask(again) == "OK transactional_id=done state=committed"
        wait_until(
            lambda: "state=open" not in cursus.ask("TXN_STATUS transactional_id=open"), "it is over"
        )
        aborted = "ERROR: transaction_aborted transactional_id=open"
        assert cursus.ask(f"TXN_PUBLISH {who['open']} topic=t seqNum=2 message=x") == aborted
        assert cursus.ask(f"END_TXN {who['open']} result=commit") == aborted
        sure = cursus.ask(f"END_TXN {who['sure']} result=commit")
        expected = ["done", "sure"] if sure.startswith("OK ") else ["done"]
        wait_until(lambda: sorted(seen(cursus, "t")) == expected, f"{expected} can be read")
        assert cursus.ask("FETCH_OFFSET topic=t group=g partition=0") == "OK offset=5"
        assert cursus.ask("FETCH_OFFSET topic=t group=g partition=1") == "OK offset=0"
        assert cursus.ask(f"BEGIN_TXN {who['open']}") == (
            "ERROR: producer_reinitialization_required transactional_id=open epoch=0"
        )
        begun(cursus, "open")
    assert sorted(committed_values(broker.address, "t", at_least=len(expected), partitions=2)) == (
        expected
    )


def test_after_kill_9_nobody_begins_before_a_commit_that_was_decided(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    with CursusClient(broker.address) as cursus, CursusClient(broker.address) as other:
        cursus.ask(f"CREATE topic=T partitions={MANY_PARTITIONS}")  # before the offsets' topic
        member = joined(cursus, "T", "g")
        who = begun(cursus, "tx")
        for partition in range(MANY_PARTITIONS):
            publish = f"TXN_PUBLISH {who} topic=T partition={partition} seqNum=1 message=m"
            assert cursus.ask(publish).startswith("OK ")
        there = f"topic=T group=g member={member} generation=1"
        assert cursus.ask(f"SEND_OFFSETS_TO_TXN {who} {there} P0:5").startswith("OK ")
        cursus.send(f"END_TXN {who}")
        status = "TXN_STATUS transactional_id=tx"
        while "state=commit" not in other.ask(status):  # Its markers take a little longer.
            pass
        broker.kill()
    broker.start_loading()

    answers = set()
    with CursusClient(broker.address) as cursus:

        def is_over() -> bool:
            answers.add(cursus.ask("FETCH_OFFSET topic=T group=g partition=0"))
            return "state=committed" in cursus.ask(status)

        wait_until(is_over, "its markers are written")
        answers.add(cursus.ask("FETCH_OFFSET topic=T group=g partition=0"))

    assert answers - {"ERROR: coordinator_not_available"} == {"OK offset=5"}


class Load(Thread):
    """Reads a number, writes it and the next offset in one transaction, until its broker dies."""

    def __init__(self, client: type[TransactionalProducer], address: str, name: str) -> None:
        super().__init__(daemon=True)
        self.producer = client(address, name)
        self.name = name
        self.told: dict[int, str] = {}
        self.group = f"group-{name}"
        with CursusClient(address) as cursus:
            self.member = joined(cursus, "t", self.group)
        self.here = f"group={self.group} member={self.member} generation=1"

    def run(self) -> None:
        """One transaction after the other; every third is aborted."""
        number = 0
        with suppress(OSError, AssertionError, IndexError):  # It was killed.
            while True:
                self.told[number] = "unknown"
                self.producer.command(f"HEARTBEAT topic=t {self.here}")
                self.producer.begin()
                for partition in (0, 1):
                    self.producer.publish("t", f"{self.name}:{number}", partition)
                self.producer.send_offsets("t", self.group, self.member, 1, {0: number + 1})
                if number % 3 == 2:
                    self.producer.abort()
                    self.told[number] = "aborted"
                else:
                    self.producer.commit()
                    self.told[number] = "committed"
                number += 1


def have_done(workers: list[Load], count: int) -> bool:
    """Whether each has that many transactions behind it."""
    return all(len(each.told) > count for each in workers)


@pytest.mark.parametrize("durability", ["os", "group-commit"])
def test_what_clients_were_told_before_kill_9_holds(
    start_broker: StartBroker, durability: str
) -> None:
    broker = start_broker(f"polylog.durability={durability}")
    with CursusClient(broker.address) as cursus:
        cursus.ask("CREATE topic=t partitions=2")
    kinds = [JavaTransactions, PythonTransactions, GoTransactions]
    workers: list[Load] = []
    for life in range(KILLS):
        living = [Load(kind, broker.address, f"{kind.__name__}-{life}") for kind in kinds]
        for each in living:
            each.start()
        wait_until(partial(have_done, living, 5 + 7 * life), "work is done", LIFE_TIMEOUT_S)
        broker.kill()
        for each in living:
            each.join(TIMEOUT_S)
            assert not each.is_alive()
        workers += living
        broker.start()

    told = {f"{each.name}:{number}": how for each in workers for number, how in each.told.items()}
    surely = sorted(value for value, how in told.items() if how == "committed")
    values = committed_values(broker.address, "t", at_least=2 * len(surely), partitions=2)
    assert all(values.count(value) == 2 for value in set(values)), "each is whole"
    assert not [value for value in values if told[value] == "aborted"]
    assert set(surely) <= set(values)
    with CursusClient(broker.address) as cursus:
        for each in workers:
            last = max((n for n in each.told if f"{each.name}:{n}" in values), default=-1)
            fetch = f"FETCH_OFFSET topic=t group={each.group} partition=0"
            assert cursus.ask(fetch) == f"OK offset={last + 1}"

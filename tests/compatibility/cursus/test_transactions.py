"""The responses to Cursus's transactional commands, and the fencing of producers."""

import re
from collections.abc import Callable

import pytest

from tests.compatibility.cursus.transactions import INITIALISED, begun, initialised, joined, seen
from tests.support.cursus_client import CursusClient, envelope


@pytest.fixture
def topic(cursus_topic: Callable[..., str]) -> str:
    """A topic of two partitions."""
    return cursus_topic(2)


def test_each_step_of_a_committed_transaction_is_answered(
    cursus: CursusClient, topic: str, name: str
) -> None:
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


def test_each_step_of_an_aborted_transaction_is_answered(
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
def test_an_invalid_transaction_command_is_refused(
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
def test_an_uninitialised_transactional_id_is_refused(
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
def test_an_invalid_transactional_id_is_refused(
    cursus: CursusClient, name: bytes, error: str
) -> None:
    assert cursus.ask(b"INIT_PRODUCER_ID transactional_id=" + name) == error
    assert INITIALISED.fullmatch(cursus.ask("INIT_PRODUCER_ID transactional_id=" + "y" * 1_009))


def test_errors_carry_their_class_where_it_was_negotiated(
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


# ---- fencing -------------------------------------------------------------------------------------


def test_a_second_instance_fences_the_first_and_aborts_its_open_transaction(
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


def test_a_zombie_is_fenced_also_after_the_new_instance_has_aborted(
    cursus: CursusClient, name: str
) -> None:
    old, new = begun(cursus, name), begun(cursus, name)
    cursus.ask(f"END_TXN {new} result=abort")

    assert cursus.ask(f"END_TXN {old} result=abort").startswith("ERROR: producer_fenced ")
    zombie = re.sub(r"epoch=(\d+)", lambda found: f"epoch={int(found[1]) - 1}", new)
    assert cursus.ask(f"BEGIN_TXN {zombie}").startswith("ERROR: producer_fenced ")


def test_a_different_producer_id_is_fenced(cursus: CursusClient, name: str) -> None:
    initialised(cursus, name)

    for producer_id in ("txn-ffffffffffffffff", "p1"):
        who = f"transactional_id={name} producerId={producer_id} epoch=0"
        assert cursus.ask(f"BEGIN_TXN {who}") == (
            f"ERROR: producer_fenced transactional_id={name} producerId={producer_id}"
            ' reason="another producer holds it"'
        )


def test_an_empty_transaction_may_be_begun_again(
    cursus: CursusClient, topic: str, name: str
) -> None:
    who = begun(cursus, name)
    assert cursus.ask(f"BEGIN_TXN {who}").startswith("OK ")
    cursus.ask(f"TXN_PUBLISH {who} topic={topic} seqNum=1 message=x")

    assert cursus.ask(f"BEGIN_TXN {who}") == (
        f'ERROR: transaction_begin_failed reason="transaction {name} is already active"'
    )


def test_one_epoch_can_have_many_transactions(cursus: CursusClient, topic: str, name: str) -> None:
    who = initialised(cursus, name)

    for number in range(6):
        assert cursus.ask(f"BEGIN_TXN {who}").startswith("OK ")
        message = f"topic={topic} partition=0 seqNum=1 message={number}"
        assert cursus.ask(f"TXN_PUBLISH {who} {message}").startswith("OK ")
        result = "abort" if number % 3 == 2 else "commit"
        assert cursus.ask(f"END_TXN {who} result={result}").startswith("OK ")

    assert seen(cursus, topic) == ["0", "1", "3", "4"]

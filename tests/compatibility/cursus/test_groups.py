"""Cursus's groups: golden responses of a real broker, and clients that join until they settle."""

import json
import re
import uuid
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.compatibility.cursus.members import GoMember, JavaMember, Member, PythonMember
from tests.support.broker_process import Broker
from tests.support.cursus_client import CursusClient, Message, batch, envelope, read_batch

STALE = "ERROR: GEN_MISMATCH current={} requested={} group={} member={} reason=REBALANCE_REQUIRED"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture
def topic(cursus_topic: Callable[..., str]) -> str:
    """A topic of five partitions."""
    return cursus_topic(5)


@pytest.fixture
def group() -> str:
    """Return a name that no other test has."""
    return f"g-{uuid.uuid4().hex[:8]}"


def joined(cursus: CursusClient, topic: str, group: str, member: str) -> str:
    """Join under that id and return the member's arguments."""
    answer = cursus.ask(f"JOIN_GROUP topic={topic} group={group} member={member}")
    found = re.fullmatch(rf"OK generation=\d+ member=({member}-\d{{4}}) assignments=.*", answer)
    assert found, answer
    return found[1]


# ---- members -----------------------------------------------------------------------------------


def test_a_group_member_is_answered_in_the_current_form(
    cursus: CursusClient, topic: str, group: str
) -> None:
    place = f"topic={topic} group={group}"
    c = joined(cursus, topic, group, "c")
    here = f"{place} member={c} generation=1"

    assert cursus.ask(f"SYNC_GROUP {here}") == (
        f"OK generation=1 member={c} assignments=[0 1 2 3 4]"
    )
    assert cursus.ask(envelope(f"HEARTBEAT {here}")) == f"OK member={c} generation=1"
    assert cursus.ask(f"COMMIT_OFFSET {here} partition=4 offset=7") == "OK"
    assert cursus.ask(f"FETCH_OFFSET {place} partition=4") == "OK offset=7"
    assert cursus.ask(f"BATCH_COMMIT {here} P0:3,P1:1") == "OK batched=2"
    assert cursus.ask(f"BATCH_COMMIT {here} 0:4,1:1,") == "OK batched=2"
    assert cursus.ask(f"FETCH_OFFSET {place} partition=0") == "OK offset=4"
    assert cursus.ask(f"LEAVE_GROUP {here}") == f"OK group={group} member={c} left=true"


def test_a_group_member_gets_the_same_answers_in_the_documented_form(
    cursus: CursusClient, topic: str, group: str
) -> None:
    place = f"{topic} {group}"
    assert cursus.ask(f"SUBSCRIBE {place}") == f"OK topic={topic} group={group} subscribed=true"
    assert cursus.ask(f"GROUP_STATUS {group}") == f"ERROR: group_not_found group={group}"
    answer = cursus.ask(f"JOIN_GROUP {place} c")
    c = answer.split("member=")[1].split()[0]
    assert answer == f"OK generation=1 member={c} assignments=[0 1 2 3 4]"

    assert cursus.ask(f"SYNC_GROUP {place} {c} 1") == answer
    assert cursus.ask(f"HEARTBEAT {place} c {c} 1") == f"OK member={c} generation=1"
    assert cursus.ask(f"HEARTBEAT {place} {c} 1") == f"OK member={c} generation=1"
    assert cursus.ask(f"COMMIT {place} 2 7") == "OK", "also while the group has members"
    assert cursus.ask(f"COMMIT {place} 2 6").startswith("ERROR: offset_regression ")
    assert cursus.ask(f"BATCH_COMMIT {place} {c} 1 P0:10,P1:20") == "OK batched=2"
    assert cursus.ask(f"BATCH_COMMIT {place} {c} 1 0:11,2:8") == "OK batched=2"
    assert cursus.ask(f"LEAVE_GROUP {place} c") == f"OK group={group} member={c} left=true"


def test_a_registered_group_keeps_its_topic_while_it_has_members(
    cursus: CursusClient, topic: str, group: str
) -> None:
    other = f"{topic}-other"
    cursus.ask(f"CREATE {other} 1")
    register = f"REGISTER_GROUP topic={topic} group={group}"
    assert cursus.ask(register) == f"OK group={group} topic={topic} registered=true"
    c = joined(cursus, topic, group, "c")
    assert cursus.ask(register) == f"OK group={group} topic={topic} registered=true"

    bound = f"ERROR: topic_not_assigned_to_group expected={topic} actual={other}"
    assert cursus.ask(f"REGISTER_GROUP topic={other} group={group}") == bound
    assert cursus.ask(f"JOIN_GROUP {other} {group} d") == bound
    assert cursus.ask(f"HEARTBEAT {other} {group} {c} 1") == bound
    cursus.ask(f"LEAVE_GROUP {topic} {group} {c}")
    assert cursus.ask(f"SUBSCRIBE {other} {group}").startswith("OK ")
    assert cursus.ask(f"JOIN_GROUP {other} {group} d").startswith("OK ")
    cursus.ask(f"DELETE {other}")


def test_a_subscription_without_a_group_uses_the_default_group(
    cursus: CursusClient, topic: str
) -> None:
    assert cursus.ask(f"SUBSCRIBE {topic}") == (
        f"OK topic={topic} group=default-group subscribed=true"
    )


def test_ranges_are_assigned_and_a_member_beyond_the_partitions_gets_none(
    cursus: CursusClient, topic: str, group: str
) -> None:
    answers = [cursus.ask(f"JOIN_GROUP {topic} {group} {name}") for name in "abcdef"]

    shares = [each.split("assignments=")[1] for each in answers]
    assert shares == ["[0 1 2 3 4]", "[3 4]", "[4]", "[4]", "[4]", "[]"]


def test_a_live_member_that_joins_again_with_its_id_keeps_its_membership(
    cursus: CursusClient, topic: str, group: str
) -> None:
    c = joined(cursus, topic, group, "c")
    again = f"OK generation=1 member={c} assignments=[0 1 2 3 4]"
    join = f"JOIN_GROUP topic={topic} group={group} member={c}"

    assert cursus.ask(join) == again
    assert cursus.ask(f"{join} generation=1") == f"{again} resumed=true"
    answer = cursus.ask(f"JOIN_GROUP topic={topic} group={group} member=z-1234 generation=1")
    assert re.fullmatch(r"OK generation=2 member=z-1234-\d{4} assignments=\[3 4\]", answer)


def test_a_member_of_an_old_generation_is_told_to_rejoin_and_rejoins_by_its_name(
    cursus: CursusClient, topic: str, group: str
) -> None:
    c = joined(cursus, topic, group, "c")
    joined(cursus, topic, group, "d")
    here = f"topic={topic} group={group} member={c} generation=1"

    stale = STALE.format(2, 1, group, c)
    assert cursus.ask(f"HEARTBEAT {here}") == stale
    assert cursus.ask(f"SYNC_GROUP {here}") == stale
    assert cursus.ask(f"LEAVE_GROUP {here}") == stale
    assert cursus.ask(f"COMMIT_OFFSET {here} partition=0 offset=1") == stale
    assert cursus.ask(f"BATCH_COMMIT {here} P0:1") == stale
    consume = f"CONSUME topic={topic} partition=0 offset=0 group={group}"
    assert cursus.ask(f"{consume} member={c} generation=1") == stale
    assert cursus.ask(f"JOIN_GROUP {topic} {group} c") == (
        f"OK generation=2 member={c} assignments=[0 1 2]"
    )


def test_a_client_that_is_not_a_member_can_still_consume(
    cursus: CursusClient, topic: str, group: str
) -> None:
    c = joined(cursus, topic, group, "c")
    consume = f"CONSUME topic={topic} partition=0 offset=0 group={group}"

    for fence in ("", f" member={c}", " generation=9", " member=x generation=9"):
        assert read_batch(cursus.answer(consume + fence)).messages == []
    assert cursus.ask(f"{consume} member={c} generation=x") == (
        "ERROR: invalid_generation command=CONSUME"
    )


@pytest.mark.parametrize("generation", ["", " generation=2"])
@pytest.mark.parametrize("is_base", [True, False])
def test_a_member_leaves_and_the_others_get_its_partitions(
    cursus: CursusClient, topic: str, group: str, generation: str, *, is_base: bool
) -> None:
    d = joined(cursus, topic, group, "d")
    c = joined(cursus, topic, group, "c")
    leave = f"LEAVE_GROUP topic={topic} group={group} member={'c' if is_base else c}{generation}"

    assert cursus.ask(leave) == f"OK group={group} member={c} left=true"
    gone = "c" if is_base else c
    if not generation:
        assert cursus.ask(leave) == f"ERROR: member_not_found member={gone} group={group}"
    assert cursus.ask(f"SYNC_GROUP {topic} {group} {d} 3") == (
        f"OK generation=3 member={d} assignments=[0 1 2 3 4]"
    )


def test_adding_partitions_raises_the_generation(
    cursus: CursusClient, topic: str, group: str
) -> None:
    c = joined(cursus, topic, group, "c")
    cursus.ask(f"CREATE {topic} 6")

    assert cursus.ask(f"HEARTBEAT {topic} {group} {c} 1") == STALE.format(2, 1, group, c)
    assert cursus.ask(f"SYNC_GROUP {topic} {group} {c} 2").endswith("[0 1 2 3 4 5]")


# ---- commits -----------------------------------------------------------------------------------


def test_a_batch_commit_is_applied_whole_or_not_at_all(
    cursus: CursusClient, topic: str, group: str
) -> None:
    c = joined(cursus, topic, group, "c")
    batch = f"BATCH_COMMIT topic={topic} group={group} member={c} generation=1"
    cursus.ask(f"{batch} P0:2,P1:5")

    regression = f'"offset regression group={group} topic={topic} partition=1 current=5 got=4"'
    assert cursus.ask(f"{batch} P0:3,P1:4") == f"ERROR: offset_regression reason={regression}"
    joined(cursus, topic, group, "d")
    batch = batch.replace("generation=1", "generation=2")
    assert cursus.ask(f"{batch} P0:3,P3:1") == (
        f"ERROR: NOT_OWNER partition=3 member={c} group={group} generation=2"
    )
    assert cursus.ask(f"FETCH_OFFSET topic={topic} group={group} partition=0") == "OK offset=2"


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ("P0:1,P0:2", "duplicate_partition partition=0 group={group} topic={topic}"),
        ("x:1", 'invalid_partition entry="x:1"'),
        ("P-1:1", 'invalid_partition entry="P-1:1"'),
        ("P0:x", 'invalid_offset entry="P0:x"'),
        ("P0:-1", 'invalid_offset entry="P0:-1"'),
        ("P5:1", "partition_not_found partition=5"),
        (",", "no_valid_offsets"),
        ("", 'invalid_batch_commit_entry entry="generation=1"'),
    ],
)
def test_an_invalid_commit_payload_is_refused(
    cursus: CursusClient, topic: str, group: str, payload: str, error: str
) -> None:
    c = joined(cursus, topic, group, "c")
    batch = f"BATCH_COMMIT topic={topic} group={group} member={c} generation=1 {payload}"

    assert cursus.ask(batch) == f"ERROR: {error.format(group=group, topic=topic)}"


def test_a_batch_commit_of_ten_thousand_unknown_partitions_is_refused_at_the_first(
    cursus: CursusClient, topic: str, group: str
) -> None:
    payload = ",".join(f"P{n}:1" for n in range(10_000))

    assert cursus.ask(f"BATCH_COMMIT {topic} {group} c 1 {payload}") == (
        "ERROR: partition_not_found partition=5"
    )


# ---- what is wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("REGISTER_GROUP group=g", "missing_topic command=REGISTER_GROUP"),
        ("REGISTER_GROUP topic={t}", "missing_group command=REGISTER_GROUP"),
        ("SUBSCRIBE topic={t}", "missing_group command=SUBSCRIBE"),
        ("SUBSCRIBE", "missing_topic command=SUBSCRIBE"),
        ("JOIN_GROUP topic={t} group=g", "missing_member command=JOIN_GROUP"),
        ("JOIN_GROUP topic={t} member=c", "missing_group command=JOIN_GROUP"),
        ("JOIN_GROUP topic=nope group=g member=c", "topic_not_found topic=nope"),
        (
            "JOIN_GROUP topic={t} group=g member=c generation=x",
            "invalid_generation command=JOIN_GROUP",
        ),
        ("JOIN_GROUP {t} g", 'unknown_command command="JOIN_GROUP {t} g"'),
        ("SYNC_GROUP topic={t} group=g member=c", "missing_generation command=SYNC_GROUP"),
        ("SYNC_GROUP {t} nog c 1", "group_not_found group=nog"),
        ("HEARTBEAT topic={t} group=g member=c", "missing_generation command=HEARTBEAT"),
        ("HEARTBEAT {t} nog c x", "invalid_generation command=HEARTBEAT"),
        ("HEARTBEAT {t} nog c -1", "invalid_generation command=HEARTBEAT"),
        ("HEARTBEAT {t} nog c 2147483648", "invalid_generation command=HEARTBEAT"),
        ("HEARTBEAT {t} nog c 1", "group_not_found group=nog"),
        ("LEAVE_GROUP {t} nog c", "group_not_found group=nog"),
        ("LEAVE_GROUP topic={t} group=g", "missing_member command=LEAVE_GROUP"),
        ("GROUP_STATUS", "missing_group command=GROUP_STATUS"),
        ("GROUP_STATUS group=nog", "group_not_found group=nog"),
        ("COMMIT_OFFSET topic={t} group=g offset=1", "missing_partition command=COMMIT_OFFSET"),
        ("COMMIT_OFFSET topic={t} partition=0 offset=1", "missing_group command=COMMIT_OFFSET"),
        ("COMMIT_OFFSET topic={t} partition=0 group=g", "missing_offset command=COMMIT_OFFSET"),
        (
            "COMMIT_OFFSET topic={t} partition=0 group=g offset=1",
            "missing_generation command=COMMIT_OFFSET",
        ),
        (
            "COMMIT_OFFSET topic={t} partition=0 group=g offset=1 generation=1",
            "missing_member command=COMMIT_OFFSET",
        ),
        (
            "COMMIT_OFFSET topic={t} partition=0 group=nog offset=1 generation=1 member=c",
            "group_not_found group=nog",
        ),
        ("BATCH_COMMIT", "missing_topic command=BATCH_COMMIT"),
        ("BATCH_COMMIT topic={t} group=g P0:1", "missing_member command=BATCH_COMMIT"),
        ("BATCH_COMMIT {t} nog c 1 P0:1", "group_not_found group=nog"),
    ],
)
def test_an_invalid_group_command_is_refused(
    cursus: CursusClient, topic: str, command: str, error: str
) -> None:
    assert cursus.ask(command.format(t=topic)) == f"ERROR: {error.format(t=topic)}"


@pytest.mark.parametrize(
    "command",
    [
        "JOIN_GROUP topic={p} group=g member=c",
        "REGISTER_GROUP topic={p} group=g",
        "BATCH_COMMIT topic={p} group=g generation=1 member=c P0:1",
    ],
)
@pytest.mark.parametrize("sign", "*?")
def test_other_group_commands_refuse_a_topic_pattern(
    cursus: CursusClient, topic: str, command: str, sign: str
) -> None:
    pattern = topic[:-1] + sign

    assert cursus.ask(command.format(p=pattern)) == (
        f"ERROR: topic_not_found topic={pattern}"
        ' reason="only CONSUME, FETCH_OFFSET and COMMIT_OFFSET take a pattern"'
    )


@pytest.fixture
def family(cursus: CursusClient, topic: str) -> Iterator[list[str]]:
    """Topics of one partition with 2, 5 and 3 records."""
    names = [f"{topic}-{each}" for each in "abc"]
    for name, count in zip(names, (2, 5, 3), strict=True):
        cursus.ask(f"CREATE topic={name} partitions=1")
        cursus.answer(batch(name, 0, [Message(name.encode())] * count))
    yield names
    for name in names:
        cursus.ask(f"DELETE topic={name}")


def consumed(client: CursusClient, pattern: str, group: str, member: str) -> list[Message]:
    """Consume as the original's own test does: from the offset that FETCH_OFFSET tells."""
    offset = client.ask(f"FETCH_OFFSET topic={pattern} partition=0 group={group}")
    start = offset.removeprefix("OK offset=")
    found: list[Message] = client.consume(
        f"CONSUME topic={pattern} partition=0 offset={start} group={group}"
        f" autoOffsetReset=earliest member={member} generation=1"
    ).messages
    return found


@pytest.mark.parametrize("sign", "*?")
def test_a_member_reads_a_pattern_and_commits_it(
    cursus: CursusClient, topic: str, group: str, family: list[str], sign: str
) -> None:
    pattern = f"{topic}-{sign}"
    member = joined(cursus, family[0], group, "c")
    commit = f"COMMIT_OFFSET topic={pattern} partition=0 group={group} generation=1 member={member}"

    assert len(consumed(cursus, pattern, group, member)) == 10
    assert cursus.ask(f"{commit} offset=3") == "OK"
    assert consumed(cursus, pattern, group, member) == []
    for name, count in zip(family, (2, 5, 3), strict=True):
        fetch = f"FETCH_OFFSET topic={name} partition=0 group={group}"
        assert cursus.ask(fetch) == f"OK offset={count}"
        cursus.ask(f"PUBLISH topic={name} producerId=p message=more")
    found = consumed(cursus, pattern, group, member)
    assert [(each.offset, each.payload) for each in found] == [
        (offset, b"more") for offset in (2, 5, 3)
    ]


def test_a_commit_of_a_pattern_is_for_what_the_connection_has_read(
    broker: Broker, cursus: CursusClient, topic: str, group: str, family: list[str]
) -> None:
    pattern = f"{topic}-*"
    member = joined(cursus, family[0], group, "c")
    commit = f"COMMIT_OFFSET topic={pattern} partition=0 group={group} generation=1"
    consumed(cursus, pattern, group, member)

    with CursusClient(broker.address) as other:
        answer = other.ask(f"{commit} member={member} offset=3")
    assert answer.startswith(f"ERROR: topic_not_found topic={pattern} reason=")
    answer = cursus.ask(f"{commit} member={member} offset=2")
    assert answer.startswith("ERROR: invalid_offset reason=")
    assert answer.endswith('up to offset 3"')
    assert cursus.ask(f"{commit} member=x offset=3").startswith("ERROR: member_not_found")
    fetch = f"FETCH_OFFSET topic={pattern} partition=0 group={group}"
    assert cursus.ask(fetch) == "OK offset=0"


def test_a_commit_of_a_pattern_is_not_for_a_group_of_another_topic(
    cursus: CursusClient, topic: str, group: str, family: list[str]
) -> None:
    assert family
    member = joined(cursus, topic, group, "c")
    pattern = f"{topic}-*"
    consumed(cursus, pattern, group, member)

    assert cursus.ask(
        f"COMMIT_OFFSET topic={pattern} partition=0 group={group} generation=1 member={member}"
        " offset=3"
    ) == (f"ERROR: topic_not_assigned_to_group expected={topic} actual={pattern}")
    assert cursus.ask(f"FETCH_OFFSET topic={topic}-x* partition=0 group={group}") == (
        f"ERROR: topic_not_found topic={topic}-x*"
    )


def test_a_consumer_of_a_pattern_uses_the_offsets_committed_to_each_topic(
    cursus: CursusClient, topic: str, group: str
) -> None:
    for _ in range(3):
        cursus.ask(f"PUBLISH topic={topic} partition=0 producerId=p message=m")
    cursus.ask(f"COMMIT {topic} {group} 0 2")

    found = cursus.consume(f"CONSUME topic={topic[:-1]}? partition=0 offset=0 group={group}")

    assert [each.offset for each in found.messages] == [2]


def test_a_client_that_is_not_a_member_is_refused(
    cursus: CursusClient, topic: str, group: str
) -> None:
    joined(cursus, topic, group, "c")

    unknown = f"ERROR: member_not_found member=x group={group}"
    assert cursus.ask(f"HEARTBEAT {topic} {group} x 1") == unknown
    assert cursus.ask(f"SYNC_GROUP {topic} {group} x 1") == unknown
    assert cursus.ask(f"LEAVE_GROUP {topic} {group} x") == unknown


def test_an_invalid_group_or_member_name_is_refused(cursus: CursusClient, topic: str) -> None:
    assert cursus.ask(f"JOIN_GROUP {topic} g {'c' * 70_000}") == (
        'ERROR: invalid_name reason="a group, topic or member is too long, or no text"'
    )


# ---- what is shown -----------------------------------------------------------------------------


def test_a_group_is_described_with_its_members(
    cursus: CursusClient, topic: str, group: str
) -> None:
    c = joined(cursus, topic, group, "c")

    text = cursus.ask(f"GROUP_STATUS group={group}")
    shown = json.loads(text)

    assert text.startswith(f'{{"status":"OK","group_name":"{group}",')
    assert TIME.fullmatch(shown["members"][0].pop("last_heartbeat"))
    assert TIME.fullmatch(shown.pop("last_rebalance"))
    assert shown == {
        "status": "OK",
        "group_name": group,
        "topic_name": topic,
        "state": "Stable",
        "generation": 1,
        "member_count": 1,
        "partition_count": 5,
        "members": [{"member_id": c, "assignments": [0, 1, 2, 3, 4]}],
    }
    cursus.ask(f"LEAVE_GROUP {topic} {group} c")
    gone = json.loads(cursus.ask(f"GROUP_STATUS {group}"))
    assert (gone["state"], gone["generation"], gone["members"]) == ("Dead", 2, [])


def test_groups_are_listed_by_name(cursus: CursusClient, topic: str, group: str) -> None:
    joined(cursus, topic, f"{group}-2", "c")
    joined(cursus, topic, f"{group}-1", "c")

    listed = re.fullmatch(r"OK count=(\d+) groups=(\S*)", cursus.ask("LIST_GROUPS"))

    assert listed
    names = listed[2].split(",")
    assert len(names) == int(listed[1])
    assert [each for each in names if each.startswith(group)] == [f"{group}-1", f"{group}-2"]


# ---- clients that join as theirs do ------------------------------------------------------------


def settle(members: Sequence[Member]) -> None:
    """Run every member in turn until none has to join again."""
    for _ in range(5):
        answers = [each.beat() for each in members]
        if all(answers):
            return
    raise AssertionError("the storm continues")


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("kind", [JavaMember, PythonMember, GoMember])
@pytest.mark.parametrize("is_one_name", [True, False])
def test_a_group_of_clients_stabilizes(
    broker: Broker, topic: str, group: str, kind: type[Member], count: int, *, is_one_name: bool
) -> None:
    members = [
        kind(broker.address, topic, group, "c" if is_one_name else f"c{n}") for n in range(count)
    ]
    for each in members:
        each.join()

    settle(members)

    assert sorted(n for each in members for n in each.partitions) == [0, 1, 2, 3, 4]
    assert {each.generation for each in members} == {count}, "one generation for each who came"
    assert len({each.member_id for each in members}) == count
    for each in members:
        each.commit()
        each.leave()
    with CursusClient(broker.address) as client:
        status = json.loads(client.ask(f"GROUP_STATUS group={group}"))
        assert status["member_count"] == 0
        fetch = f"FETCH_OFFSET topic={topic} group={group} partition=4"
        assert client.ask(fetch) == "OK offset=10"


def test_clients_of_different_languages_stabilize_in_one_group(
    broker: Broker, topic: str, group: str
) -> None:
    kinds: list[type[Member]] = [JavaMember, PythonMember, GoMember, JavaMember, PythonMember]
    members = [kind(broker.address, topic, group, f"c{n}") for n, kind in enumerate(kinds)]
    for each in members:
        each.join()
        for other in members:
            if other.member_id:
                other.beat()

    settle(members)

    assert sorted(n for each in members for n in each.partitions) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("JOIN_GROUP {t} \xff c", "ERROR: invalid_name reason="),
        ("JOIN_GROUP {t} g \xff", "ERROR: invalid_name reason="),
        ("SUBSCRIBE {t} \xff", "OK "),
        ("SYNC_GROUP {t} \xff c 1", "ERROR: group_not_found group=\xff"),
        ("LEAVE_GROUP {t} \xff \xff", "ERROR: group_not_found group=\xff"),
        ("GROUP_STATUS \xff", "ERROR: group_not_found group=\xff"),
        ("BATCH_COMMIT {t} \xff c 1 P0:1", "ERROR: group_not_found group=\xff"),
        ("CONSUME topic={t} partition=0 offset=0 group=\xff member=\xff generation=1", "\xba\x7c"),
    ],
)
def test_a_group_name_that_is_not_utf_8_is_refused(
    cursus: CursusClient, topic: str, command: str, answer: str
) -> None:
    found = cursus.answer(command.format(t=topic).encode("latin-1"))

    assert found.startswith(answer.encode("latin-1"))

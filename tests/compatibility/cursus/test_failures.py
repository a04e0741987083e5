"""What Cursus's clients run into with their own broker, and do not with this one.

The table in docs/protocols/cursus.md lists the failures; the tests here are those that belong to no
other file.
"""

import uuid
from collections.abc import Callable

import pytest

from tests.compatibility.cursus.members import GoMember, JavaMember, Member, PythonMember
from tests.support.broker_process import Broker, BrokerProcess, wait_until
from tests.support.cursus_client import CursusClient, Message, batch, envelope, read_batch

StartBroker = Callable[..., BrokerProcess]
RECORDS = 100
CONNECTIONS = 1_000
WAIT_S = 30.0


@pytest.fixture
def topic() -> str:
    """Return a name that no other test has."""
    return f"failures-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("durability", ["os", "group-commit"])
def test_batches_with_acks_0_and_acks_1_are_read_in_order_after_kill_9(
    start_broker: StartBroker, topic: str, durability: str
) -> None:
    broker = start_broker(f"polylog.durability={durability}")
    with CursusClient(broker.address) as client:
        client.ask(f"CREATE topic={topic} partitions=1")
        for number in range(RECORDS):
            acks = b"0" if number % 2 == 0 else b"1"
            client.send(batch(topic, 0, [Message(b"%d" % number)], acks=acks))
        answers = [client.frame() or b"" for _ in range(RECORDS)]
    assert all(b'"status":"OK"' in each for each in answers)
    broker.kill()
    broker.start()

    with CursusClient(broker.address) as client:
        found = client.consume(f"CONSUME topic={topic} partition=0 offset=0").messages
    assert [(each.offset, each.payload) for each in found] == [
        (number, b"%d" % number) for number in range(RECORDS)
    ]


def test_a_connection_per_command_leaks_no_descriptors(
    start_broker: StartBroker, topic: str
) -> None:
    broker = start_broker()
    with CursusClient(broker.address) as client:
        client.ask(f"CREATE topic={topic} partitions=1")
        client.answer(batch(topic, 0, [Message(b"m")]))
    wait_until(lambda: broker.open_files() > 0, "it is there")
    before = broker.open_files()

    for _ in range(CONNECTIONS):
        with CursusClient(broker.address) as client:
            command = f"CONSUME topic={topic} partition=0 offset=0 member=m"
            assert len(read_batch(client.answer(envelope(command))).messages) == 1

    wait_until(lambda: broker.open_files() <= before, "every connection is closed", WAIT_S)


@pytest.mark.parametrize("kind", [JavaMember, PythonMember, GoMember])
def test_two_consumers_of_a_group_get_each_record_once(
    broker: Broker, topic: str, kind: type[Member]
) -> None:
    with CursusClient(broker.address) as client:
        client.ask(f"CREATE topic={topic} partitions=4")
        for number in range(RECORDS):
            client.answer(batch(topic, number % 4, [Message(b"%d" % number)]))
    members = [kind(broker.address, topic, f"group-{topic}", f"c{n}") for n in (1, 2)]
    for member in members:
        member.join()
    wait_until(
        lambda: sum(not member.beat() for member in members) == 0, "the group has settled", WAIT_S
    )
    ids = [member.member_id for member in members]

    delivered: list[bytes] = []
    for _ in range(3):  # they poll on where they are
        for member in members:
            delivered += polled(broker, topic, member)
            assert member.beat()

    assert sorted(map(int, delivered)) == list(range(RECORDS))
    assert [member.member_id for member in members] == ids
    for member in members:
        member.leave()


def polled(broker: Broker, topic: str, member: Member) -> list[bytes]:
    """Return the next poll of each of a member's partitions, which is then committed."""
    found: list[bytes] = []
    here = f"topic={topic} group=group-{topic}"
    who = f"member={member.member_id} generation={member.generation}"
    for partition in member.partitions:
        with CursusClient(broker.address) as client:
            fetched = client.ask(f"FETCH_OFFSET {here} partition={partition}")
            offset = fetched.removeprefix("OK offset=")
            consume = f"CONSUME {here} partition={partition} offset={offset} {who}"
            messages = client.consume(consume).messages
            if messages:
                payload = f"P{partition}:{messages[-1].offset + 1}"
                assert client.ask(f"BATCH_COMMIT {here} {who} {payload}") == "OK batched=1"
        found += [each.payload for each in messages]
    return found

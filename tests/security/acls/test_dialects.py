"""The same ACLs through the other protocols, natively and by handlers; each has its own words."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.support import rustlog_client
from tests.support.acl_broker import CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID, AclBroker, acl
from tests.support.cursus_client import ConnectionEndedError, CursusClient, Message, batch
from tests.support.line_client import LineClient
from tests.support.rustlog_client import RefusedError, RustLogClient
from tests.support.wire_client import WireClient
from tests.support.wire_requests import create_topic


@pytest.fixture(scope="module")
def admin(secured: AclBroker) -> Iterator[WireClient]:
    with secured.client("admin") as client:
        create_topic(client, "t")
        create_topic(client, "hidden")
        yield client


@pytest.fixture
def address(secured: AclBroker, admin: WireClient) -> str:
    """Where alice connects."""
    return secured.addresses["alice"]


READ, WRITE = acl("Read", TOPIC, "t"), acl("Write", TOPIC, "t")
DESCRIBE = acl("Describe", TOPIC, "t")
GROUP_READ = acl("Read", GROUP, "g")


# ---- V1
# -------------------------------------------------------------------------------------------------

OF_TOPIC = "ERR|BAD_REQUEST|not authorized for this topic"
OF_GROUP = "ERR|BAD_REQUEST|not authorized for this group"
OF_COMMAND = "ERR|BAD_REQUEST|not authorized for this command"


@pytest.mark.parametrize("rounds", [3])
def test_v1_writes_and_reads_what_is_allowed(secured: AclBroker, address: str, rounds: int) -> None:
    with LineClient(address) as alice:
        for _ in range(rounds):
            assert alice.command("PRODUCE t key:value").endswith(OF_TOPIC)
            assert alice.command("CONSUME t 0 0").endswith(OF_TOPIC)
            with secured.acls(WRITE):
                # The first is served in Python, the others natively.
                for _ in range(3):
                    assert "OK|" in alice.command("PRODUCE t key:value")
                assert alice.command("CONSUME t 0 0").endswith(OF_TOPIC)
            with secured.acls(READ):
                for _ in range(3):
                    assert "OK|" in alice.command("CONSUME t 0 0")
                assert alice.command("PRODUCE t key:value").endswith(OF_TOPIC)


@pytest.mark.parametrize(
    ("command", "needs", "refusal"),
    [
        ("JOIN g t m", [GROUP_READ, READ], OF_GROUP),
        ("HEARTBEAT g t m 1", [GROUP_READ], OF_GROUP),
        ("SYNC g t m 1", [GROUP_READ], OF_GROUP),
        ("COMMIT g t m 1 0 0", [GROUP_READ, READ], OF_GROUP),
        ("LEAVE g t m 1", [GROUP_READ], OF_GROUP),
        ("OFFSET g t 0", [acl("Describe", GROUP, "g"), DESCRIBE], OF_GROUP),
        ("REPLICA_FETCH t 0 1 0", [acl("ClusterAction", CLUSTER)], OF_COMMAND),
        ("SET_PARTITION_ROLE t 0 leader", [acl("Alter", CLUSTER)], OF_COMMAND),
        ("BROKER_FORWARDING 192.0.2.1 0", [acl("ClusterAction", CLUSTER)], OF_COMMAND),
        ("ADMIN_FENCE_BROKER 1", [acl("Alter", CLUSTER)], OF_COMMAND),
        ("ADMIN_ELECT_TOPIC_LEADERS t", [acl("Alter", CLUSTER)], OF_COMMAND),
        ("ADMIN_CREATE_TOPIC t 1 1", [acl("Create", TOPIC, "t")], OF_TOPIC),
    ],
)
def test_v1_commands_are_refused_until_allowed(
    secured: AclBroker, address: str, command: str, needs: list[dict[str, object]], refusal: str
) -> None:
    with LineClient(address) as alice:
        assert alice.command(command).endswith(refusal)
        for count in range(1, len(needs)):
            with secured.acls(*needs[:count]):
                assert alice.command(command).endswith(OF_TOPIC)
        with secured.acls(*needs):
            assert "not authorized" not in alice.command(command)


def test_v1_lists_what_may_be_described(secured: AclBroker, address: str) -> None:
    with LineClient(address) as alice:
        assert "topics=[]" in alice.command("ADMIN_GET_METADATA")
        with secured.acls(DESCRIBE):
            assert "topics=[t]" in alice.command("ADMIN_GET_METADATA")


def test_v1_creates_topics_only_for_those_who_may(secured: AclBroker, address: str) -> None:
    with LineClient(address) as alice, secured.acls(acl("Write", TOPIC, "new", is_prefixed=True)):
        assert alice.command("PRODUCE new1 key:value").endswith(OF_TOPIC)
        with secured.acls(acl("Create", CLUSTER)):
            assert "OK|" in alice.command("PRODUCE new1 key:value")


# ---- RustLog
# -------------------------------------------------------------------------------------------------


LIST_TOPICS = b"\x06"


def test_rustlog_writes_and_reads_what_is_allowed(secured: AclBroker, address: str) -> None:
    with RustLogClient(address) as alice:
        with pytest.raises(RefusedError, match="not authorized for this topic"):
            alice.produce("t", [b"value"])
        with pytest.raises(RefusedError, match="not authorized for this topic"):
            alice.fetch("t", 0)
        with secured.acls(WRITE):
            for _ in range(3):
                alice.produce("t", [b"value"])
            with pytest.raises(RefusedError, match="not authorized for this topic"):
                alice.fetch("t", 0)
        with secured.acls(READ):
            for _ in range(3):
                alice.fetch("t", 0)
            with pytest.raises(RefusedError, match="not authorized for this topic"):
                alice.produce("t", [b"value"])


def test_rustlog_groups_and_topics(secured: AclBroker, address: str) -> None:
    with RustLogClient(address) as alice:
        with pytest.raises(RefusedError, match="not authorized for this group"):
            alice.commit("r", "t", 1)
        with pytest.raises(RefusedError, match="not authorized for this topic"):
            alice.create("made")
        with pytest.raises(RefusedError, match="not authorized for this topic"):
            alice.high_watermark("t")
        assert b"t" not in alice.ask(LIST_TOPICS)
        with secured.acls(acl("Read", GROUP, "r"), READ, acl("Create", TOPIC, "made")):
            alice.commit("r", "t", 1)
            alice.create("made")
            alice.high_watermark("t")
            assert alice.committed("r", "t") == 1
            listed = alice.ask(LIST_TOPICS)
            assert rustlog_client.string("t") in listed
            assert b"hidden" not in listed


def test_rustlog_forwarding_is_for_brokers(address: str) -> None:
    mark = b"\x70" + rustlog_client.string("192.0.2.1") + bytes(8)
    with RustLogClient(address) as alice:
        alice.ping()
        code, text = rustlog_client.read_error(alice.ask(mark))

    assert (code, text) == (500, "Forwarding failed: not authorized for this request")


# ---- Cursus
# -------------------------------------------------------------------------------------------------

WRITE_REFUSED = "ERROR: NOT_AUTHORIZED_FOR_TOPIC operation=write topic=t"
READ_REFUSED = "ERROR: NOT_AUTHORIZED_FOR_TOPIC operation=read topic=t"
PUBLISH = "PUBLISH topic=t acks=1 producerId=p message=hello"


def test_cursus_writes_and_reads_what_is_allowed(secured: AclBroker, address: str) -> None:
    consume = "CONSUME topic=t partition=0 offset=0 group=g"
    with CursusClient(address) as alice:
        assert alice.ask(PUBLISH) == WRITE_REFUSED
        assert alice.ask(consume) == READ_REFUSED
        with secured.acls(WRITE):
            for _ in range(3):
                assert '"OK"' in alice.ask(PUBLISH)
            assert '"OK"' in alice.ask(batch("t", 0, [Message(b"x")]))
            assert alice.ask(consume) == READ_REFUSED
        assert "NOT_AUTHORIZED_FOR_TOPIC" in alice.ask(batch("t", 0, [Message(b"x")]))
        with secured.acls(READ):
            assert "permission=group" in alice.ask(consume)
            with secured.acls(GROUP_READ):
                assert alice.consume(consume).messages


@pytest.mark.parametrize(
    ("command", "needs", "refusal"),
    [
        ("JOIN_GROUP topic=t group=g member=m", [GROUP_READ, READ], "permission=group"),
        ("SYNC_GROUP t g m 1", [GROUP_READ, READ], "permission=group"),
        ("HEARTBEAT t g m 1", [GROUP_READ, READ], "permission=group"),
        ("LEAVE_GROUP t g m", [GROUP_READ, READ], "permission=group"),
        ("GROUP_STATUS group=g", [acl("Describe", GROUP, "g")], "permission=group"),
        ("SUBSCRIBE t g", [READ, GROUP_READ], "operation=read"),
        ("DESCRIBE topic=t", [DESCRIBE], "operation=describe"),
        ("LIST_OFFSETS topic=t", [DESCRIBE], "operation=describe"),
        ("DELETE topic=none", [acl("Delete", TOPIC, "none")], "operation=delete"),
        ("CREATE topic=made-by-cursus", [acl("Create", CLUSTER)], "operation=create"),
        (
            "INIT_PRODUCER_ID transactional_id=x",
            [acl("Write", TRANSACTIONAL_ID, "x")],
            "permission=transaction",
        ),
        ("LIST_CLUSTER", [acl("Describe", CLUSTER)], "permission=admin"),
        ("FORWARDED client=192.0.2.1 revision=0", [acl("ClusterAction", CLUSTER)], "admin"),
    ],
)
def test_cursus_commands_are_refused_until_allowed(
    secured: AclBroker, address: str, command: str, needs: list[dict[str, object]], refusal: str
) -> None:
    with CursusClient(address) as alice:
        answer = alice.ask(command)
        assert answer.startswith("ERROR: NOT_AUTHORIZED_FOR_")
        assert refusal in answer
        for count in range(1, len(needs)):
            with secured.acls(*needs[:count]):
                assert alice.ask(command).startswith("ERROR: NOT_AUTHORIZED_FOR_")
        with secured.acls(*needs):
            assert "NOT_AUTHORIZED" not in alice.ask(command)


def test_cursus_create_does_not_tell_whether_a_topic_exists(address: str) -> None:
    with CursusClient(address) as alice:
        answers = {
            alice.ask(f"CREATE topic={name}").replace(name, "") for name in ("hidden", "absent")
        }
    assert answers == {"ERROR: NOT_AUTHORIZED_FOR_TOPIC operation=create topic="}


def test_an_access_policy_of_cursus_is_acls_of_its_topic(secured: AclBroker, address: str) -> None:
    create = "CREATE topic=policed partitions=1"
    publish = "PUBLISH topic=policed producerId=p message=m"
    consume = "CONSUME topic=policed partition=0 offset=0 group=g"
    refused = "ERROR: NOT_AUTHORIZED_FOR_TOPIC operation={} topic=policed"
    with CursusClient(secured.addresses["admin"]) as admin, CursusClient(address) as alice:

        def may() -> tuple[bool, bool]:
            """Return whether alice may write and read the topic."""
            written, read = alice.ask(publish), alice.answer(consume)
            assert written.startswith('{"status":"OK"') or written == refused.format("write")
            assert read.startswith(b"\xba") or read.decode() == refused.format("read")
            return written.startswith("{"), read.startswith(b"\xba")

        lists = "read_acl=bob write_acl=alice,bob"
        created = admin.ask(f"{create} auth_policy=acl {lists}")
        assert f" auth_policy=acl {lists} " in created
        with secured.acls(GROUP_READ):
            assert may() == (True, False)
            for policy, allowed in (
                ("acl read_acl=alice", (False, True)),
                ("deny_write", (False, True)),
                ("deny_read", (True, False)),
                ("open", (False, False)),  # nobody is allowed what no entry is for
            ):
                shown = policy if " " in policy else f"{policy} read_acl="
                assert f" auth_policy={shown}" in admin.ask(f"{create} auth_policy={policy}")
                assert f" auth_policy={shown}" in admin.ask("METADATA topic=policed")
                assert may() == allowed
        with secured.acls(acl("Create", CLUSTER)):
            assert alice.ask("CREATE topic=own auth_policy=deny_write") == (
                "ERROR: NOT_AUTHORIZED_FOR_OPERATION command=CREATE permission=admin"
            )
        admin.ask("DELETE topic=policed")


def test_cursus_lists_what_may_be_described(secured: AclBroker, address: str) -> None:
    with CursusClient(address) as alice:
        assert alice.ask("LIST") == "OK count=0 topics="
        with secured.acls(DESCRIBE):
            assert alice.ask("LIST") == "OK count=1 topics=t"


def test_a_cursus_stream_ends_when_its_topic_may_not_be_read_any_more(
    secured: AclBroker, address: str
) -> None:
    stream = "STREAM topic=t partition=0 group=s offset=0"
    with CursusClient(address) as alice:
        assert alice.ask(stream) == READ_REFUSED
        with secured.acls(READ, acl("Read", GROUP, "s"), WRITE):
            with CursusClient(address) as writer:
                writer.ask(PUBLISH)
            alice.send(stream)
            assert alice.frame()
        frames = _until_the_end(alice)

    assert frames[-1].startswith(b"STREAM_CONTROL type=CLOSE reason=not_authorized")


FRAMES_MAX = 5  # the records, and a keepalive now and then


def _until_the_end(client: CursusClient) -> list[bytes]:
    frames: list[bytes] = []
    with suppress(ConnectionEndedError):
        while (frame := client.frame()) is not None:
            frames.append(frame)
            assert len(frames) < FRAMES_MAX, "the stream goes on"
    return frames


def test_health_pages_need_nothing(address: str) -> None:
    with LineClient(address) as client:
        client.send(b"GET /ready HTTP/1.1\r\n\r\n")

        assert client.line().startswith(b"HTTP/1.1 200")

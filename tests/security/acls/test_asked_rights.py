"""The audit says which ACLs a client has needed, so that others are found in one run of it."""

from collections.abc import Iterator

import pytest

from tests.support.acl_broker import CLUSTER, TOPIC, AclBroker, acl
from tests.support.asked_rights import EVERY_DECISION, Asked, asked_by, without_use
from tests.support.broker_process import wait_until
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch
from tests.support.wire_requests import create_topic, produce


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AclBroker]:
    broker = AclBroker(tmp_path_factory.mktemp("asked"), settings=(EVERY_DECISION,))
    broker.start()
    yield broker
    broker.stop()
    broker.check()


@pytest.fixture
def admin(secured: AclBroker) -> Iterator[WireClient]:
    with secured.client("admin") as client:
        yield client


def test_an_acl_is_needed_if_something_was_asked_for_that_no_other_one_allows(
    secured: AclBroker, admin: WireClient
) -> None:
    create_topic(admin, "written")
    needed = acl("Write", TOPIC, "written")
    entries = [
        acl("Read", TOPIC, "written"),
        needed,
        acl("Write", TOPIC, "other"),
        acl("Create", CLUSTER),
        acl("Describe", TOPIC, "writ", is_prefixed=True),
    ]
    file = secured.data_dir / "audit.jsonl"

    with secured.acls(*entries), secured.client("alice") as alice:
        alice.request("Metadata", 12, {"topics": [{"name": "written"}]})
        assert produce(alice, "written", Batch([b"a"]).encode())[0] == 0
        written = Asked("Write", "Topic", "written")
        wait_until(lambda: written in asked_by("User:alice", file), "it is recorded")

    assert {each.name for each in asked_by("User:alice", file)} == {"written"}
    assert without_use(entries, asked_by("User:alice", file)) == [
        "Read Topic written",
        "Write Topic other",
        "Create Cluster kafka-cluster",
        "Describe Topic writ",  # Write implies it
    ]
    assert without_use([needed], asked_by("User:alice", file)) == []
    assert without_use([needed, needed], asked_by("User:alice", file)) != []


def test_what_is_denied_was_asked_for_too(secured: AclBroker, admin: WireClient) -> None:
    create_topic(admin, "hidden")
    with secured.client("bob") as bob:
        assert produce(bob, "hidden", Batch([b"a"]).encode())[0] != 0
        file = secured.data_dir / "audit.jsonl"
        hidden = Asked("Write", "Topic", "hidden")
        wait_until(lambda: hidden in asked_by("User:bob", file), "it is recorded")

    assert without_use([acl("Write", TOPIC, "hidden")], asked_by("User:bob", file)) == []

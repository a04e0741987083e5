"""Who serves a request: this broker, another one, or nobody now."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core import forwarding
from broker.core.cluster.records import NO_LEADER
from broker.core.forwarding import ElsewhereError
from broker.core.security import Security
from broker.core.session import Session
from broker.core.topics.topic import OFFSETS_TOPIC, Topic
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import FORWARDED_HOST_CHARS_MAX
from broker.model.listener import UNSECURED
from tests.support.scripted_upstream import Nodes, View

HERE: Any = object()
TOPIC = Topic("t", bytes(16), SimpleNamespace(), [HERE, None, HERE, None])  # type: ignore[arg-type]


def _session(leader: int = 2, *, is_alone: bool = False, is_forwarded: bool = False) -> Session:
    groups = SimpleNamespace(partition_for=int)
    offsets = Topic(OFFSETS_TOPIC, bytes(16), SimpleNamespace(), [HERE, None])  # type: ignore[arg-type]
    broker: Any = SimpleNamespace(
        links=None if is_alone else SimpleNamespace(nodes=Nodes(), listener=UNSECURED),
        node_id=1,
        cluster=View(leader),
        groups=groups,
        topics={OFFSETS_TOPIC: offsets},
        security=Security(),
    )
    session = Session(broker, "192.0.2.7", "broker.example", 9092)
    session.is_forwarded = is_forwarded
    return session


def test_a_partition_of_another_leader_is_elsewhere() -> None:
    session = _session()
    forwarding.check_led(session, TOPIC, 0)
    with pytest.raises(ElsewhereError) as elsewhere:
        forwarding.check_led(session, TOPIC, 1)
    assert elsewhere.value.broker_id == 2


def test_a_partition_that_does_not_exist_is_not_elsewhere() -> None:
    forwarding.check_led(_session(), TOPIC, 4)
    forwarding.check_led(_session(), TOPIC, -1)


@pytest.mark.parametrize("leader", [NO_LEADER, 1])
def test_a_partition_without_a_leader_that_serves_is_refused(leader: int) -> None:
    with pytest.raises(RequestError) as refused:
        forwarding.check_led(_session(leader), TOPIC, 1)
    assert refused.value.code is ErrorCode.LEADER_NOT_AVAILABLE


def test_a_forwarded_request_is_not_forwarded_again() -> None:
    session = _session(is_forwarded=True)
    with pytest.raises(RequestError) as refused:
        forwarding.check_led(session, TOPIC, 1)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(RequestError) as refused:
        forwarding.check_coordinated(session, "1")
    assert refused.value.code is ErrorCode.NOT_COORDINATOR


def test_a_broker_may_ask_a_coordinator_for_a_forwarded_request() -> None:
    assert forwarding.coordinator_to_ask(_session(is_forwarded=True), "1") == 2
    assert forwarding.coordinator_to_ask(_session(is_forwarded=True), "0") is None


def test_a_group_is_where_its_partition_is_led() -> None:
    forwarding.check_coordinated(_session(), "0")
    with pytest.raises(ElsewhereError):
        forwarding.check_coordinated(_session(), "1")
    with pytest.raises(RequestError) as refused:
        forwarding.check_coordinated(_session(NO_LEADER), "1")
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_topic_is_answered_for_by_each_of_its_leaders() -> None:
    assert asyncio.run(forwarding.other_leaders(_session(), TOPIC)) == [2]
    assert list(forwarding.answered_here(_session(), TOPIC)) == [0, 2]
    assert asyncio.run(forwarding.other_leaders(_session(is_forwarded=True), TOPIC)) == []
    assert forwarding.other_brokers(_session()) == [2]
    assert forwarding.other_brokers(_session(is_forwarded=True)) == []


def test_a_standalone_broker_serves_everything() -> None:
    session = _session(is_alone=True)
    forwarding.check_led(session, TOPIC, 1)
    forwarding.check_coordinated(session, "1")
    assert asyncio.run(forwarding.other_leaders(session, TOPIC)) == []
    assert list(forwarding.answered_here(session, TOPIC)) == [0, 1, 2, 3]


def test_a_mark_names_the_client_and_waits_for_the_revision() -> None:
    session = _session()
    asyncio.run(forwarding.accept_mark(session, "198.51.100.9", 12))
    assert session.is_forwarded
    assert session.java_host == "/198.51.100.9"
    assert session.client_host == "192.0.2.7", "its limits and permissions are its own"
    assert session.broker.links is not None
    assert session.broker.links.nodes.followed == [12]  # type: ignore[attr-defined]


def test_a_mark_over_another_listener_than_that_of_the_brokers_is_refused() -> None:
    session = _session()
    session.listener = UNSECURED._replace(name="CLIENTS")
    with pytest.raises(RequestError) as refused:
        asyncio.run(forwarding.accept_mark(session, "198.51.100.9", 12))
    assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert not session.is_forwarded


def test_a_mark_has_no_effect_on_a_standalone_broker() -> None:
    session = _session(is_alone=True)
    asyncio.run(forwarding.accept_mark(session, "198.51.100.9", 12))
    assert not session.is_forwarded
    assert session.java_host == "/192.0.2.7"


def test_the_host_that_a_mark_names_is_bounded() -> None:
    session = _session()
    asyncio.run(forwarding.accept_mark(session, "x" * (1 << 20), 12))
    assert len(session.java_host) == 1 + FORWARDED_HOST_CHARS_MAX


def test_only_an_unknown_name_that_a_topic_can_have_is_looked_up() -> None:
    session = _session()
    for name in (OFFSETS_TOPIC, "new", "t*", "", "a/b"):
        asyncio.run(forwarding.learn(session, name))
    assert session.broker.links is not None
    assert session.broker.links.nodes.learned == ["new"]  # type: ignore[attr-defined]

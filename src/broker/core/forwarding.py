"""Requests that another broker has to serve, for protocols whose clients know one address.

A handler calls `check_led` or `check_coordinated` before it changes anything. If another broker
leads, that raises ElsewhereError, and the protocol sends the client's request there as it is
(`forwarded`). A request that was forwarded is never forwarded again: if this broker does not lead
either, because one of the two images is behind the store, the client gets the protocol's error
for a transient failure.

On a standalone broker nobody else leads, and each check ends at its first condition.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.core.cluster.records import NO_LEADER
from broker.core.scheduling.steps import in_steps
from broker.core.session import Session
from broker.core.topics.rules import check_name
from broker.core.topics.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topic
from broker.model.errors import ErrorCode, PolylogError, RequestError, Unreachable
from broker.model.limits import FORWARDED_HOST_CHARS_MAX, PARTITIONS_ANSWERED_PER_STEP

if TYPE_CHECKING:
    from broker.core.links import Dialect


class ElsewhereError(PolylogError):
    """Another broker serves this request.

    Attributes:
        broker_id: which one.
        unreachable: the error for a client whose request that broker does not answer.
    """

    def __init__(self, broker_id: int, unreachable: ErrorCode) -> None:
        """Keep both."""
        super().__init__(f"broker {broker_id} serves this")
        self.broker_id = broker_id
        self.unreachable = unreachable


async def learn(session: Session, name: str) -> None:
    """Make this broker know a topic that another one has created a moment ago, if there is one.

    Clients that have got a topic's leaders from one broker connect to another one, and give up.
    """
    broker = session.broker
    if broker.links is None or broker.topics.get(name) is not None:
        return
    with suppress(RequestError):
        check_name(name, allows_equals=True)
        await broker.links.nodes.learn(name)


def check_led(session: Session, topic: Topic, partition: int) -> None:
    """Raise ElsewhereError if another broker leads a partition that the topic has.

    Raises RequestError if nobody leads it now, or if the request was forwarded to this broker.
    """
    leader = leader_to_ask(session, topic, partition)
    if leader is not None:
        if session.is_forwarded:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        raise ElsewhereError(leader, ErrorCode.LEADER_NOT_AVAILABLE)


def check_coordinated(session: Session, group: str) -> None:
    """Raise ElsewhereError if another broker is the coordinator of a group.

    Raises RequestError if there is none now, or if the request was forwarded to this broker.
    """
    coordinator = coordinator_to_ask(session, group)
    if coordinator is not None:
        if session.is_forwarded:
            raise RequestError(ErrorCode.NOT_COORDINATOR)
        raise ElsewhereError(coordinator, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def coordinator_to_ask(session: Session, group: str) -> int | None:
    """Return the coordinator of a group, None if it is this broker or the group's topic is new.

    For a request of this broker's own, which it needs to serve one that may have been forwarded.
    Raises RequestError if there is no coordinator now.
    """
    broker = session.broker
    if broker.links is None:
        return None
    return _coordinator(session, OFFSETS_TOPIC, broker.groups.partition_for(group))


def check_transactional(session: Session, transactional_id: str) -> None:
    """Do as `check_coordinated`, for the coordinator of a transactional id."""
    coordinator = transaction_coordinator_to_ask(session, transactional_id)
    if coordinator is not None:
        if session.is_forwarded:
            raise RequestError(ErrorCode.NOT_COORDINATOR)
        raise ElsewhereError(coordinator, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def transaction_coordinator_to_ask(session: Session, transactional_id: str) -> int | None:
    """Do as `coordinator_to_ask`, for the coordinator of a transactional id."""
    broker = session.broker
    if broker.links is None:
        return None
    number = broker.transactions.partition_for(transactional_id)
    return _coordinator(session, TRANSACTIONS_TOPIC, number)


def leader_to_ask(session: Session, topic: Topic, partition: int) -> int | None:
    """Return the other broker that leads a partition, for a request of this broker's own.

    None: this broker leads it, or there is no such partition. Raises RequestError if nobody leads.
    """
    if session.broker.links is None:
        return None
    return _other_leader(session, topic, partition, ErrorCode.LEADER_NOT_AVAILABLE)


async def other_leaders(session: Session, topic: Topic) -> list[int]:
    """Return the other brokers that lead partitions of a topic, ascending.

    The list is empty if the request was forwarded: who has forwarded it asks all of them.
    Raises RequestError if nobody leads one of the partitions.
    """
    if session.broker.links is None or session.is_forwarded:
        return []
    found: set[int] = set()
    async for number in in_steps(range(topic.partition_count), PARTITIONS_ANSWERED_PER_STEP):
        leader = _other_leader(session, topic, number, ErrorCode.LEADER_NOT_AVAILABLE)
        if leader is not None:
            found.add(leader)
    return sorted(found)


def answered_here(session: Session, topic: Topic) -> Iterable[int]:
    """Return the partitions of a topic for which this broker answers itself."""
    numbers = range(topic.partition_count)
    if session.broker.links is None:
        return numbers
    return [number for number in numbers if topic.log(number) is not None]


def other_brokers(session: Session) -> list[int]:
    """Return the ids of all other brokers; none if the request was forwarded."""
    broker = session.broker
    if broker.links is None or session.is_forwarded:
        return []
    known = broker.cluster.brokers(*session.reached)
    return [each.broker_id for each in known if each.broker_id != broker.node_id]


async def forwarded(  # noqa: PLR0913 (a request, and where it goes)
    session: Session,
    broker_id: int,
    dialect: "Dialect",
    mark: bytes,
    body: bytes,
    *,
    unreachable: ErrorCode = ErrorCode.LEADER_NOT_AVAILABLE,
    wait_seconds: float = 0,
) -> bytes:
    """Send a request to another broker and return its answer, as Links.ask does.

    Raises RequestError(unreachable): there is none; the request may have been served nevertheless.
    """
    links = session.broker.links
    assert links is not None
    if session.upstreams is None:
        session.upstreams = links.upstreams()
    try:
        return await links.ask(
            session.upstreams, broker_id, dialect, mark, body, wait_seconds=wait_seconds
        )
    except Unreachable as error:
        raise RequestError(unreachable, str(error)) from None


async def accept_mark(session: Session, client_host: str, revision: int) -> None:
    """Take what follows on this connection as forwarded, and catch up with who forwards it.

    The protocols need ClusterAction for it. Without ACLs a mark may come from anybody who reaches
    the listener of the brokers: its host is bounded, because members of groups keep it. On a broker
    that is alone it has no effect.

    Raises:
        RequestError: it has come over another listener.
    """
    links = session.broker.links
    if links is None:
        return
    if not comes_from_brokers(session):
        text = f"brokers connect to the listener {links.listener.name}"
        raise RequestError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, text)
    session.is_forwarded = True
    session.named_host = client_host[:FORWARDED_HOST_CHARS_MAX]
    await links.nodes.follow(revision)


def comes_from_brokers(session: Session) -> bool:
    """Return whether a connection has come over the listener of the brokers of a cluster."""
    links = session.broker.links
    return links is not None and session.listener.name == links.listener.name


def revision_of(session: Session) -> int:
    """Return the revision of the metadata that a mark names."""
    links = session.broker.links
    return 0 if links is None else links.nodes.revision


def _coordinator(session: Session, name: str, number: int) -> int | None:
    topic = session.broker.topics.get(name)
    if topic is None:
        return None
    return _other_leader(session, topic, number, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _other_leader(session: Session, topic: Topic, partition: int, nowhere: ErrorCode) -> int | None:
    """Return the other broker that leads a partition; None: this one, or there is no partition.

    Raises RequestError with the code `nowhere` if nobody leads it.
    """
    if topic.log(partition) is not None or not topic.has_partition(partition):
        return None
    broker = session.broker
    leader = broker.cluster.leadership(topic, partition).leader
    if leader in (NO_LEADER, broker.node_id):
        raise RequestError(nowhere)
    return leader

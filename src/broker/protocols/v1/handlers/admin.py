"""ADMIN_* and BROKER_*: the original's cluster commands.

What changes nothing succeeds, and answers with what is so. Commands that would fence brokers or
copy records have their arguments checked and are then refused with the reason: a standalone broker
has no other one, and a cluster does these things by itself. In a cluster, leaders are moved to
other replicas that are in sync.
"""

from broker.core import access
from broker.core.scheduling.steps import in_parts
from broker.core.topics.rules import NewTopic, check_name
from broker.core.topics.topic import INTERNAL_TOPICS, Topic
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import NAMES_READ_PER_STEP
from broker.protocols.v1.brokers import TERM
from broker.protocols.v1.commands import Request, integer, numbers
from broker.protocols.v1.errors import RefusedError, bad_request

_FOLLOWER_MIN = 1
_ONLY_BROKER = 0  # the id of the original's first broker, which often is the only one
_NO_OTHER = "no broker can take over from one that is fenced"
_LEASES = "a broker whose lease has ended is fenced by itself"
_LEADS_ALL = "this broker leads every partition"
_NO_FOLLOWERS = "it has no followers"
_BY_KAFKA = "its brokers copy records by Kafka's protocol"
_SECONDS = 5.0  # that a leader may take to stop before another one leads


def _refused(request: Request, alone: str, clustered: str) -> RefusedError:
    """Return the error with the reason of a standalone broker, or of one of several."""
    if request.session.broker.links is None:
        return bad_request(f"not possible on a single broker: {alone}")
    return bad_request(f"not possible in this cluster: {clustered}")


def _known_brokers(request: Request) -> list[int]:
    """Return the ids of the cluster's brokers and of those that have registered here."""
    session = request.session
    broker = session.broker
    found = set(request.brokers.known(broker.node_id))
    if broker.links is not None:
        cluster = broker.cluster.brokers(*session.reached)
        found |= {each.broker_id for each in cluster}
    return sorted(found)


def _change(request: Request) -> str:
    return f"term={TERM} index={request.brokers.next_index()}"


async def create_topic(request: Request) -> str:
    """Create a topic; succeed without effect if it exists with this number of partitions."""
    name, partitions_text, factor_text = request.args
    partitions = integer(partitions_text, "partitions")
    factor = integer(factor_text, "replication_factor")
    if partitions <= 0:
        raise bad_request("partitions must be > 0")
    if factor <= 0:
        raise bad_request("replication factor must be > 0")
    access.check_creation(request.session, name)
    topics = request.session.broker.topics
    existing = topics.get(name)
    if name in INTERNAL_TOPICS:
        text = f"'{name}' belongs to the broker"
        raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    if existing is None:
        existing = await _create(request, name, partitions, factor)
    elif existing.partition_count != partitions:
        raise bad_request(f"topic already exists with {existing.partition_count} partitions")
    factor = len(request.session.broker.cluster.leadership(existing, 0).replicas)
    change = _change(request)
    return f"topic={name} partitions={partitions} replication_factor={factor} {change}"


async def _create(request: Request, name: str, partitions: int, factor: int) -> Topic:
    """Create a topic, with the default number of replicas if there cannot be as many as asked."""
    topics = request.session.broker.topics
    try:
        return await topics.create(NewTopic(name, partitions, factor))
    except RequestError as error:
        if error.code is not ErrorCode.INVALID_REPLICATION_FACTOR:
            raise
        return await topics.create(NewTopic(name, partitions))


async def get_metadata(request: Request) -> str:
    """Return topics and brokers; `fenced` is always empty.

    The list is made in steps: a topic that is deleted between two steps is left out.
    """
    broker = request.session.broker
    names: list[str] = []
    per_step = access.per_step(request.session, NAMES_READ_PER_STEP)
    async for part in in_parts(broker.topics, per_step):
        names += [
            topic.name
            for topic in part
            if not topic.is_internal and access.may_describe(request.session, topic)
        ]
    topics = " ".join(names)
    brokers = numbers(_known_brokers(request))
    return f"topics=[{topics}] brokers={brokers} fenced=[]"


async def register_broker(request: Request) -> str:
    """Add a broker to the list of ADMIN_GET_METADATA; this has no other effect."""
    id_text, host, port_text, *rest = request.args
    broker_id = integer(id_text, "broker_id")
    port = integer(port_text, "port")
    for epoch in rest:
        integer(epoch, "epoch")
    if broker_id < 0:
        raise bad_request("broker id must be >= 0")
    if port <= 0:
        raise bad_request("broker port must be > 0")
    index = request.brokers.register(broker_id)
    return f"broker_id={broker_id} host={host} port={port} term={TERM} index={index}"


async def broker_heartbeat(request: Request) -> str:
    """Acknowledge a heartbeat of a registered broker."""
    broker_id = integer(request.args[0], "broker_id")
    if broker_id < 0:
        raise bad_request("invalid broker heartbeat command")
    _check_broker(request, broker_id)
    return f"broker_id={broker_id} heartbeat=ok {_change(request)}"


async def reconcile_broker_health(request: Request) -> str:
    """Fence and unfence nobody: a broker of a cluster is fenced when its lease ends."""
    if integer(request.args[0], "timeout_ms") <= 0:
        raise bad_request("timeout must be > 0")
    return "reconciled=0"


async def fence_broker(request: Request) -> str:
    """Refuse to fence a broker."""
    _named_broker(request)
    raise _refused(request, _NO_OTHER, _LEASES)


async def unfence_broker(request: Request) -> str:
    """Acknowledge that a broker is not fenced: one that is in the list never is."""
    return f"broker_id={_named_broker(request)} fenced=false {_change(request)}"


async def set_partition_leader(request: Request) -> str:
    """Move a partition's leadership to another replica in sync; the ISR is what it is."""
    name, partition_text, leader_text, isr_text = request.args
    partition = integer(partition_text, "partition")
    leader = integer(leader_text, "leader_id")
    for each in isr_text.split(","):
        _listed(each)
    if leader < -1:
        raise bad_request("leader id must be >= -1")
    topic = _topic(request, name)
    if not topic.has_partition(partition):
        raise bad_request(f"partition not found: topic={name} partition={partition}")
    broker = request.session.broker
    changes, cluster = broker.partition_changes, broker.cluster
    if changes is not None:
        try:
            await changes.move_leader((topic.topic_id, partition), leader, _SECONDS)
        except RequestError as error:
            leads = cluster.leadership(topic, partition).leader
            text = f"not possible in this cluster: broker {leads} leads the partition: {error}"
            raise bad_request(text) from None
    elif leader not in {broker.node_id, _ONLY_BROKER}:
        raise bad_request(f"not possible on a single broker: {_LEADS_ALL}")
    found = cluster.leadership(topic, partition)
    led = f"leader={found.leader} isr={numbers(found.isr)}"
    return f"topic={name} partition={partition} {led} {_change(request)}"


async def elect_topic_leaders(request: Request) -> str:
    """Let the preferred leaders of a topic lead, where they can; a single broker always does."""
    topic = _topic(request, request.args[0])
    changes = request.session.broker.partition_changes
    if changes is None:
        return f"topic={topic.name} elected_changes=0"
    items = [(topic.topic_id, number) for number in range(topic.partition_count)]
    led = [each for each in items if not changes.is_led_by_preferred(each)]
    errors = await changes.prefer_leaders(led, _SECONDS)
    return f"topic={topic.name} elected_changes={len(led) - len(errors)}"


async def broker_fetch(request: Request) -> str:
    """Refuse to send records to a follower."""
    name, partition_text, follower_text, offset_text, *rest = request.args
    integer(partition_text, "partition")
    follower = integer(follower_text, "follower_id")
    integer(offset_text, "offset")
    for messages_max in rest:
        if integer(messages_max, "max_messages") <= 0:
            raise bad_request("max_messages must be > 0")
    _check_follower(name, follower)
    raise _refused(request, _NO_FOLLOWERS, _BY_KAFKA)


async def broker_replica_ack(request: Request) -> str:
    """Refuse to record a follower's last offset."""
    name, partition_text, follower_text, offset_text = request.args
    integer(partition_text, "partition")
    follower = integer(follower_text, "follower_id")
    integer(offset_text, "acked_offset")
    _check_follower(name, follower)
    raise _refused(request, _NO_FOLLOWERS, _BY_KAFKA)


def _listed(text: str) -> int:
    try:
        return integer(text, "")
    except RefusedError:
        raise bad_request("invalid integer list") from None


def _check_broker(request: Request, broker_id: int) -> None:
    if broker_id not in _known_brokers(request):
        raise bad_request(f"broker not found: {broker_id}")


def _named_broker(request: Request) -> int:
    """Return the broker that the command names."""
    broker_id = integer(request.args[0], "broker_id")
    if broker_id < 0:
        raise bad_request("broker id must be >= 0")
    _check_broker(request, broker_id)
    return broker_id


def _topic(request: Request, name: str) -> Topic:
    topic = request.session.broker.topics.get(name)
    if topic is None:
        check_name(name)
        raise bad_request(f"topic not found: {name}")
    return topic


def _check_follower(name: str, follower: int) -> None:
    check_name(name)
    if follower < _FOLLOWER_MIN:
        raise bad_request("follower id must be > 0")

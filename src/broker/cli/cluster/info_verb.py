"""`broker cluster info`."""

from typing import NamedTuple

from broker.cli.frame import Session, verb
from broker.client.brokers import describe, versions
from broker.client.configs import Kind, Resource, describe_configs
from broker.client.topics import topic_states
from broker.model.errors import RequestError

_DURABILITY = "polylog.durability"


class InfoBroker(NamedTuple):
    """A broker.

    Attributes:
        broker: its id.
        address: of the listener that was asked.
        rack: where it is; null: it is not told.
        is_controller: whether it is the controller, for clients.
        is_fenced: it is registered, and not used.
        leads: how many partitions it leads.
        replicas: how many it has.
    """

    broker: int
    address: str
    rack: str | None
    is_controller: bool
    is_fenced: bool
    leads: int
    replicas: int


class Feature(NamedTuple):
    """A feature of the cluster, and its level in force."""

    feature: str
    level: int


class Info(NamedTuple):
    """A cluster.

    Attributes:
        cluster_id: its id.
        controller: the id of the controller, for clients; null: none.
        topics: how many there are, without internal ones.
        partitions: of these.
        apis: how many of Kafka's APIs the broker that was asked supports.
        durability: when a write is confirmed, polylog.durability; null of other brokers.
        brokers: all of them.
        features: the levels in force.
    """

    cluster_id: str
    controller: int | None
    topics: int
    partitions: int
    apis: int
    durability: str | None
    brokers: list[InfoBroker]
    features: list[Feature]


@verb(
    Info,
    is_single=True,
    examples=("broker cluster info", "broker cluster info -o json"),
)
def command(session: Session) -> None:
    """Show the cluster: brokers, racks, controller, features, and how many topics there are."""
    cluster = session.cluster
    found = describe(cluster)
    topics = topic_states(cluster).values()
    public = [each for each in topics if not each.is_internal]
    states = [each for topic in topics for each in topic.partitions]
    serving = [each for each in found.brokers if not each.is_fenced]
    supported = versions(cluster, serving[0].address)
    session.write(
        Info(
            found.cluster_id,
            found.controller_id,
            len(public),
            sum(len(each.partitions) for each in public),
            len(supported.apis),
            _durability(session, serving[0].broker_id),
            [
                InfoBroker(
                    each.broker_id,
                    str(each.address),
                    each.rack,
                    each.broker_id == found.controller_id,
                    each.is_fenced,
                    sum(state.leader == each.broker_id for state in states),
                    sum(each.broker_id in state.replicas for state in states),
                )
                for each in found.brokers
            ],
            [Feature(name, level) for name, level in sorted(supported.features.items())],
        )
    )


def _durability(session: Session, broker_id: int) -> str | None:
    resource = Resource(Kind.BROKER, str(broker_id))
    try:
        found = describe_configs(session.cluster, resource, [_DURABILITY])
    except RequestError:
        return None  # users may see the cluster without seeing settings
    return found[_DURABILITY].value if _DURABILITY in found else None

"""`broker config export`."""

import sys
from typing import TYPE_CHECKING, NamedTuple

import click

from broker.cli.config.entities import Entity, own
from broker.cli.frame import Session, verb
from broker.cli.patterns import matcher
from broker.cli.progress import progress
from broker.client.brokers import live_brokers
from broker.client.configs import EVERY_BROKER, Kind, Resource, list_resources
from broker.model.errors import PeerError

if TYPE_CHECKING:
    from broker.client.metadata import Cluster

_KINDS = (Kind.TOPIC, Kind.BROKER, Kind.GROUP)


class Exported(NamedTuple):
    """What was set for something.

    Attributes:
        entity: what has the settings, as KIND/NAME.
        settings: the values by name; passwords are left out.
    """

    entity: str
    settings: dict[str, str]


@verb(
    Exported,
    examples=(
        "broker config export -o yaml",
        "broker config export 'topic/.*' -o json",
    ),
)
@click.argument("patterns", nargs=-1, metavar="[KIND/NAME|REGEX]...")
def command(session: Session, patterns: tuple[str, ...]) -> None:
    """Print all settings of topics, brokers and groups that were set while the cluster runs.

    `broker config apply` reads it, as YAML or JSON.
    """
    matches = matcher(patterns)
    found = [each for each in _all(session.cluster) if matches(str(each))]
    with progress("settings", len(found), "resources") as shown:
        for entity in found:
            values = own(session.cluster, entity)
            hidden = [name for name, value in values.items() if value is None]
            if hidden:
                print(f"{entity}: left out, as passwords: {', '.join(hidden)}", file=sys.stderr)
            known = {name: value for name, value in values.items() if value is not None}
            if known:
                session.write(Exported(str(entity), known))
            shown.add(1)


def _all(cluster: "Cluster") -> list[Entity]:
    """Return everything that may have settings; of brokers before Kafka 4.1 without groups."""
    try:
        found = list_resources(cluster, _KINDS)
    except PeerError:
        found = [Resource(Kind.TOPIC, each) for each in sorted(cluster.existing_topics())]
        found += [Resource(Kind.BROKER, str(each)) for each in sorted(live_brokers(cluster))]
    return [Entity(each) for each in sorted({*found, Resource(Kind.BROKER, EVERY_BROKER)})]

"""Brokers that run: whether each is reachable at the address that clients get, and is well."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.cli.checks import OK, PROBLEM, Check
from broker.cli.health_pages import page_checks
from broker.client.brokers import Broker, describe, versions
from broker.model.errors import PolylogError

if TYPE_CHECKING:
    from broker.client.metadata import Cluster


def broker_checks(cluster: "Cluster") -> Iterator[Check]:
    """Look at all brokers of a cluster; raises PolylogError if it does not describe itself."""
    for each in describe(cluster).brokers:
        name = f"broker {each.broker_id}"
        if each.is_fenced:
            reason = "it is registered, and does not serve"
            fix = "start it; if it runs, look for its lease and the metadata store in its log"
            yield Check("broker", PROBLEM, name, reason, fix)
            continue
        yield _reached(cluster, name, each)
        yield from page_checks(cluster, name, each)


def _reached(cluster: "Cluster", name: str, broker: Broker) -> Check:
    try:
        found = versions(cluster, broker.address)
    except PolylogError as error:
        return Check(
            "advertised",
            PROBLEM,
            name,
            f"clients get {broker.address}, and from here it does not answer: {error}",
            "set advertised.listeners to an address that clients reach; look at firewalls",
        )
    reason = f"it answers at {broker.address}, the address that clients get; it has"
    return Check("advertised", OK, name, f"{reason} {len(found.apis)} of Kafka's APIs", "")

"""Brokers that run: whether each is reachable at the address that clients get, and is well."""

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from broker.cli.checks import OK, PROBLEM, WARNING, Check
from broker.cli.http_pages import page_of
from broker.client.brokers import Broker, describe, versions
from broker.model.errors import PolylogError, Unreachable

if TYPE_CHECKING:
    from broker.client.metadata import Cluster

_PAGE: Final = "/health/cluster"
_WARNINGS: Final = frozenset({"disk_low"})  # reasons with which clients are served as before


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
        yield from _health(cluster, name, each)


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


def _health(cluster: "Cluster", name: str, broker: Broker) -> Iterator[Check]:
    try:
        answer = page_of(cluster, broker.address, _PAGE)
        is_well = answer.status == HTTPStatus.OK
        reasons = () if is_well else json.loads(answer.text)["reasons"]
        found = [(each["reason"], each["count"], each["hint"]) for each in reasons]
    except (Unreachable, ValueError, KeyError, TypeError):
        reason = f"its page {_PAGE} does not answer: it takes no login but PLAIN"
        fix = "ask with that, or over a listener without; other servers of Kafka have no page"
        yield Check("health", WARNING, name, reason, fix)
        return
    if not found:
        yield Check("health", OK, name, "nothing is wrong as far as it knows", "")
    for reason, count, hint in found:
        severity = WARNING if reason in _WARNINGS else PROBLEM
        yield Check("health", severity, name, f"{reason} ({count})", hint)

"""What brokers of this kind say of themselves on their page, which others do not have."""

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from broker.cli.checks import OK, PROBLEM, WARNING, Check
from broker.cli.http_pages import page_of
from broker.model.errors import Unreachable

if TYPE_CHECKING:
    from broker.client.brokers import Broker
    from broker.client.metadata import Cluster

_PAGE: Final = "/health/cluster"
_WARNINGS: Final = frozenset({"disk_low"})  # reasons with which clients are served as before


def page_checks(cluster: "Cluster", name: str, broker: "Broker") -> Iterator[Check]:
    """Yield what a broker says of itself on its page."""
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

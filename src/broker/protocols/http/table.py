"""Every path and its page."""

from collections.abc import Mapping
from typing import Final

from broker.core.access import on_cluster
from broker.core.security.acls import Operation
from broker.protocols.http import clients, health, metrics
from broker.protocols.http.page import Page

PAGES: Final[Mapping[str, Page]] = {
    "/": Page(health.show_ok, before_login=health.show_ok),
    "/clients": Page(clients.show_clients, on_cluster(Operation.DESCRIBE)),
    "/health": Page(health.show_ok, before_login=health.show_ok),
    "/health/cluster": Page(health.show_cluster),
    "/health/live": Page(health.show_live, before_login=health.show_live),
    "/health/ready": Page(health.show_ready, before_login=health.show_whether_ready),
    "/health/startup": Page(health.show_startup, before_login=health.show_whether_started),
    "/live": Page(health.show_live, before_login=health.show_live),
    "/metrics": Page(metrics.show_metrics, on_cluster(Operation.DESCRIBE)),
    "/metrics/all": Page(metrics.show_all_metrics, on_cluster(Operation.DESCRIBE)),
    "/ready": Page(health.show_ready, before_login=health.show_whether_ready),
}

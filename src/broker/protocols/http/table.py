"""Every path and its page."""

from collections.abc import Mapping
from typing import Final

from broker.core.access import on_cluster
from broker.core.security.acls import Operation
from broker.protocols.http.health import show_live, show_ok, show_ready
from broker.protocols.http.metrics import show_all_metrics, show_metrics
from broker.protocols.http.page import Page

PAGES: Final[Mapping[str, Page]] = {
    "/": Page(show_ok),
    "/health": Page(show_ok),
    "/live": Page(show_live),
    "/ready": Page(show_ready),
    "/metrics": Page(show_metrics, on_cluster(Operation.DESCRIBE)),
    "/metrics/all": Page(show_all_metrics, on_cluster(Operation.DESCRIBE)),
}

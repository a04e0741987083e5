"""The pages of metrics: /metrics without topics and groups, /metrics/all with them.

Both need DESCRIBE on the cluster where ACLs decide: load and names are nobody else's business.
Without an authorizer they are as open as everything else, and the broker listens on loopback only.
"""

from broker.core.metrics.text import OPEN_METRICS, PROMETHEUS, wants_open_metrics
from broker.core.session import Session
from broker.protocols.http.page import Content
from broker.protocols.http.request import Request


async def show_metrics(request: Request, session: Session) -> Content:
    """Return what is measured of the broker, as Prometheus' text or OpenMetrics."""
    return await _show(request, session, is_all=False)


async def show_all_metrics(request: Request, session: Session) -> Content:
    """Return the same, and what is measured of topics, partitions and groups."""
    return await _show(request, session, is_all=True)


async def _show(request: Request, session: Session, *, is_all: bool) -> Content:
    is_open = wants_open_metrics(request.accept)
    pages = session.broker.metrics.pages
    assert pages is not None  # it is made before the first connection is accepted
    body = await pages.page(is_all=is_all, is_open=is_open)
    return Content(body, OPEN_METRICS if is_open else PROMETHEUS)

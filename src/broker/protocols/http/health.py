"""The health checks of a broker, for probes, and what is wrong with its cluster, for people.

    /health/live       the loop responds
    /health/startup    it was ready once
    /health/ready      clients may use it now
    /health/cluster    nothing is wrong as far as it knows, also with other brokers

An answer other than 200 has the reasons, each with what to do. Where a login is asked for, who has
not logged in is told only which of the first three it is.
"""

import json
from collections.abc import Iterable

from broker.core.access import may_cluster
from broker.core.health import Reason, of_cluster
from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.protocols.http.page import TEXT, UNAVAILABLE, Content
from broker.protocols.http.request import Request


def show_ok(_: Request, __: Session) -> Content:
    """Say that the broker responds, for people."""
    return Content(b"OK", TEXT)


def show_live(_: Request, __: Session) -> Content:
    """Say that the broker responds."""
    return Content(b'{"status":"live"}')


def show_ready(_: Request, session: Session) -> Content:
    """Say whether clients may use the broker."""
    return _content("ready", "not_ready", _not_ready(session), has_examples=False)


def show_startup(_: Request, session: Session) -> Content:
    """Say whether the broker has been ready since its start."""
    return _content("started", "starting", _not_started(session), has_examples=False)


def show_whether_ready(_: Request, session: Session) -> Content:
    """Say whether clients may use the broker, and nothing else."""
    return _bare("ready", "not_ready", _not_ready(session))


def show_whether_started(_: Request, session: Session) -> Content:
    """Say whether the broker has been ready since its start, and nothing else."""
    return _bare("started", "starting", _not_started(session))


async def show_cluster(_: Request, session: Session) -> Content:
    """Say what is wrong; names of partitions are told only to who may describe the cluster."""
    reasons = await of_cluster(session.broker)
    has_examples = may_cluster(session, Operation.DESCRIBE)
    return _content("healthy", "unhealthy", reasons, has_examples=has_examples)


def _not_ready(session: Session) -> list[Reason]:
    broker = session.broker
    return broker.health.not_ready(is_loading=broker.topics.is_loading)


def _not_started(session: Session) -> list[Reason]:
    return [] if session.broker.health.was_ready else _not_ready(session)


def _bare(good: str, bad: str, reasons: list[Reason]) -> Content:
    if not reasons:
        return _content(good, bad, (), has_examples=False)
    return Content(b'{"status":"%s"}' % bad.encode(), status=UNAVAILABLE)


def _content(good: str, bad: str, reasons: Iterable[Reason], *, has_examples: bool) -> Content:
    told = [each.fields(has_examples=has_examples) for each in reasons]
    if not told:
        return Content(b'{"status":"%s"}' % good.encode())
    text = json.dumps({"status": bad, "reasons": told}, separators=(",", ":"))
    return Content(text.encode(), status=UNAVAILABLE)

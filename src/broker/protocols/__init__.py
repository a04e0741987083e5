"""The wire protocols: independent packages that translate between their requests and core."""

from broker.protocols import cursus, http, kafka, rustlog, v1
from broker.protocols.base import WireProtocol

PROTOCOLS: tuple[WireProtocol, ...] = (
    kafka.PROTOCOL,
    v1.PROTOCOL,
    rustlog.PROTOCOL,
    cursus.PROTOCOL,
    http.PROTOCOL,
)

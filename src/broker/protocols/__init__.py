"""The wire protocols: independent siblings that translate between their dialect and core."""

from broker.protocols import cursus, http, kafka, rustlog, v1
from broker.protocols.base import WireProtocol

PROTOCOLS: tuple[WireProtocol, ...] = (
    kafka.PROTOCOL,
    v1.PROTOCOL,
    rustlog.PROTOCOL,
    cursus.PROTOCOL,
    http.PROTOCOL,
)

"""The wire protocols: independent siblings that translate between their dialect and core."""

from broker.protocols import kafka
from broker.protocols.base import WireProtocol

PROTOCOLS: tuple[WireProtocol, ...] = (kafka.PROTOCOL,)

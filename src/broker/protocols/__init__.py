"""The wire protocols: independent packages that translate between their requests and core.

A package has the name of its protocol in broker.model.protocol_names, and a PROTOCOL.
"""

from functools import reduce
from importlib import import_module
from operator import or_

from broker.model.protocol_names import PROTOCOL_NAMES
from broker.model.topic_config import TopicConfig
from broker.protocols.base import WireProtocol

PROTOCOLS: tuple[WireProtocol, ...] = tuple(
    import_module(f"{__name__}.{name}").PROTOCOL for name in PROTOCOL_NAMES
)


def log_flags(config: TopicConfig) -> int:
    """Return PartitionLog.protocol_flags for the logs of a topic: the bits of all protocols."""
    return reduce(or_, (protocol.log_flags(config) for protocol in PROTOCOLS))

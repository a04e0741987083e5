"""The list of the protocols, made of their names, and what all of them add to the broker."""

from functools import reduce
from importlib import import_module
from operator import or_

from broker.model.protocol_names import PROTOCOL_NAMES
from broker.model.settings import add_topic_settings
from broker.model.topic_config import TopicConfig
from broker.protocols.base import WireProtocol

PROTOCOLS: tuple[type[WireProtocol], ...] = tuple(
    import_module(f"broker.protocols.{name}.dispatch").PROTOCOL for name in PROTOCOL_NAMES
)
for _each in PROTOCOLS:
    add_topic_settings(_each.topic_settings)


def log_flags(config: TopicConfig) -> int:
    """Return PartitionLog.protocol_flags for the logs of a topic: the bits of all protocols."""
    return reduce(or_, (protocol.log_flags(config) for protocol in PROTOCOLS))

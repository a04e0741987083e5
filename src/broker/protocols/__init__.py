"""The wire protocols: independent packages that translate between their requests and core.

A package has the name of its protocol in broker.model.protocol_names, and a PROTOCOL.
"""

from importlib import import_module

from broker.model.protocol_names import PROTOCOL_NAMES
from broker.protocols.base import WireProtocol

PROTOCOLS: tuple[WireProtocol, ...] = tuple(
    import_module(f"{__name__}.{name}").PROTOCOL for name in PROTOCOL_NAMES
)

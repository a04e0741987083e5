"""The names of the wire protocols, in the one list of them.

The first bytes of a connection are compared in this order (docs/decisions/0003-one-port.md). Each
name is that of a package in broker.protocols. The names are used in logs, metrics and listeners.
"""

from typing import Final

_ON_EVERY_PORT: Final = "http"  # health checks
PROTOCOL_NAMES: Final = (_ON_EVERY_PORT, "v1", "cursus", "rustlog", "kafka")
# The protocols that a listener can be pinned to.
PINNABLE: Final = tuple(name for name in PROTOCOL_NAMES if name != _ON_EVERY_PORT)
# Those of them whose clients can log in; others need a certificate, or a principal of the listener.
_WITHOUT_LOGIN: Final = "v1 rustlog"
WITH_LOGIN: Final = tuple(name for name in PINNABLE if name not in _WITHOUT_LOGIN.split())

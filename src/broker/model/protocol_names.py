"""The names of the wire protocols, in the one list of them.

Native code numbers them in this order (_native/wire/detection); broker.protocols has a PROTOCOL for
each. The names are used in logs, metrics and listeners.
"""

from typing import Final

_ON_EVERY_PORT: Final = "http"  # health checks
PROTOCOL_NAMES: Final = ("kafka", "v1", "rustlog", "cursus", _ON_EVERY_PORT)
# The protocols that a listener can be pinned to.
PINNABLE: Final = tuple(name for name in PROTOCOL_NAMES if name != _ON_EVERY_PORT)

"""Names of transactional ids: those of Kafka's clients as they are, Cursus's behind a prefix.

All live in one coordinator and one log, so Kafka's tools list them all, and none looks like a
hanging transaction. Clients of Kafka are refused ids with the prefix: equal names in two protocols
are two ids.

An open transaction of Cursus does not survive a restart of the broker: its records are only staged
when they are acknowledged, and the broker's memory of them is gone. It is aborted after the load.
"""

from typing import Final

CURSUS: Final = "polylog-cursus:"


def is_reserved(transactional_id: str) -> bool:
    """Whether the id belongs to another protocol than Kafka."""
    return transactional_id.startswith(CURSUS)

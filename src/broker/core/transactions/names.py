"""Whose a transactional id is: Kafka's clients' as it is, another dialect's behind a prefix.

All live in one coordinator and one log, so tools see each, and none is taken for a hanging one
because nobody lists it. A client of Kafka's is refused an id with the prefix: the same name in two
dialects is two ids.

What another dialect has open does not outlive its broker: its records are acknowledged as staged,
not as durable, and what its broker remembered of them is gone. It is aborted once it is loaded.
"""

from typing import Final

CURSUS: Final = "polylog-cursus:"


def is_reserved(transactional_id: str) -> bool:
    """Whether it is another dialect's, and no client of Kafka's may take it."""
    return transactional_id.startswith(CURSUS)

"""The guarantees that a start may be found to have broken."""

from typing import NamedTuple

TRANSACTION = "a transaction is torn"


class Finding(NamedTuple):
    """A broken guarantee."""

    what: str
    where: str

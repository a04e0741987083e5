"""What a start may be found to have broken."""

from typing import NamedTuple

TRANSACTION = "a transaction is torn"


class Finding(NamedTuple):
    """A promise that was broken."""

    what: str
    where: str

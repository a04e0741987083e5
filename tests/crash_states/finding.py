"""The guarantees that a start may be found to have broken."""

from typing import NamedTuple

TRANSACTION = "a transaction is torn"


class Finding(NamedTuple):
    """A broken guarantee."""

    what: str
    where: str


class Outcome(NamedTuple):
    """What a start has recovered."""

    findings: list[Finding]
    lost_as_stated: bool = False  # under `os`, in a power cut: acknowledged records, not yet synced

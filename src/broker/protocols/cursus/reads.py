"""The parameters that CONSUME and STREAM share."""

from typing import Final

from broker.model.limits import CURSUS_CONSUME_RECORDS_MAX
from broker.protocols.cursus import members
from broker.protocols.cursus.errors import refused
from broker.protocols.cursus.grammar import Command, integer

_ISOLATION: Final = {"": True, "read_committed": True, "read_uncommitted": False}


def is_committed(command: Command) -> bool:
    """Return whether the isolation is read_committed; two clients use the longer parameter name."""
    isolation = command.get("isolation") or command.get("isolation_level")
    if isolation not in _ISOLATION:
        raise refused("invalid_isolation", isolation=isolation)
    return _ISOLATION[isolation]


def records_max(command: Command) -> int:
    """Return the maximum number of records in a frame."""
    asked = integer(command.get("batch")) or CURSUS_CONSUME_RECORDS_MAX
    return min(max(asked, 1), CURSUS_CONSUME_RECORDS_MAX)


def member_of(command: Command, group: str) -> tuple[str, int]:
    """Return the member and its generation; an empty member if either is missing."""
    if not command.get("generation"):
        return "", 0
    return command.get("member") if group else "", members.generation_of(command)

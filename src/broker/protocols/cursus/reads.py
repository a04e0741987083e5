"""What CONSUME and STREAM both say of their reader, in the same words."""

from typing import Final

from broker.model.limits import CURSUS_CONSUME_RECORDS_MAX
from broker.protocols.cursus import members
from broker.protocols.cursus.errors import refused
from broker.protocols.cursus.grammar import Command, integer

_ISOLATION: Final = {"": True, "read_committed": True, "read_uncommitted": False}


def is_committed(command: Command) -> bool:
    """Whether only what is committed is read; two clients have a longer name for it."""
    isolation = command.get("isolation") or command.get("isolation_level")
    if isolation not in _ISOLATION:
        raise refused("invalid_isolation", isolation=isolation)
    return _ISOLATION[isolation]


def records_max(command: Command) -> int:
    """How many records a frame may have."""
    asked = integer(command.get("batch")) or CURSUS_CONSUME_RECORDS_MAX
    return min(max(asked, 1), CURSUS_CONSUME_RECORDS_MAX)


def member_of(command: Command, group: str) -> tuple[str, int]:
    """The member and its generation, which count together: a member that is empty is none."""
    if not command.get("generation"):
        return "", 0
    return command.get("member") if group else "", members.generation_of(command)

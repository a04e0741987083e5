"""The parameters of CONSUME and STREAM.

The positional form has no groups; its offset -1 is the end of the log.
"""

from typing import Final, NamedTuple

from broker.core.logs.log import Log
from broker.model.limits import CURSUS_CONSUME_RECORDS_MAX, FETCH_WAIT_MS_MAX
from broker.protocols.cursus.errors import RefusedError
from broker.protocols.cursus.grammar import OFFSETS, Command, generation_of, integer

DEFAULT_GROUP: Final = "default-group"
LATEST: Final = -1
ONLY: Final = "only"  # a parameter of brokers: which of the topics that match a pattern to read
_POSITIONAL: Final = ("topic", "partition", "offset")
_ISOLATION: Final = {"": True, "read_committed": True, "read_uncommitted": False}
_RESETS: Final = frozenset(("", "earliest", "latest", "error"))


class Read(NamedTuple):
    """What a client asks for with CONSUME or STREAM."""

    name: str  # of a topic; for CONSUME it may be a pattern
    partition: int
    offset: int | None  # None: a STREAM was given none
    group: str  # empty: committed offsets are ignored
    is_committed: bool
    is_positional: bool
    records_max: int  # in a frame
    member: str  # if it is a member of the group, it must be of `generation`; empty: none
    generation: int
    wait_ms: int = 0  # of CONSUME: for the first record
    reset: str = ""  # of STREAM: where it starts if no offset is known

    def end_of(self, log: Log) -> int:
        """Return where the records end that may be read."""
        return log.last_stable_offset if self.is_committed else log.high_watermark


def consume_of(command: Command) -> Read:
    """Return the parameters of a CONSUME; raise RefusedError if they are invalid."""
    name, partition = command.get("topic"), integer(command.get("partition"))
    group = "" if command.is_positional else command.get("group") or DEFAULT_GROUP
    if not name or partition is None or not command.get("offset"):
        raise RefusedError("invalid_consume_syntax")
    return Read(
        name,
        partition,
        _offset(command),
        group,
        _is_committed(command),
        command.is_positional,
        _records_max(command),
        *_member(command, group),
        wait_ms=min(max(integer(command.get("wait_ms")) or 0, 0), FETCH_WAIT_MS_MAX),
    )


def consume_text(command: Command) -> str:
    """Return the text of a CONSUME as another broker gets it, to which parameters may be added."""
    first = _POSITIONAL[: len(_POSITIONAL) if command.is_positional else 1]
    texts = (
        [command.get(name) for name in first]
        if command.is_positional
        else [f"{name}={command.get(name)}" for name in first]
    )
    texts += [f"{name}={text}" for name, text in command.args.items() if name not in (*first, ONLY)]
    return " ".join((command.keyword, *texts))


def only_of(command: Command) -> frozenset[str] | None:
    """Return the topics to which a broker limits a pattern, None for all."""
    names = command.get(ONLY)
    return frozenset(names.split(",")) if names else None


def stream_of(command: Command) -> Read:
    """Return the parameters of a STREAM; raise RefusedError if they are invalid."""
    name, partition = command.get("topic"), integer(command.get("partition"))
    group = "" if command.is_positional else command.get("group")
    if not name or partition is None or not (group or command.is_positional):
        raise RefusedError("invalid_stream_syntax")
    is_committed = _is_committed(command)
    reset = command.get("autoOffsetReset")
    if reset not in _RESETS:
        raise RefusedError("invalid_auto_offset_reset", value=reset)
    return Read(
        name,
        partition,
        _offset(command),
        group,
        is_committed,
        command.is_positional,
        _records_max(command),
        *_member(command, group),
        reset=reset,
    )


def _offset(command: Command) -> int | None:
    """Return the offset to start at, None if it is not given."""
    text = command.get("offset")
    if not text:
        return None
    offset = integer(text)
    is_latest = command.is_positional and offset == LATEST
    if offset is None or not (offset in OFFSETS or is_latest):
        raise RefusedError("command_failed", detail=f"invalid offset value: {text}")
    return offset


def _is_committed(command: Command) -> bool:
    """Return whether the isolation is read_committed; two clients use the longer parameter name."""
    isolation = command.get("isolation") or command.get("isolation_level")
    if isolation not in _ISOLATION:
        raise RefusedError("invalid_isolation", isolation=isolation)
    return _ISOLATION[isolation]


def _records_max(command: Command) -> int:
    asked = integer(command.get("batch")) or CURSUS_CONSUME_RECORDS_MAX
    return min(max(asked, 1), CURSUS_CONSUME_RECORDS_MAX)


def _member(command: Command, group: str) -> tuple[str, int]:
    """Return the member and its generation; an empty member if either is missing."""
    if not command.get("generation"):
        return "", 0
    return command.get("member") if group else "", generation_of(command)

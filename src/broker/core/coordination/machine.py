"""The interface between a state machine and its driver (docs/architecture.md).

A machine takes a command and the time, and returns a Decision. It reads no clock, does no I/O and
awaits nothing; its state changes only in `replay`, which the driver calls for each record after
its append, and which also loads it. A request that waits for a reply is an opaque token that the
machine keeps and hands back.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from broker.model import limits

Token: TypeAlias = Hashable
RecordT = TypeVar("RecordT")
RecordT_contra = TypeVar("RecordT_contra", contravariant=True)
ResponseT = TypeVar("ResponseT")


class Moment(NamedTuple):
    """The time of a command: monotonic for deadlines, wall time for what is stored."""

    monotonic_ms: int
    wall_ms: int


class Decision(Generic[RecordT, ResponseT]):
    """The result of a command: records to append, and replies to send once they are durable.

    Replies may answer other requests than the command's: a join that completes a rebalance answers
    all joins, and one that has to wait answers none. Records of a producer's transaction (its id
    and epoch) count when its marker commits them. Notes are log lines that say why; the driver
    writes them when the records are appended.
    """

    __slots__ = ("notes", "records", "replies", "transaction", "weight")

    def __init__(
        self,
        records: Iterable[RecordT] = (),
        replies: Iterable[tuple[Token, ResponseT]] = (),
        transaction: tuple[int, int] | None = None,
        *,
        weight: int = 0,
    ) -> None:
        """Start with these parts; a command adds others.

        `weight`: the cost of a long computation, in decisions of the usual cost.
        """
        self.records = list(records)
        self.replies = list(replies)
        self.transaction = transaction
        self.weight = weight
        self.notes: list[str] = []

    def reply(self, token: Token, response: ResponseT) -> None:
        """Add a reply to a waiting request."""
        self.replies.append((token, response))

    def note(self, event: str, reason: str, **names: object) -> None:
        """Add a log line: the event, whom it concerns, and the reason in words.

        Ids come from clients: they are escaped where they cannot be printed, and shortened.
        """
        fields = [f"{name}={_shown(value)}" for name, value in names.items()]
        self.notes.append(" ".join([event, *fields, f"reason={_printable(reason)}"]))


def _no_record(_key: bytes) -> None:
    """Return no replacement for an unreadable value: the previous record of its key counts."""


class RecordFormat(NamedTuple, Generic[RecordT]):
    """How the records of a machine are encoded in its log.

    Attributes:
        encode: returns the key and value of a record.
        decode: returns the record of a key and value; None: it is of an unknown type. Raises
            CodecError when they cannot be read.
        without_value: returns the record to replay for a key whose value cannot be read, or None.
    """

    encode: Callable[[RecordT], tuple[bytes, bytes | None]]
    decode: Callable[[bytes, bytes | None], RecordT | None]
    without_value: Callable[[bytes], RecordT | None] = _no_record


class PendingRecords(Protocol[RecordT_contra]):
    """Records of open transactions, which count when their producer's marker commits them."""

    def replay_pending(self, producer_id: int, record: RecordT_contra) -> None:
        """Keep a record of a producer's transaction."""

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """Apply the records kept for a producer, or drop them."""


class Machine(Protocol[RecordT_contra]):
    """What a driver needs of a machine in addition to its commands."""

    @property
    def pending(self) -> PendingRecords[RecordT_contra] | None:
        """Where records of transactions go; None: this machine's log has no such records."""

    def replay(self, record: RecordT_contra) -> None:
        """Apply a record."""

    def waiting(self) -> Iterable[Token]:
        """Return the tokens of all requests that the machine has parked."""


def _shown(value: object) -> str:
    text = _printable(str(value))
    return f"'{text}'" if not text or " " in text else text


def _printable(text: str) -> str:
    clipped = text[: limits.NOTE_CHARS_MAX]
    return clipped if clipped.isprintable() else ascii(clipped)[1:-1]

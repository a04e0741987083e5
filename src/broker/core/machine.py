"""What a state machine and its driver say to each other (design.md 2, style.md 1.4).

A machine takes a command and the moment it comes, and returns a Decision. It reads no clock, does
no I/O and awaits nothing; what it remembers changes when the driver has appended the records and
hands each of them to `replay`, which is also how it is loaded. Whoever waits for a reply is a token
that the machine keeps and gives back.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from broker.model import limits

Token: TypeAlias = Hashable
RecordT = TypeVar("RecordT")
RecordT_contra = TypeVar("RecordT_contra", contravariant=True)
ResponseT = TypeVar("ResponseT")


class Moment(NamedTuple):
    """The time of a command: monotonic for every deadline, wall for what is stored."""

    monotonic_ms: int
    wall_ms: int


class Decision(Generic[RecordT, ResponseT]):
    """What follows from a command: records to append, then replies to give once they are durable.

    The replies need not be to the one who asked: a join that completes a rebalance answers all who
    waited for it, and one that has to wait answers nobody yet. Records of a producer's transaction
    (its id and epoch) count when its marker commits them. The notes say why, for people: lines that
    the driver logs when the records are appended.
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
        """Begin with what is known already; a command adds to it.

        `weight`: how many other decisions have taken as long to make, where it was long.
        """
        self.records = list(records)
        self.replies = list(replies)
        self.transaction = transaction
        self.weight = weight
        self.notes: list[str] = []

    def reply(self, token: Token, response: ResponseT) -> None:
        """Answer one who waits."""
        self.replies.append((token, response))

    def note(self, event: str, reason: str, **names: object) -> None:
        """Say why, in one line: what happened to whom, then the reason in words.

        Ids come from clients: what cannot be printed, or is too long, is not written as it is.
        """
        fields = [f"{name}={_shown(value)}" for name, value in names.items()]
        self.notes.append(" ".join([event, *fields, f"reason={_printable(reason)}"]))


def _no_record(_key: bytes) -> None:
    """What stands for a record whose value cannot be read: none, the one before it stays true."""


class RecordFormat(NamedTuple, Generic[RecordT]):
    """How the records of a machine stand in its log.

    Attributes:
        encode: the key and value of a record.
        decode: the record of a key and value; None: it is not one of this machine. Raises
            CodecError when they cannot be read.
        without_value: the record to replay for a key whose value cannot be read; None: none.
    """

    encode: Callable[[RecordT], tuple[bytes, bytes | None]]
    decode: Callable[[bytes, bytes | None], RecordT | None]
    without_value: Callable[[bytes], RecordT | None] = _no_record


class PendingRecords(Protocol[RecordT_contra]):
    """The records of open transactions, which count when their producer's marker commits them."""

    def replay_pending(self, producer_id: int, record: RecordT_contra) -> None:
        """Keep a record of a producer's transaction."""

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """Make true what was kept of a producer, or forget it."""


class Machine(Protocol[RecordT_contra]):
    """What a driver needs of a machine, beside its commands."""

    @property
    def pending(self) -> PendingRecords[RecordT_contra] | None:
        """Where records of transactions go; None: nobody writes such to this machine's log."""

    def replay(self, record: RecordT_contra) -> None:
        """Make true what a record says."""

    def waiting(self) -> Iterable[Token]:
        """Everybody whose request the machine has parked."""


def _shown(value: object) -> str:
    text = _printable(str(value))
    return f"'{text}'" if not text or " " in text else text


def _printable(text: str) -> str:
    clipped = text[: limits.NOTE_CHARS_MAX]
    return clipped if clipped.isprintable() else ascii(clipped)[1:-1]

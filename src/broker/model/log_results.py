"""What the native log returns to Python: the result of an append, and the events of a log."""

from enum import IntEnum, unique
from typing import NamedTuple


@unique
class AppendStatus(IntEnum):
    """Whether a client's batch was appended, and if not, what refused it.

    The names and numbers after a base of 10, 20 and 30 are those of BatchStatus, SequenceStatus and
    LogStatus in native code.
    """

    APPENDED = 0
    DUPLICATE = 1  # it is in the log already
    BATCH_TOO_LARGE = 2  # above max.message.bytes
    TRANSACTION_OPEN = 3  # a plain batch, while its producer has a transaction open
    TRANSACTION_NOT_ADMITTED = 4  # a transactional batch, before its transaction was admitted
    BATCH_EMPTY = 11  # no bytes at all
    BATCH_TRUNCATED = 12
    BATCH_NOT_ALONE = 13  # a second batch follows
    BATCH_MAGIC = 14  # not version 2
    BATCH_CRC = 15
    BATCH_COUNT = 16  # counts, offsets and records do not match
    BATCH_ATTRIBUTES = 17  # an unknown codec, or a control batch
    BATCH_LENGTH = 18  # a length that no batch can have
    BATCH_RECORDS = 19  # a malformed record
    SEQUENCE_OUT_OF_ORDER = 22
    SEQUENCE_FENCED = 23  # an older producer epoch
    SEQUENCE_FULL = 24  # one more producer than may be remembered
    LOG_OFFLINE = 31  # the disk failed, or the partition is deleted
    LOG_LOADING = 33  # its files are not recovered yet
    LOG_FULL = 34  # the disk is full
    LOG_NOT_LED = 35  # another broker leads the partition, or may lead it by now
    LOG_TOO_FEW_REPLICAS = 37  # fewer replicas are in sync than min.insync.replicas


@unique
class LogState(IntEnum):
    """The result of a replica's access to a log; the numbers are those of native LogStatus."""

    OK = 0
    OFFLINE = 1  # the disk failed, or the partition is deleted
    OUT_OF_RANGE = 2  # an offset below the log start or above the log end
    LOADING = 3  # its files are not recovered yet
    FULL = 4  # the disk is full
    NOT_LED = 5  # it has another role, or that of another leader epoch
    TIMED_OUT = 6  # appended, but not on enough replicas in time
    TOO_FEW_REPLICAS = 7  # fewer replicas are in sync than min.insync.replicas
    CORRUPT = 8  # a batch that its leader cannot have sent
    GAP = 9  # a batch that begins before the end of the log
    NOT_REPLICA = 10  # no replica of the partition, or an older process of its broker


class AppendResult(NamedTuple):
    """The result of an append of one batch; offsets are those of the original if it is DUPLICATE.

    The offsets are -1 if the batch is refused.
    """

    status: AppendStatus
    base_offset: int = -1
    end_offset: int = -1  # exclusive; acknowledged once the high watermark is here
    append_time_ms: int = -1  # -1: the records keep their producer's time


@unique
class LogEvent(IntEnum):
    """What happened to a log, in `Turn.events`."""

    ROLLED = 1  # it has a new active segment
    OFFLINE = 2  # its disk failed
    BROKEN = 3  # a reader has found invalid bytes in a sealed segment

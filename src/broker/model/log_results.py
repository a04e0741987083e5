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

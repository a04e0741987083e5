"""Exit codes: what a script can tell from the end of a command.

The numbers up to 8 are those of all commands. `broker start` ends with those of sysexits(3) for
what only it has: no metadata store, a data directory that cannot be used, a failed disk.
"""

import errno
from enum import IntEnum
from typing import Final, Self

from broker.model.errors import (
    AccessDenied,
    ConfigError,
    DataDirError,
    ErrorCode,
    PolylogError,
    RequestError,
    StorageError,
    TimedOut,
    Unreachable,
)


class Exit(IntEnum):
    """The exit codes; each has the sentence of the documentation.

    Attributes:
        meaning: one sentence.
    """

    meaning: str

    def __new__(cls, number: int, meaning: str) -> Self:
        """Take the fields of a row below."""
        member = int.__new__(cls, number)
        member._value_ = number
        member.meaning = meaning
        return member

    OK = (0, "the command did what it was asked")
    FAILED = (1, "it failed, or a check has found problems")
    USAGE = (2, "the command line, a setting or a value is invalid: nothing was done")
    NOT_FOUND = (3, "a topic, a group or another named thing does not exist")
    DENIED = (4, "the login was refused, or the user may not do this")
    UNREACHABLE = (5, "no broker was found at the address")
    TIMED_OUT = (6, "a broker did not answer in time; what was asked may still happen")
    CONFLICT = (7, "it exists already, or its state does not allow this now")
    UNHEALTHY = (8, "the answer is complete: something is not well, or records were deleted unread")
    NO_STORE = (69, "`broker start`: the metadata store has not answered for a minute")
    DEFECT = (70, "a part of the broker (see its log), or the command, has failed: a defect")
    DATA_DIR = (73, "the data directory cannot be used, or another broker uses it")
    STORAGE = (74, "the disk has failed or is full")
    INTERRUPTED = (130, "Ctrl-C (SIGINT) has ended it")


_FULL_OR_BROKEN: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)

_BY_KIND: tuple[tuple[type[PolylogError], Exit], ...] = (
    (ConfigError, Exit.USAGE),
    (AccessDenied, Exit.DENIED),
    (TimedOut, Exit.TIMED_OUT),
    (Unreachable, Exit.UNREACHABLE),
    (DataDirError, Exit.DATA_DIR),
    (StorageError, Exit.STORAGE),
)
_BY_CODE = {
    Exit.NOT_FOUND: (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    ),
    Exit.DENIED: (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.SECURITY_DISABLED,
    ),
    Exit.TIMED_OUT: (ErrorCode.REQUEST_TIMED_OUT,),
    Exit.CONFLICT: (
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.DUPLICATE_RESOURCE,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.ELECTION_NOT_NEEDED,
    ),
    Exit.USAGE: (
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_REQUEST,
    ),
}


def start_exit_code_of(error: PolylogError) -> Exit:
    """Return the exit code of a start that has failed: what it cannot reach is its store."""
    return Exit.NO_STORE if isinstance(error, Unreachable) else exit_code_of(error)


def exit_code_of(error: PolylogError | OSError) -> Exit:
    """Return the exit code of a command that has failed with an error."""
    if isinstance(error, OSError):
        return Exit.STORAGE if error.errno in _FULL_OR_BROKEN else Exit.FAILED
    if isinstance(error, RequestError):
        found = (each for each, codes in _BY_CODE.items() if error.code in codes)
        return next(found, Exit.FAILED)
    return next((code for kind, code in _BY_KIND if isinstance(error, kind)), Exit.FAILED)

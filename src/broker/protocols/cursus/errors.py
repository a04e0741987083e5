"""The mapping of errors to Cursus's: a code, followed by fields or a reason.

    ERROR: topic_not_found topic=t
    ERROR: topic_not_found class=not_found retryable=false topic=t      if negotiated

Clients compare codes, search for some of them anywhere in a response, and split what follows at
spaces. Each code has a class; errors of the classes routing and availability are transient.
"""

from typing import Final

from broker.core.groups.commands.assigned import (
    AssignedCall,
    AssignedError,
    AssignedResponse,
)
from broker.core.logs.log import Log
from broker.model.errors import ErrorCode, PolylogError, RequestError
from broker.model.limits import ERROR_TEXT_CHARS_MAX

_INTERNAL: Final = "internal"
# Class → codes that this broker sends. The class of other codes follows from their prefix or
# suffix, see `class_of`.
_CLASSES: Final[dict[str, frozenset[str]]] = {
    "routing": frozenset(("NOT_LEADER",)),
    "availability": frozenset(
        (
            "coordinator_not_available",
            "leader_not_found",
            "transaction_sync_failed",
            "transaction_commit_failed",
        )
    ),
    "fencing": frozenset(
        (
            "GEN_MISMATCH",
            "NOT_OWNER",
            "member_not_found",
            "producer_fenced",
            "stale_producer_epoch",
        )
    ),
    "conflict": frozenset(
        (
            "OFFSET_OUT_OF_RANGE",
            "offset_regression",
            "producer_reinitialization_required",
            "topic_not_assigned_to_group",
            "version_conflict",
            "snapshot_version_exceeds_stream",
            "group_full",
            "group_in_use",
            "transaction_aborted",
            "transaction_already_committed",
            "transaction_not_abortable",
        )
    ),
    "authorization": frozenset(
        (
            "NOT_AUTHORIZED_FOR_OPERATION",
            "NOT_AUTHORIZED_FOR_TOPIC",
            "internal_topic_write_forbidden",
            "transaction_metadata_forbidden",
            "authentication_failed",
            "authentication_required",
        )
    ),
    "validation": frozenset(
        (
            "unknown_command",
            "decode_failed",
            "batch_decode_failed",
            "malformed_input",
            "event_sourcing_not_enabled",
            "unsupported_topic_policy",
            "duplicate_partition",
            "no_valid_offsets",
            "distribution_required",
            "distribution_not_enabled",
            "UNSUPPORTED_PROTOCOL_VERSION",
            "UNSUPPORTED_FEATURE",
        )
    ),
}
_CLASS_OF: Final = {code: name for name, codes in _CLASSES.items() for code in codes}
_VALIDATION_PREFIXES: Final = ("missing_", "invalid_", "empty_")
_NOT_FOUND: Final = "not_found"
_RETRYABLE_CLASSES: Final = frozenset(("routing", "availability"))
CLASSES: Final = tuple(sorted((*_CLASSES, _INTERNAL, _NOT_FOUND)))


def class_of(code: str) -> str:
    """Return the class of a code."""
    found = _CLASS_OF.get(code)
    if found is not None:
        return found
    if code.startswith(_VALIDATION_PREFIXES):
        return "validation"
    return _NOT_FOUND if code.endswith(f"_{_NOT_FOUND}") else _INTERNAL


class RefusedError(PolylogError):
    """The error response to a command or batch: a code, its fields, and a reason.

    Attributes:
        code: the code.
        rest: the fields, as name=value.
        is_last: the connection is closed after the response.
    """

    def __init__(
        self,
        code: str,
        rest: str = "",
        *,
        detail: str | None = None,
        is_last: bool = False,
        has_class: bool = False,
        **fields: object,
    ) -> None:
        """Keep the response: `rest`, then the fields in the order given.

        A `detail` becomes the field `reason`, quoted, after them. With `has_class` it contains its
        class even if structured errors are not negotiated.
        """
        shown = [rest, *(f"{name}={value}" for name, value in fields.items())]
        if detail is not None:
            shown.append(f"reason={quoted(detail)}")
        self.code = code
        self.rest = " ".join(filter(None, shown))
        self.is_last = is_last
        self._has_class = has_class
        super().__init__(self.text())

    def text(self, *, is_structured: bool = False) -> str:
        """Return the response; `is_structured` adds the class."""
        shown = [f"ERROR: {self.code}"]
        if is_structured or self._has_class:
            kind = class_of(self.code)
            retryable = "true" if kind in _RETRYABLE_CLASSES else "false"
            shown.append(f"class={kind} retryable={retryable}")
        return " ".join(filter(None, (*shown, self.rest)))


_SURROGATES: Final = 0xDC00  # added to a byte that is not UTF-8 (PEP 383)
_ESCAPES: Final = {
    "\\": "\\\\",
    '"': '\\"',
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def quoted(text: str) -> str:
    """Return a text in quotes, escaped as Go's %q does; a long text is truncated."""
    return f'"{"".join(map(_escaped, text[:ERROR_TEXT_CHARS_MAX]))}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    number = ord(character)
    if "\udc80" <= character <= "\udcff":  # a byte that is not UTF-8
        return f"\\x{number - _SURROGATES:02x}"
    if character.isascii():
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if character <= "\uffff" else f"\\U{number:08x}"


# Sent with a code of the class availability, so that clients that know classes retry.
DISK_FULL_TEXT: Final = "the disk is full, try again later"
TOO_FEW_REPLICAS_TEXT: Final = "too few replicas are in sync, try again later"
TOO_LATE_TEXT: Final = "it was not done in time, try again later"
TOO_FEW_REPLICAS: Final = frozenset(
    (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
)
UNAVAILABLE: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


def of_request(error: RequestError, leader: str, code: str = "broker_error") -> RefusedError:
    """Return the error for a RequestError of core, with `code` if it has none of its own.

    `leader` is this broker's address, which NOT_LEADER names while a partition is loading.
    """
    if error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE):
        return RefusedError("NOT_LEADER", f"LEADER_IS {leader}")
    if error.code in UNAVAILABLE:
        return RefusedError("coordinator_not_available")
    if error.code in TOO_FEW_REPLICAS:
        return RefusedError("leader_not_found", detail=TOO_FEW_REPLICAS_TEXT)
    if error.code is ErrorCode.REQUEST_TIMED_OUT:
        return RefusedError("leader_not_found", detail=error.message or TOO_LATE_TEXT)
    if error.code is ErrorCode.DISK_FULL:
        return RefusedError("leader_not_found", detail=DISK_FULL_TEXT)
    text = error.message or error.code.name.lower().replace("_", " ")
    return RefusedError(code, detail=text)


class OutOfRangeError(RefusedError):
    """A read begins at an offset that is not in the log."""

    def __init__(self, log: Log, requested: int) -> None:
        """Name the requested offset, and those that the log has."""
        super().__init__(
            "OFFSET_OUT_OF_RANGE",
            requested=requested,
            earliest=log.log_start_offset,
            latest=log.high_watermark,
        )


_GENERATIONS: Final = "current={response.generation} requested={call.generation}"
_MEMBER: Final = "member={call.member_id}"
_GROUP: Final = "group={call.group_id}"
# The error of each AssignedError; LOADING and UNAVAILABLE are transient, see `checked`.
_OF_GROUP: Final[dict[AssignedError, tuple[str, str]]] = {
    AssignedError.INVALID_NAME: (
        "invalid_name",
        'reason="a group, topic or member is too long, or no text"',
    ),
    AssignedError.OTHER_PROTOCOL: (
        "group_in_use",
        f'{_GROUP} reason="it has live members of another protocol"',
    ),
    AssignedError.FULL: (
        "group_full",
        f'{_GROUP} reason="too many groups, or members in this one"',
    ),
    AssignedError.GROUP_NOT_FOUND: ("group_not_found", _GROUP),
    AssignedError.OTHER_TOPIC: (
        "topic_not_assigned_to_group",
        "expected={response.topic} actual={call.topic}",
    ),
    AssignedError.STALE_GENERATION: (
        "GEN_MISMATCH",
        f"{_GENERATIONS} {_GROUP} {_MEMBER} reason=REBALANCE_REQUIRED",
    ),
    AssignedError.UNKNOWN_MEMBER: ("member_not_found", f"{_MEMBER} {_GROUP}"),
    AssignedError.NOT_ASSIGNED: (
        "NOT_OWNER",
        f"partition={{response.partition}} {_MEMBER} {_GROUP} generation={{response.generation}}",
    ),
    AssignedError.OFFSET_REFUSED: (
        "command_failed",
        'reason="the group has as many committed offsets as it may"',
    ),
}
_TRANSIENT: Final = {
    AssignedError.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    AssignedError.UNAVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


def checked(response: AssignedResponse, call: AssignedCall) -> AssignedResponse:
    """Return the response if it is not an error; otherwise raise RefusedError or RequestError."""
    error = response.error
    if error is AssignedError.NONE:
        return response
    if error in _TRANSIENT:
        raise RequestError(_TRANSIENT[error])
    code, fields = _OF_GROUP[error]
    raise RefusedError(code, fields.format(response=response, call=call))


def without_quotes(text: str) -> str:
    """Return a text for a JSON string that some clients read up to the next quotation mark."""
    return text.replace('"', "'").replace("\\", "/")

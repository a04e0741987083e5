"""The mapping of errors to Cursus's: a code, followed by fields or a reason.

    ERROR: topic_not_found topic=t
    ERROR: topic_not_found class=not_found retryable=false topic=t      if negotiated

Clients compare codes, search for some of them anywhere in a response, and split what follows at
spaces. Each code has a class; errors of the classes routing and availability are transient.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from broker.model.errors import ErrorCode, PolylogError, RequestError
from broker.model.limits import ERROR_TEXT_CHARS_MAX

_INTERNAL: Final = "internal"
# Class → codes. The class of other codes follows from their prefix or suffix, see `class_of`.
_CLASSES: Final[dict[str, frozenset[str]]] = {
    "routing": frozenset(("NOT_COORDINATOR", "NOT_LEADER", "NOT_PARTITION_LEADER")),
    "availability": frozenset(
        (
            "coordinator_not_available",
            "offset_manager_not_available",
            "no_raft_leader",
            "router_not_available",
            "leader_not_found",
            "request_cancelled",
            "transaction_sync_failed",
            "transaction_commit_failed",
        )
    ),
    "fencing": frozenset(
        (
            "GEN_MISMATCH",
            "NOT_OWNER",
            "STALE_LEADER_EPOCH",
            "member_not_found",
            "producer_fenced",
            "stale_producer_epoch",
        )
    ),
    "conflict": frozenset(
        (
            "OFFSET_OUT_OF_RANGE",
            "offset_regression",
            "version_conflict",
            "snapshot_version_exceeds_stream",
            "producer_reinitialization_required",
            "topic_not_assigned_to_group",
            "group_full",
            "group_in_use",
            "transaction_aborted",
            "transaction_already_committed",
            "transaction_not_abortable",
        )
    ),
    "authorization": frozenset(
        (
            "authentication_failed",
            "authentication_required",
            "NOT_AUTHORIZED_FOR_OPERATION",
            "NOT_AUTHORIZED_FOR_TOPIC",
            "internal_topic_write_forbidden",
            "transaction_metadata_forbidden",
        )
    ),
    "validation": frozenset(
        (
            "unknown_command",
            "unsupported_command",
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
_BY_PREFIX: Final = (
    ("missing_", "validation"),
    ("invalid_", "validation"),
    ("empty_", "validation"),
)
_NOT_FOUND: Final = ("_not_found", "not_found")
_RETRYABLE_CLASSES: Final = frozenset(("routing", "availability"))
CLASSES: Final = (
    "authorization",
    "availability",
    "conflict",
    "fencing",
    "internal",
    "not_found",
    "routing",
    "validation",
)


def class_of(code: str) -> str:
    """Return the class of a code."""
    found = _CLASS_OF.get(code)
    if found is not None:
        return found
    for prefix, name in _BY_PREFIX:
        if code.startswith(prefix):
            return name
    suffix, name = _NOT_FOUND
    return name if code.endswith(suffix) else _INTERNAL


def is_retryable(code: str) -> bool:
    """Return whether the same request may succeed later."""
    return class_of(code) in _RETRYABLE_CLASSES


class Refusal(NamedTuple):
    """An error response: the code, and what follows it."""

    code: str
    rest: str = ""
    is_last: bool = False  # the connection is closed after it

    def text(self, *, is_structured: bool = False) -> str:
        """Return the response; `is_structured` adds the class unless `rest` contains it."""
        has_class = self.rest.startswith("class=")
        kind = f" {_structure(self.code)}" if is_structured and not has_class else ""
        return f"ERROR: {self.code}{kind}{f' {self.rest}' if self.rest else ''}"


def _structure(code: str) -> str:
    return f"class={class_of(code)} retryable={'true' if is_retryable(code) else 'false'}"


class RefusedError(PolylogError):
    """A command or batch is answered with an error."""

    def __init__(self, refusal: Refusal) -> None:
        """Keep the error response."""
        super().__init__(refusal.text())
        self.refusal = refusal


def refused(code: str, rest: str = "", **fields: object) -> RefusedError:
    """Return an error with these fields, in the order given."""
    shown = [rest, *(f"{name}={value}" for name, value in fields.items())]
    return RefusedError(Refusal(code, " ".join(filter(None, shown))))


def always_structured(code: str, **fields: object) -> RefusedError:
    """Return an error that has its class even if structured errors are not negotiated."""
    return refused(code, _structure(code), **fields)


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


def reason(code: str, text: str) -> RefusedError:
    """Return an error with the field `reason`, quoted."""
    return refused(code, reason=quoted(text))


# Sent with a code of the class availability, so that clients that know classes retry.
DISK_FULL_TEXT: Final = "the disk is full, try again later"
UNAVAILABLE: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


def of_request(error: RequestError, leader: str, code: str = "broker_error") -> Refusal:
    """Return the error for a RequestError of core, with `code` if it has none of its own.

    `leader` is this broker's address, which NOT_LEADER names while a partition is loading.
    """
    if error.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE):
        return Refusal("NOT_LEADER", f"LEADER_IS {leader}")
    if error.code in UNAVAILABLE:
        return Refusal("coordinator_not_available")
    if error.code is ErrorCode.DISK_FULL:
        return Refusal("leader_not_found", f"reason={quoted(DISK_FULL_TEXT)}")
    text = error.message or error.code.name.lower().replace("_", " ")
    return reason(code, text).refusal


def without_quotes(text: str) -> str:
    """Return a text for a JSON string that some clients read up to the next quotation mark."""
    return text.replace('"', "'").replace("\\", "/")


def comma_separated(items: Iterable[str]) -> str:
    """Return the items separated by commas."""
    return ",".join(items)

"""Parsing of a request's line: its envelope and arguments; formatting of the response's line.

The original server is written in Go: it trims and splits at the white space of `unicode.IsSpace`,
which differs from that of Python's bytes and of its strings. Bytes that are not UTF-8 are kept:
`decoded` maps them to surrogates, and `encoded` maps them back.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias

from broker.core.access import Need
from broker.core.session import Session
from broker.protocols.v1.brokers import Brokers
from broker.protocols.v1.errors import Refusal, bad_request
from broker.protocols.v1.roles import Roles

VERSION: Final = "V1"
NO_ID: Final = "0"  # the correlation id of the response to a line whose envelope is invalid
WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_FIELD: Final = re.compile(f"[^{WHITE_SPACE}]+")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,64}")
_INT64: Final = range(-(1 << 63), 1 << 63)
_PARTS: Final = 4


class Envelope(NamedTuple):
    """The parts of every request line."""

    correlation_id: str
    command: str  # upper case
    args: list[str]


class Request(NamedTuple):
    """A command with an allowed number of arguments, and the state that handlers need."""

    args: list[str]
    session: Session
    roles: Roles
    brokers: Brokers


Payload: TypeAlias = str | list[bytes]  # a list is concatenated; each element may be large
Handler: TypeAlias = Callable[[Request], Awaitable[Payload]]


class Command(NamedTuple):
    """One row of the table of commands."""

    usage: str  # the original's text, sent when the number of arguments is wrong
    arg_counts: range
    handle: Handler
    topic_at: int  # index of the argument that is a topic's name; -1: there is none
    needs: tuple[Need, ...]  # what a client must be allowed


def decoded(line: bytes) -> str:
    """Decode a line; bytes that are not UTF-8 become surrogates."""
    return line.decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    """Encode a text of `decoded` to the bytes that it came from."""
    return text.encode("utf-8", "surrogateescape")


def parse(line: bytes) -> Envelope:
    """Parse a line without its newline; raise RefusedError if it is invalid."""
    parts = [each.strip(WHITE_SPACE) for each in decoded(line).split("|", _PARTS - 1)]
    if len(parts) != _PARTS:
        raise bad_request("expected format V1|<correlation_id>|<command>|<args>")
    version, correlation_id, command, args = parts
    if version != VERSION:
        raise bad_request("unsupported version")
    if not correlation_id:
        raise bad_request("correlation id required")
    if not command:
        raise bad_request("command required")
    # Only ASCII is upper-cased: a dotless i, for example, would otherwise become an ASCII I.
    capital = command.upper() if command.isascii() else command
    return Envelope(correlation_id, capital, _FIELD.findall(args))


def integer(text: str, field: str) -> int:
    """Parse a signed 64-bit integer as Go's strconv.Atoi does; RefusedError names the field."""
    if _INTEGER.fullmatch(text) and (number := int(text)) in _INT64:
        return number
    raise bad_request(f"invalid {field}")


def name(text: str, field: str) -> str:
    """Return a name that will be stored; RefusedError if it is not UTF-8.

    Other protocols return it in fields that must be valid text.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise bad_request(f"invalid {field}: it is not UTF-8") from None
    return text


def numbers(values: list[int] | tuple[int, ...]) -> str:
    """Format integers as Go formats a slice: [0 1 2]."""
    return f"[{' '.join(map(str, values))}]"


def boolean(value: bool) -> str:  # noqa: FBT001 (the value to format)
    """Return "true" or "false"."""
    return "true" if value else "false"


def ok_line(correlation_id: str, payload: Payload) -> bytes:
    """Return the response line of a command that succeeded; without a payload it ends after OK."""
    pieces = [encoded(payload)] if isinstance(payload, str) else payload
    head = encoded(f"V1|{correlation_id}|OK{'|' if payload else ''}")
    return b"".join([head, *pieces, b"\n"])


def error_line(correlation_id: str, refusal: Refusal) -> bytes:
    """Return the response line of a command that failed."""
    return encoded(f"V1|{correlation_id}|ERR|{refusal.code.value}|{refusal.text}\n")

"""A request's line: its envelope, its command's arguments, by the rules of the original's language.

Go trims and splits at Unicode's white space as of `unicode.IsSpace`, which is neither that of
Python's bytes nor of its strings. Bytes that are no UTF-8 pass through untouched: they are kept as
surrogates, and `encoded` makes them bytes again.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias

from broker.core.session import Session
from broker.protocols.v1.brokers import Brokers
from broker.protocols.v1.errors import Refusal, bad_request
from broker.protocols.v1.replicas import Replicas

VERSION: Final = "V1"
NO_ID: Final = "0"  # of an answer to a line whose envelope is wrong
WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_FIELD: Final = re.compile(f"[^{WHITE_SPACE}]+")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,64}")
_INT64: Final = range(-(1 << 63), 1 << 63)
_PARTS: Final = 4


class Envelope(NamedTuple):
    """What every line has."""

    correlation_id: str
    command: str  # in capitals
    args: list[str]


class Request(NamedTuple):
    """A command that has as many arguments as it may."""

    args: list[str]
    session: Session
    replicas: Replicas
    brokers: Brokers


Payload: TypeAlias = str | list[bytes]  # bytes: pieces of it, each of which may be large
Handler: TypeAlias = Callable[[Request], Awaitable[Payload]]


class Command(NamedTuple):
    """One row of the table of commands."""

    usage: str  # as the original says it to who has it wrong
    arg_counts: range
    handle: Handler


def decoded(line: bytes) -> str:
    """The text of a line, whatever its bytes."""
    return line.decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    """The bytes of a text, as they came."""
    return text.encode("utf-8", "surrogateescape")


def parse(line: bytes) -> Envelope:
    """Read a line without its newline; RefusedError says what is wrong with it."""
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
    # No command has a letter that is capital in ASCII only by way of another alphabet.
    capital = command.upper() if command.isascii() else command
    return Envelope(correlation_id, capital, _FIELD.findall(args))


def integer(text: str, field: str) -> int:
    """A whole number of 64 bits, as Go's strconv.Atoi reads one."""
    if _INTEGER.fullmatch(text) and (number := int(text)) in _INT64:
        return number
    raise bad_request(f"invalid {field}")


def name(text: str, field: str) -> str:
    """A name that is kept: it has to be text, for everybody who is shown it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise bad_request(f"invalid {field}: it is not UTF-8") from None
    return text


def numbers(values: list[int] | tuple[int, ...]) -> str:
    """A list as the original writes one: [0 1 2]."""
    return f"[{' '.join(map(str, values))}]"


def boolean(value: bool) -> str:  # noqa: FBT001 (what it writes)
    """True or false."""
    return "true" if value else "false"


def ok_line(correlation_id: str, payload: Payload) -> bytes:
    """The answer of a command that was served; without a payload it ends behind OK."""
    pieces = [encoded(payload)] if isinstance(payload, str) else payload
    head = encoded(f"V1|{correlation_id}|OK{'|' if payload else ''}")
    return b"".join([head, *pieces, b"\n"])


def error_line(correlation_id: str, refusal: Refusal) -> bytes:
    """The answer of a command that was not."""
    return encoded(f"V1|{correlation_id}|ERR|{refusal.code.value}|{refusal.text}\n")

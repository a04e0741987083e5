r"""The format language of -f, rpk's.

    %t topic   %p partition   %o offset   %d timestamp in ms   %k key   %v value   %h headers
    %K %V %H   sizes in bytes of key and value, number of headers; -1 for a null
    %% \n \t \r \\ \xFF

A modifier follows in braces: %k{hex} %v{base64} %d{%Y-%m-%dT%H:%M:%S} (strftime, UTC), and
%h{%k=%v } is repeated for each header. Without one, the bytes are written as they are.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from os import fsencode
from typing import Final

from broker.client.reading import Read
from broker.model.errors import ConfigError

Piece = Callable[[Read], bytes]

_ESCAPE: Final = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|.)", re.DOTALL)
_ESCAPES: Final = {"\\n": b"\n", "\\t": b"\t", "\\r": b"\r", "\\\\": b"\\", "\\0": b"\0"}
_NUMBERS: Final[dict[str, Callable[[Read], object]]] = {
    "t": lambda read: read.topic,
    "p": lambda read: read.partition,
    "o": lambda read: read.record.offset,
    "K": lambda read: _size(read.record.key),
    "V": lambda read: _size(read.record.value),
    "H": lambda read: len(read.record.headers),
}
_ENCODINGS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "": lambda value: value,
    "hex": lambda value: value.hex().encode(),
    "base64": b64encode,
}


def record_format(text: str) -> Piece:
    """Return a function that formats a record; ConfigError if the format is invalid."""
    pieces = _pieces(text)

    def write(read: Read) -> bytes:
        return b"".join(each(read) for each in pieces)

    return write


def delimiter(text: str) -> bytes:
    r"""Return the bytes of a delimiter, in which \t, \n and \xFF are escapes."""
    return b"".join(each(_NOTHING) for each in _pieces(text.replace("%", "%%")))


def _pieces(text: str) -> Sequence[Piece]:
    pieces: list[Piece] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            found = _ESCAPE.match(text, position)
            if found is None:
                raise ConfigError(f"{text!r}: a backslash at the end")
            pieces.append(_constant(_escaped(found[0])))
            position = found.end()
        elif character == "%":
            position = _field(text, position + 1, pieces)
        else:
            pieces.append(_constant(fsencode(character)))
            position += 1
    return pieces


def _escaped(text: str) -> bytes:
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    if text not in _ESCAPES:
        raise ConfigError(f"{text}: expected one of {' '.join(_ESCAPES)} and \\xFF")
    return _ESCAPES[text]


def _field(text: str, position: int, pieces: list[Piece]) -> int:
    """Add the piece of a field, and return the position after it."""
    name = text[position : position + 1]
    end = position + 1
    modifier = ""
    if text[end : end + 1] == "{":
        close = _closing(text, end)
        modifier, end = text[end + 1 : close], close + 1
    if name == "%":
        pieces.append(_constant(b"%"))
        return position + 1
    if name in _NUMBERS and not modifier:
        function = _NUMBERS[name]
        pieces.append(lambda read: str(function(read)).encode())
    elif name in {"k", "v"} and modifier in _ENCODINGS:
        encode, is_key = _ENCODINGS[modifier], name == "k"
        pieces.append(
            lambda read: encode((read.record.key if is_key else read.record.value) or b"")
        )
    elif name == "d":
        pieces.append(lambda read: _time(read.record.timestamp, modifier).encode())
    elif name == "h":
        pieces.append(_headers(modifier or "%k=%v "))
    else:
        braces = f"{{{modifier}}}" if modifier else ""
        raise ConfigError(f"%{name}{braces} is no field of a record: see --help")
    return end


def _closing(text: str, opened: int) -> int:
    depth = 0
    for index in range(opened, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if not depth:
            return index
    raise ConfigError(f"{text!r}: a brace is not closed")


def _headers(text: str) -> Piece:
    pieces = _pieces(text)

    def write(read: Read) -> bytes:
        parts = []
        for name, value in read.record.headers:
            header = _Header(name, value)
            parts += [each(Read(read.topic, read.partition, header)) for each in pieces]  # type: ignore[arg-type]
        return b"".join(parts)

    return write


class _Header:
    """A header in the place of a record: its name is the key."""

    offset = timestamp = -1
    headers: Sequence[tuple[bytes, bytes | None]] = ()

    def __init__(self, key: bytes, value: bytes | None) -> None:
        self.key = key
        self.value = value


_NOTHING: Final = Read("", 0, _Header(b"", None))  # type: ignore[arg-type]


def _constant(value: bytes) -> Piece:
    return lambda _: value


def _size(value: bytes | None) -> int:
    return -1 if value is None else len(value)


def _time(timestamp_ms: int, modifier: str) -> str:
    if not modifier:
        return str(timestamp_ms)
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime(modifier)
    except (OverflowError, ValueError, OSError):  # a client may give any number
        return str(timestamp_ms)

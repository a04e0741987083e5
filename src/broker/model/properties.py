r"""Java's properties files, in which Kafka's brokers and clients are configured.

    # a comment, as after !
    num.partitions=3
    log.dirs : /var/lib/kafka
    super.users = User:admin;\
                  User:broker

A line ends a property unless a backslash is its last character; the blanks at the beginning of the
next one are not part of the value then. The first =, : or blank that has no backslash before it
ends the name. As in Java, `\t \n \r \f \uXXXX` are characters, any other backslash only hides what
the next character means, and the last of several values of a name counts. Files are UTF-8.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from broker.model.errors import ConfigError

_BLANKS = " \t\f"
_NAME = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)?", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """A name, its value, and the number of the line on which it begins."""

    name: str
    text: str
    line: int


def read_properties(text: str) -> list[Property]:
    """Return the properties of a file, in order, also those that a later one replaces.

    Raises ConfigError, which begins with the number of the line.
    """
    return [_property(line, number) for number, line in _logical_lines(text)]


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each property's text, without comments and empty lines, and where it begins."""
    begun: list[str] = []
    first = 0
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        part = line.lstrip(_BLANKS)
        if not any(begun):  # also after a backslash alone
            if not part or part[0] in "#!":
                continue
            first = number
        backslashes = len(part) - len(part.rstrip("\\"))
        if backslashes % 2:
            begun.append(part[:-1])
            continue
        yield first, "".join([*begun, part])
        begun = []
    if any(begun):
        yield first, "".join(begun)


def _property(line: str, number: int) -> Property:
    found = _NAME.fullmatch(line)
    if found is None:
        raise ConfigError(f"{number}: a name cannot end in a backslash")
    name, text = found.groups()
    return Property(_unescaped(name, number), _unescaped(text, number), number)


def _unescaped(text: str, number: int) -> str:
    def character(found: re.Match[str]) -> str:
        escaped = found[1] or ""
        if escaped == "u":
            raise ConfigError(f"{number}: \\u is followed by four hexadecimal digits")
        if len(escaped) > 1:
            return chr(int(escaped[1:], 16))
        return _CONTROLS.get(escaped, escaped)

    if "\\" not in text:
        return text
    try:
        # Java writes a character beyond 16 bits as two, of which each alone is none.
        return _ESCAPE.sub(character, text).encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ConfigError(f"{number}: \\u is followed by one half of a character") from None

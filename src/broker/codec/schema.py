"""Kafka's message schemas, by API key or name: decode bytes to dictionaries and encode them.

messages.txt has the definitions; its first lines explain the notation. Importing this module only
splits that text into blocks (a third of a millisecond). A message is parsed when it is first used,
and compiled for a version when that version is first used. The compiled form is executed by native
code (broker._native.messages.schema*).

    >>> request(3).versions
    range(0, 14)
    >>> body = request(3).encode(1, {"topics": [{"name": "a"}]})
    >>> value, end = request(3).decode(1, body)
    >>> value["topics"][0]["name"], end == len(body)
    ('a', True)

Values are dict, list, int, float, bool, str, bytes and None under the names of messages.txt; a
uuid is 16 bytes. A decoded dictionary has every field; fields of other versions have their default.
In a dictionary to be encoded a missing field means its default; fields of other versions are
ignored.
"""

import os
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from broker._native.messages.decoder import Decoding, decode
from broker._native.messages.encoder import Encoding, encode
from broker._native.messages.schema import Field, Program, Struct
from broker.model import limits
from broker.model.errors import Unsupported

if TYPE_CHECKING:
    from typing_extensions import Buffer

Fields: TypeAlias = dict[str, Any]

_NO_VERSIONS = range(0)
_API_VERSIONS_KEY = 18
_CONTROLLED_SHUTDOWN_KEY = 7
# The default of a field when messages.txt has none; of integers: 0.
_DEFAULTS: dict[str, object] = {
    "bool": False,
    "bytes": b"",
    "float64": 0.0,
    "records": None,
    "string": "",
    "uuid": bytes(16),
    "{}": {},
}


class Definition(NamedTuple):
    """A field as messages.txt defines it, for all versions of its message."""

    name: str
    type: str
    versions: range
    nullable: range
    tag: int | None
    default: object
    is_plain: bool
    fields: "list[Definition]"


class Message:
    """One request, response, header or record in all its versions."""

    def __init__(self, kind: str, name: str, api_key: int | None, versions: str, text: str) -> None:
        """Create a message, parsed when used; `versions` ends the block's first line."""
        valid, _, flexible = versions.partition(" flex ")
        self.kind = kind
        self.name = name
        self.api_key = api_key
        self.versions = _versions(valid, _NO_VERSIONS)
        self.flexible = _versions(flexible, self.versions) if flexible else _NO_VERSIONS
        self._text = text
        self._programs: dict[int, Program] = {}

    def __repr__(self) -> str:
        """Return the name and versions, as error messages show them."""
        return f"<Message {self.name} {self.versions.start}-{self.versions.stop - 1}>"

    @property
    def first_flexible(self) -> int | None:
        """The first version with compact lengths and tagged fields (KIP-482), or None."""
        return self.flexible.start if self.flexible else None

    @cached_property
    def fields(self) -> list[Definition]:
        """The fields of all versions, in wire order."""
        return _parse(self._text, self.versions)

    def is_flexible(self, version: int) -> bool:
        """Return whether a version has compact lengths and tagged fields."""
        return version in self.flexible

    def program(self, version: int) -> Program:
        """Return the compiled form of a version for the native codec.

        Raises:
            Unsupported: there is no such version.
        """
        program = self._programs.get(version)
        if program is None:
            if version not in self.versions:
                raise Unsupported(f"expected {self!r}, got version {version}")
            root = _compile(self.fields, version, is_flexible=self.is_flexible(version))
            program = self._programs[version] = Program(f"{self.name} v{version}", root)
        return program

    def decode(
        self,
        version: int,
        data: "Buffer",
        offset: int = 0,
        weight_max: int = limits.MESSAGE_WEIGHT_MAX,
        *,
        as_views: bool = False,
    ) -> tuple[Fields, int]:
        """Decode the message at a position of a buffer; return it with the position of its end.

        Args:
            version: of the message.
            data: the buffer.
            offset: the position of the message's first byte.
            weight_max: the limit for its arrays, in the units of limits.MESSAGE_WEIGHT_MAX.
            as_views: return bytes fields as memoryviews of the buffer instead of copies.

        Raises:
            CodecError: the bytes are not such a message, or there is no such version.
        """
        return decode(self.program(version), data, offset, weight_max, as_views=as_views)

    def encode(
        self, version: int, value: Mapping[str, object], errors: dict[int, int] | None = None
    ) -> bytes:
        """Return the bytes of the message.

        Args:
            version: of the message.
            value: its fields.
            errors: how often it has each error code, other than 0, is added to this.

        Raises:
            ValueError: a value has the wrong type, or a name is not that of a field.
            Unsupported: there is no such version.
        """
        return encode(self.program(version), value, errors)

    def decoding(
        self, version: int, data: bytes, weight_max: int = limits.MESSAGE_WEIGHT_MAX
    ) -> Decoding:
        """Return an object that decodes a message in steps; arguments and errors as in `decode`."""
        return Decoding(self.program(version), data, weight_max)

    def encoding(
        self, version: int, value: Mapping[str, object], errors: dict[int, int] | None = None
    ) -> Encoding:
        """Return an object that encodes a message in steps; arguments and errors as in `encode`.

        The dictionary must not change until the last step. Its lists of structs are emptied while
        they are encoded, so they must not be shared.
        """
        return Encoding(self.program(version), value, errors)


def request(api_key: int) -> Message:
    """Return the schema of a request body.

    Raises:
        Unsupported: there is no such key.
    """
    return _read_api(api_key)[0]


def response(api_key: int) -> Message:
    """Return the schema of a response body.

    Raises:
        Unsupported: there is no such key.
    """
    return _read_api(api_key)[1]


@cache
def record(name: str) -> Message:
    """Return the schema of a header, embedded data, or a coordinator's key or value.

    The name is Kafka's, such as "OffsetCommitKey".

    Raises:
        ValueError: there is no schema of that name.
    """
    block = _record_blocks.get(name)
    if block is None:
        raise ValueError(f"there is no record named {name!r}")
    head, _, body = block.partition("\n")
    before, _, versions = head.partition(f" {name} ")
    kind, _, key = before.partition(" ")
    return Message(kind, name, int(key) if key else None, versions, body)


def messages() -> Iterator[Message]:
    """Yield the schemas of all messages."""
    yield from map(request, API_KEYS)
    yield from map(response, API_KEYS)
    yield from records()


def records() -> Iterator[Message]:
    """Yield the schemas of headers, embedded data, and coordinators' keys and values."""
    yield from map(record, _record_blocks)


def request_header_version(api_key: int, version: int) -> int:
    """Return the version of a request's header; it has tagged fields if the request is flexible."""
    if api_key == _CONTROLLED_SHUTDOWN_KEY and version == 0:
        return 0  # the only request whose header has no client id
    return 2 if request(api_key).is_flexible(version) else 1


def response_header_version(api_key: int, version: int) -> int:
    """Return the version of a response's header; it has tagged fields if the response is flexible.

    The header of ApiVersions never has them, so that a client can read it in any version (KIP-511).
    """
    return int(api_key != _API_VERSIONS_KEY and response(api_key).is_flexible(version))


def _versions(text: str, within: range) -> range:
    """Read `3`, `0-2` (both included) or `3+` (to the end of `within`)."""
    if text.endswith("+"):
        return range(int(text[:-1]), within.stop)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _parse(text: str, versions: range) -> list[Definition]:
    """Parse lines of fields; a field belongs to the last line before it with less indentation."""
    top: list[Definition] = []
    enclosing = [(-1, top, versions)]
    for line in text.splitlines():
        if not line:
            continue
        depth = len(line) - len(line.lstrip())
        while enclosing[-1][0] >= depth:
            enclosing.pop()
        definition = _parse_field(line, enclosing[-1][2])
        enclosing[-1][1].append(definition)
        enclosing.append((depth, definition.fields, definition.versions))
    return top


def _parse_field(line: str, versions: range) -> Definition:
    name, shape, *words = line.split()
    kind, question, null_versions = shape.partition("?")
    tag, default = None, ""
    for word in words:
        if word[0] == "#":
            tag = int(word[1:])
        elif word[0] == "=":
            default = word[1:]
        elif word[0].isdigit():
            versions = _versions(word, versions)
    nullable = _versions(null_versions, versions) if null_versions else versions
    return Definition(
        name=name,
        type=kind,
        versions=versions,
        nullable=nullable if question else _NO_VERSIONS,
        tag=tag,
        default=_parse_default(kind, default),
        is_plain="plain" in words,
        fields=[],
    )


def _parse_default(kind: str, text: str) -> object:
    if text == "null":
        return None
    if kind.startswith("[]"):
        return []
    if text:
        return text == "true" if kind == "bool" else int(text)
    return _DEFAULTS.get(kind, 0)


def _compile(definitions: list[Definition], version: int, *, is_flexible: bool) -> Struct:
    fields: list[Field] = []
    tagged: list[tuple[int, Field]] = []
    absent: list[Field] = []
    for definition in definitions:
        field = Field(
            definition.name,
            definition.type,
            is_nullable=version in definition.nullable,
            is_compact=is_flexible and not definition.is_plain,
            tag=definition.tag or 0,
            default=definition.default,
            struct=_compile(definition.fields, version, is_flexible=is_flexible)
            if definition.fields
            else None,
        )
        if version not in definition.versions:
            absent.append(field)
        elif definition.tag is None:
            fields.append(field)
        else:
            tagged.append((definition.tag, field))
    ascending = [field for _, field in sorted(tagged, key=lambda pair: pair[0])]
    return Struct(fields, ascending, absent, is_flexible=is_flexible)


@cache
def _read_api(api_key: int) -> tuple[Message, Message]:
    block = _api_blocks.get(api_key)
    if block is None:
        raise Unsupported(f"expected an API key from 0 to {max(API_KEYS)}, got {api_key}")
    head, _, body = block.partition("\n")
    _, _, name, versions = head.split(" ", 3)
    request_fields, _, response_fields = f"\n{body}".partition("\n  response")
    request_fields = request_fields.removeprefix("\n  request")
    return (
        Message("request", f"{name}Request", api_key, versions, request_fields),
        Message("response", f"{name}Response", api_key, versions, response_fields),
    )


def _read_table() -> None:
    # pathlib would take a third of the time to import the codec.
    path = os.path.join(os.path.dirname(__file__), "messages.txt")  # noqa: PTH118, PTH120
    with open(path, encoding="utf-8") as table:  # noqa: PTH123
        text = table.read()
    for block in text.strip().split("\n\n")[1:]:
        kind, *words = block[: block.index("\n")].split(" ", 3)
        if kind == "api":
            API_KEYS[int(words[0])] = words[1]
            _api_blocks[int(words[0])] = block
        else:
            _record_blocks[words[kind in {"key", "value"}]] = block


API_KEYS: dict[int, str] = {}
_api_blocks: dict[int, str] = {}
_record_blocks: dict[str, str] = {}
_read_table()

"""Print src/broker/codec/bodies.py: the types of message bodies, from messages.txt.

A test compares the file with what this prints:

    .venv/bin/python -m tools.bodies > src/broker/codec/bodies.py
"""

import sys
from collections.abc import Iterator
from typing import Final, TypeAlias

from broker.codec import schema
from broker.codec.schema import Definition, Message
from broker.protocols.kafka.table import APIS

_HEAD: Final = '''"""The bodies of requests and responses of the served APIs, for a type checker.

Written by tools/bodies.py from messages.txt. Import it under TYPE_CHECKING only: a program that
runs does not need it, and defining the classes takes more than ten milliseconds.

A decoded body has every field, in every version. In a body to be encoded, a field may be left out
if it is NotRequired: it has a default of its own, or some versions lack it. The comment says which
versions have a field; in others it is ignored. A class is named by its message and by the field
that has the struct.
"""

from typing import NotRequired, TypedDict
'''
_LINE_MAX: Final = 100
_SCALARS: Final = {
    "bool": "bool",
    "bytes": "bytes",
    "float64": "float",
    "records": "bytes",
    "string": "str",
    "uuid": "bytes",
}
# This broker does not throttle: no handler sets it, although newer APIs have it in every version.
_THROTTLE_TIME: Final = "throttle_time_ms"
_Shape: TypeAlias = "tuple[tuple[str, _Shape], ...]"


def text() -> str:
    """Return the content of the module."""
    messages = [each for key in APIS for each in (schema.request(key), schema.response(key))]
    return "\n\n".join([_HEAD, *(each for message in messages for each in _classes(message))])


def _classes(message: Message) -> Iterator[str]:
    """Yield the classes of a message, each after those that it uses."""
    title = message.name
    shapes: dict[str, set[_Shape]] = {}
    for struct in _structs(message.fields):
        shapes.setdefault(struct.name, set()).add(_shape(struct))
    written = set()

    def prefix(field: Definition, parent: str) -> str:
        """Return whose field it is: the message's, unless others have another of this name."""
        return parent if len(shapes.get(field.name, ())) > 1 else title

    def walk(fields: list[Definition], name: str, doc: str, versions: range) -> Iterator[str]:
        if name in written:
            return
        written.add(name)
        lines = [f"class {name}(TypedDict):", f'    """{doc}"""', ""]
        for field in fields:
            whose = prefix(field, name)
            struct = whose + _camel_case(field)
            lines.append(_line(field, struct, versions))
            if field.fields:
                what = "One of" if field.type.startswith("[]") else "The value of"
                of_field = f"{what} `{field.name}` in {whose}."
                yield from walk(field.fields, struct, of_field, field.versions)
        yield "\n".join(lines).rstrip() + "\n"

    versions = message.versions
    doc = f"A {message.kind} of API {message.api_key}, versions {_span(versions)}."
    yield from walk(message.fields, title, doc, versions)


def _shape(struct: Definition) -> _Shape:
    """Return what the class of a struct depends on."""
    return tuple(
        (_line(field, "", struct.versions), _shape(field) if field.fields else ())
        for field in struct.fields
    )


def _structs(fields: list[Definition]) -> Iterator[Definition]:
    for field in fields:
        if field.fields:
            yield field
            yield from _structs(field.fields)


def _line(field: Definition, struct: str, versions: range) -> str:
    """Return the line of a field in a struct that some versions of the message have."""
    kind = field.type.removeprefix("[]")
    of_value = struct if field.fields else _SCALARS.get(kind, "int")
    if field.type.startswith("[]"):
        of_value = f"list[{of_value}]"
    if field.nullable:
        of_value += " | None"
    is_everywhere = field.versions == versions
    if not is_everywhere or _has_default(field) or field.name == _THROTTLE_TIME:
        of_value = f"NotRequired[{of_value}]"
    line = f"    {field.name}: {of_value}"
    if is_everywhere:
        return line
    comment = f"  # {_span(field.versions)}"
    if len(line + comment) <= _LINE_MAX:
        return line + comment
    start, _, rest = line.partition("[")
    return f"{start}[{comment}\n        {rest[:-1]}\n    ]"


def _has_default(field: Definition) -> bool:
    """Return whether messages.txt gives a default, or a field is not sent if it has its default."""
    implied: tuple[object, ...] = (
        (0, "", b"", bytes(16), [], {}) if field.type != "records" else (None,)
    )
    return field.tag is not None or field.default not in implied


def _span(versions: range) -> str:
    first, last = versions.start, versions.stop - 1
    return str(first) if first == last else f"{first}-{last}"


def _camel_case(field: Definition) -> str:
    """Return a field's name for its struct: that of one element, if it is an array."""
    name = field.name
    if field.type.startswith("[]") and not name.endswith("ss"):
        name = f"{name[:-3]}y" if name.endswith("ies") else name.removesuffix("s")
    return "".join(word.capitalize() for word in name.split("_"))


if __name__ == "__main__":
    sys.stdout.write(text())

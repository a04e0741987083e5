"""What a certificate or a revocation list (X.509, DER) says that this broker uses.

The names are read here and not taken from `SSLObject.getpeercert()`, which loses how they are
encoded: a principal must be the name that Java prints, which ACLs written for Kafka have.

    Certificate ::= SEQUENCE { tbsCertificate, ... }
    tbsCertificate ::= SEQUENCE { [0] version?, serial, algorithm, issuer, validity, subject, key,
                                  [1]?, [2]?, [3] extensions? }

    CertificateList ::= SEQUENCE { tbsCertList, ... }
    tbsCertList ::= SEQUENCE { version?, algorithm, issuer, thisUpdate, nextUpdate?, revoked?, ... }
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from broker.model.errors import Corrupt
from broker.model.tls_limits import CERTIFICATE_NAME_CHARS_MAX

_SEQUENCE, _SET, _OID, _OCTETS, _INTEGER = 0x30, 0x31, 0x06, 0x04, 0x02
_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
_VERSION, _EXTENSIONS = 0xA0, 0xA3
_ALTERNATIVE_NAMES = bytes([0x55, 0x1D, 0x11])
# RFC 2253, section 2.3: the types of attributes that have a keyword.
_KEYWORDS = {
    bytes([0x55, 0x04, 0x03]): "CN",
    bytes([0x55, 0x04, 0x07]): "L",
    bytes([0x55, 0x04, 0x08]): "ST",
    bytes([0x55, 0x04, 0x0A]): "O",
    bytes([0x55, 0x04, 0x0B]): "OU",
    bytes([0x55, 0x04, 0x06]): "C",
    bytes([0x55, 0x04, 0x09]): "STREET",
    bytes([0x09, 0x92, 0x26, 0x89, 0x93, 0xF2, 0x2C, 0x64, 0x01, 0x19]): "DC",
    bytes([0x09, 0x92, 0x26, 0x89, 0x93, 0xF2, 0x2C, 0x64, 0x01, 0x01]): "UID",
}
# Types of text, and how it is encoded.
_TEXTS = {
    0x0C: "utf-8",
    0x13: "ascii",  # PrintableString
    0x14: "latin-1",  # TeletexString
    0x16: "ascii",  # IA5String
    0x1B: "ascii",  # GeneralString
    0x1E: "utf-16-be",  # BMPString
}
_ESCAPED = ',+"\\<>;'
_LONG_LENGTH_BYTES_MAX = 4


class Certificate(NamedTuple):
    """The subject as RFC 2253 writes it, the end of validity, the alternative names (DER)."""

    subject: str
    expires: datetime
    alternative_names: frozenset[bytes]


class RevocationList(NamedTuple):
    """From when to when a list of revoked certificates counts."""

    issued: datetime
    expires: datetime | None  # None: it says nothing about the next one


class _Element(NamedTuple):
    tag: int
    content: bytes
    whole: bytes


def parse_certificate(der: bytes) -> Certificate:
    """Parse a certificate; Corrupt if it is none, or its subject is longer than is taken."""
    fields = _signed_fields(der)
    if fields and fields[0].tag == _VERSION:
        del fields[0]
    if len(fields) < 6:  # noqa: PLR2004 - up to the key
        raise Corrupt("a certificate lacks fields")
    _, _, _, validity, subject, _, *more = fields
    names: frozenset[bytes] = frozenset()
    for field in more:
        if field.tag == _EXTENSIONS:
            names = _alternative_names(field.content)
    _, not_after = _elements(_content(validity, _SEQUENCE), 2)
    return Certificate(_name(_content(subject, _SEQUENCE)), _time(not_after), names)


def parse_revocation_list(der: bytes) -> RevocationList:
    """Parse the head of a list; Corrupt if it is none."""
    fields = _signed_fields(der)
    if fields and fields[0].tag == _INTEGER:
        del fields[0]
    if len(fields) < 3:  # noqa: PLR2004 - up to the time of issue
        raise Corrupt("a revocation list lacks fields")
    _, _, issued, *more = fields
    has_end = bool(more) and more[0].tag in {_UTC_TIME, _GENERALIZED_TIME}
    return RevocationList(_time(issued), _time(more[0]) if has_end else None)


def _signed_fields(der: bytes) -> list[_Element]:
    """Return the fields of what is signed."""
    (signed,) = _elements(der, 1)
    content = next(_elements(_content(signed, _SEQUENCE)), None)
    return [] if content is None else list(_elements(_content(content, _SEQUENCE)))


def _alternative_names(content: bytes) -> frozenset[bytes]:
    (extensions,) = _elements(content, 1)
    for extension in _elements(_content(extensions, _SEQUENCE)):
        kind, *_, value = _elements(_content(extension, _SEQUENCE))
        if kind.content == _ALTERNATIVE_NAMES:
            (names,) = _elements(_content(value, _OCTETS), 1)
            return frozenset(each.whole for each in _elements(_content(names, _SEQUENCE)))
    return frozenset()


def _name(content: bytes) -> str:
    """Return a name as Java's X500Principal.getName() does: the most specific part first."""
    parts = [
        "+".join(sorted(_attribute(each) for each in _elements(_content(part, _SET))))
        for part in _elements(content)
    ]
    name = ",".join(reversed(parts))
    if len(name) > CERTIFICATE_NAME_CHARS_MAX:
        raise Corrupt(f"a certificate's subject has {len(name)} characters")
    return name


def _attribute(element: _Element) -> str:
    kind, value = _elements(_content(element, _SEQUENCE), 2)
    identifier = _content(kind, _OID)
    keyword = _KEYWORDS.get(identifier)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or _dotted(identifier)}=#{value.whole.hex()}"
    try:
        text = value.content.decode(_TEXTS[value.tag])
    except UnicodeDecodeError:
        raise Corrupt("a certificate's subject is not the text that it claims to be") from None
    return f"{keyword}={_escaped(text)}"


def _escaped(text: str) -> str:
    escaped = "".join(f"\\{each}" if each in _ESCAPED else each for each in text)
    if escaped.startswith((" ", "#")):
        escaped = f"\\{escaped}"
    if escaped.endswith(" ") and len(text) > 1:
        escaped = f"{escaped[:-1]}\\ "
    return escaped


def _dotted(identifier: bytes) -> str:
    numbers, number = [], 0
    for byte in identifier:
        number = (number << 7) | (byte & 0x7F)
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers or identifier[-1] & 0x80:
        raise Corrupt("a certificate has an incomplete object identifier")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _time(element: _Element) -> datetime:
    text = element.content.decode("ascii", errors="replace")
    if element.tag == _UTC_TIME:  # RFC 5280, 4.1.2.5.1: years 50 to 99 are of the last century
        text = ("19" if text[:2] >= "50" else "20") + text
    elif element.tag != _GENERALIZED_TIME:
        raise Corrupt("a certificate or a revocation list lacks a time")
    try:
        return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise Corrupt(f"a certificate or a revocation list has the time {text!r}") from None


def _content(element: _Element, tag: int) -> bytes:
    if element.tag != tag:
        raise Corrupt(f"a certificate has an element {element.tag:#x} in place of {tag:#x}")
    return element.content


def _elements(data: bytes, count: int | None = None) -> Iterator[_Element]:
    """Yield the elements that follow each other; Corrupt unless there are `count`."""
    found = list(_all_elements(data))
    if count is not None and len(found) != count:
        raise Corrupt(f"a certificate has {len(found)} elements in place of {count}")
    return iter(found)


def _all_elements(data: bytes) -> Iterator[_Element]:
    start = 0
    while start < len(data):
        size_at = start + 1
        if size_at >= len(data):
            raise Corrupt("a certificate ends within an element")
        size, begin = data[size_at], size_at + 1
        if size & 0x80:
            count = size & 0x7F
            if not 0 < count <= _LONG_LENGTH_BYTES_MAX:
                raise Corrupt("a certificate has an element of unknown length")
            size, begin = int.from_bytes(data[begin : begin + count], "big"), begin + count
        if begin + size > len(data):
            raise Corrupt("a certificate ends within an element")
        yield _Element(data[start], data[begin : begin + size], data[start : begin + size])
        start = begin + size

"""The part of a value that a V1 line can carry, by Python's own decoder and expressions."""

import re

from broker.protocols.v1.commands import WHITE_SPACE

_UNCARRIED = re.compile(f"[\x00-\x1f\x7f,{WHITE_SPACE}\udc80-\udcff]|hw=")
_ENCODED = re.compile(f"[\x00-\x1f\x7f,%={WHITE_SPACE}\udc80-\udcff]")


def carried(value: bytes) -> tuple[bytes, bool]:
    """Return the value as it is in a line, and whether it was encoded for that."""
    text = value.decode("utf-8", "surrogateescape")  # bytes that are not UTF-8 stay visible
    if not _UNCARRIED.search(text):
        return value, False
    return _ENCODED.sub(_percent, text).encode(), True


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogateescape"))

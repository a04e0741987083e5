"""Kafka's ids: 16 bytes inside and on the wire, 22 characters of URL-safe base64 as text.

The text is that of Kafka's `Uuid`: without padding, and never with a leading dash, which command
lines would take for an option.
"""

import os
from binascii import a2b_base64, b2a_base64

ID_BYTES = 16
NO_ID = bytes(ID_BYTES)  # Kafka's ZERO_UUID: not given

_TO_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_TEXT_LENGTH = 22

BROKERS_CLIENT_ID = "polylog-broker"  # of the requests that brokers send to each other


def random_id() -> bytes:
    """Return a new id for a topic, a directory or a cluster."""
    while True:
        candidate = os.urandom(ID_BYTES)
        if not id_to_text(candidate).startswith("-"):
            return candidate


def random_uuid() -> str:
    """Return a new suffix of a member id, as Kafka's: 128 random bits in the form of a UUID.

    The module `uuid` is not used, because its import takes 5 ms of a start.
    """
    digits = os.urandom(ID_BYTES).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def random_below(count: int) -> int:
    """Return a random number below a limit of at most 10^9; importing `secrets` takes too long."""
    return int.from_bytes(os.urandom(8)) % count


def id_to_text(identifier: bytes) -> str:
    """Return an id as 22 characters."""
    return b2a_base64(identifier, newline=False).translate(_TO_URL_SAFE).rstrip(b"=").decode()


def id_from_text(text: str) -> bytes:
    """Parse the 22 characters of an id; ValueError when they are invalid."""
    if len(text) != _TEXT_LENGTH or not text.isascii():
        raise ValueError(f"an id has {_TEXT_LENGTH} URL-safe base64 characters, not {text!r}")
    identifier = a2b_base64(text.encode().translate(_FROM_URL_SAFE) + b"==")
    if id_to_text(identifier) != text:
        raise ValueError(f"{text!r} is not URL-safe base64 of {ID_BYTES} bytes")
    return identifier

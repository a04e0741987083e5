"""What every target needs: options from an input's head, exact buffers, and errors as values."""

from array import array
from collections.abc import Callable
from typing import TypeVar

from broker.model.errors import CodecError

T = TypeVar("T")

OPTIONS_SIZE = 8
OWN_BLOCKS_BYTES_MAX = 512  # of Python's allocator


class Options:
    """Options that an input chooses by its first bytes, 0 where it is short."""

    def __init__(self, data: bytes) -> None:
        """Split the options off; the rest is `content`."""
        self._bytes = data[:OPTIONS_SIZE].ljust(OPTIONS_SIZE, b"\0")
        self.content = data[OPTIONS_SIZE:]

    def byte(self, place: int) -> int:
        """Return one of them."""
        return self._bytes[place]

    def flag(self, place: int, bit: int) -> bool:
        """Return one bit."""
        return bool(self._bytes[place] >> bit & 1)

    def number(self, place: int) -> int:
        """Return a number of any size and sign that a byte encodes, usually a small one."""
        value = self._bytes[place]
        return value - 0xC0 if value < 0xF0 else (value - 0xF8) << 55


def exact(content: bytes) -> memoryview:
    """Return a copy that ends at the end of its memory block, so that a sanitizer sees overreads.

    A `bytes` object has a zero byte after its content, which nobody must read; and objects share a
    block unless they are longer than those that Python's own allocator takes.
    """
    return memoryview(array("B", bytes(OWN_BLOCKS_BYTES_MAX) + content))[OWN_BLOCKS_BYTES_MAX:]


def outcome(size: int, call: Callable[[], T]) -> T | CodecError:
    """Return what a call returns, or the one kind of error that bytes may raise.

    An error's position must be in the input, whose size is given.
    """
    try:
        return call()
    except CodecError as error:
        refusal = error
    assert type(refusal) is not CodecError, "an error of no kind"
    assert refusal.reason
    assert refusal.position is None or 0 <= refusal.position <= size, refusal
    return refusal

"""What every target needs: options from an input's head, exact buffers, and errors as values."""

from array import array
from collections.abc import Callable
from typing import TypeVar

from broker.model.errors import CodecError

T = TypeVar("T")

OPTIONS_SIZE = 8


class Options:
    """Decisions that an input makes about how it is read: its first bytes, 0 where it is short."""

    def __init__(self, data: bytes) -> None:
        """Cut them off; the rest is `content`."""
        self._bytes = data[:OPTIONS_SIZE].ljust(OPTIONS_SIZE, b"\0")
        self.content = data[OPTIONS_SIZE:]

    def byte(self, place: int) -> int:
        """Return one of them."""
        return self._bytes[place]

    def flag(self, place: int, bit: int) -> bool:
        """Return one bit."""
        return bool(self._bytes[place] >> bit & 1)

    def number(self, place: int) -> int:
        """Return a number of any size and sign that a byte stands for, most often a small one."""
        value = self._bytes[place]
        return value - 0xC0 if value < 0xF0 else (value - 0xF8) << 55


def exact(content: bytes) -> "array[int]":
    """Return a copy in memory that ends where the content does, so that a sanitizer sees the end.

    Behind the content of a `bytes` object stands a zero that nobody must look at.
    """
    return array("B", content)


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

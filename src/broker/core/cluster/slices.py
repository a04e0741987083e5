"""Work in slices: a generator that yields after each slice of at most 2 ms and returns its result.

The driver runs other work between two slices; a test runs all of them at once.
"""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

_T = TypeVar("_T")

Slices: TypeAlias = Generator[None, None, _T]


def complete(slices: Slices[_T]) -> _T:
    """Run all remaining slices and return the result."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: _T = end.value
            return result

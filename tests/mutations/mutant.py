"""A small change of one source file that some test should notice."""

from typing import Final, NamedTuple

# Each of a pair becomes the other; Python and Cython have them in common.
_PAIRS: Final = "<|<= >|>= ==|!= is|is_not in|not_in and|or +|- +=|-= *|//"
SWAPS: Final = {
    before.replace("_", " ").encode(): after.replace("_", " ").encode()
    for pair in map(tuple, (each.split("|") for each in _PAIRS.split()))
    for before, after in (pair, pair[::-1])
}
# Not a part of another operator: << >> **
OPERATOR: Final = (
    rb"is\s+not\b|not\s+in\b|(?:is|in|and|or)\b|==|!=|<=|>=|\+=|-=|//|[+-]"
    rb"|(?<![<>])[<>](?![<>])|(?<!\*)\*(?!\*)"
)


class Mutant(NamedTuple):
    """Bytes of a file, and what stands there instead.

    Attributes:
        file: relative to the repository.
        start: offset in bytes where the change begins.
        end: where it ends, exclusive.
        replacement: what stands between them instead.
    """

    file: str
    start: int
    end: int
    replacement: bytes

    def applied(self, source: bytes) -> bytes:
        """Return the changed source."""
        return source[: self.start] + self.replacement + source[self.end :]

    def shown(self, source: bytes) -> str:
        """Return `file:line: before -> after`, with the lines of the change joined."""
        first = source.rfind(b"\n", 0, self.start) + 1
        rest = source[self.end :].partition(b"\n")[0]
        before = source[first : self.end] + rest
        after = source[first : self.start] + self.replacement + rest
        line = source.count(b"\n", 0, self.start) + 1
        return f"{self.file}:{line}: {_one_line(before)} -> {_one_line(after)}"


def _one_line(text: bytes) -> str:
    return " ".join(text.decode().split())

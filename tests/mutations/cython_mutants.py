"""Mutants of a Cython file: its lines are changed as text, because no library keeps its tree.

Only lines of function bodies are changed, without declarations, comments, strings and docstrings. A
change that does not compile is no mutant.
"""

import re
from collections.abc import Iterator
from typing import Final

from tests.mutations.mutant import OPERATOR, SWAPS, Mutant

_OPERATOR: Final = re.compile(b"(?<= )(" + OPERATOR + b")(?= )")
_NOT: Final = re.compile(rb"(?<!is )\bnot (?!in\b)")
_WORD: Final = re.compile(rb"\b(?:True|False)\b|(?<![\w.])\d+(?![\w.])")
_WORDS: Final = {b"True": b"False", b"False": b"True"}
_HEAD: Final = re.compile(rb"\s*(?:cdef|cpdef|def)\b[^=]*\(")
_NO_CODE: Final = re.compile(rb"\s*(?:(?:cdef|cimport|from|import|global|class)\b|@|logger\.)")
# A whole statement in one line: a call, an assignment, or an early exit of a loop.
_STATEMENT: Final = re.compile(rb"\s+([\w.]+(?:\[[^]]*\])?(?: [-+*/|&]?= .+|\(.*\))|continue)$")
_NEITHER: Final = re.compile(rb'"""(?:.|\n)*?"""|b?f?"(?:\\.|[^"\\\n])*"|#[^\n]*')


def mutants(file: str, source: bytes) -> list[Mutant]:
    """Return every mutant of a file, in file order."""
    return sorted(
        Mutant(file, start + first, start + last, replacement)
        for start, line in _code(source)
        for first, last, replacement in _changes(line)
    )


def _changes(line: bytes) -> Iterator[tuple[int, int, bytes]]:
    for found in _OPERATOR.finditer(line):
        yield *found.span(), SWAPS[found[0]]
    for found in _NOT.finditer(line):
        yield *found.span(), b""
    for found in _WORD.finditer(line):
        yield *found.span(), _WORDS.get(found[0]) or str(int(found[0]) + 1).encode()
    whole = _STATEMENT.match(line.rstrip())
    if whole is not None and line.count(b"(") == line.count(b")"):
        yield *whole.span(1), b"pass"


def _code(source: bytes) -> Iterator[tuple[int, bytes]]:
    """Return where each line of a function's body starts, and the line with texts blanked."""
    blank = _NEITHER.sub(lambda found: re.sub(rb"[^\n]", b" ", found[0]), source)
    position, depth, is_head, body_indent = 0, 0, False, -1
    for line in blank.splitlines(keepends=True):
        start, position = position, position + len(line)
        if not line.strip():
            continue
        if depth == 0:  # not the continuation of a statement
            indent = len(line) - len(line.lstrip())
            is_head = _HEAD.match(line) is not None
            if is_head or indent <= body_indent:
                body_indent = indent if is_head else -1
        depth += len(re.findall(rb"[(\[{]", line)) - len(re.findall(rb"[)\]}]", line))
        if body_indent >= 0 and not is_head and not _NO_CODE.match(line):
            yield start, line

"""Mutants of a Python file: the bodies of its functions, changed in one place.

The syntax tree gives the place; the change is made in the text, so that it is the only one.
"""

import ast
import re
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Final

from tests.mutations.mutant import OPERATOR, SWAPS, Mutant

_LOGGERS: Final = {"logger", "_log"}  # log calls are not mutated


def mutants(file: str, source: bytes) -> list[Mutant]:
    """Return every mutant of a file, in file order."""
    finder = _Finder(source)
    found: set[tuple[int, int, bytes]] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for statement in node.body:
                found.update(finder.within(statement))
    return sorted(Mutant(file, *edit) for edit in found)


class _Finder:
    def __init__(self, source: bytes) -> None:
        self._source = source
        self._starts = list(accumulate(map(len, source.splitlines(keepends=True)), initial=0))

    def within(self, node: ast.AST) -> Iterator[tuple[int, int, bytes]]:
        """Yield start, end and replacement of every change of a node and its children."""
        match node:
            case ast.JoinedStr():
                return  # texts are not mutated
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))) if (
                name in _LOGGERS
            ):
                return
            case ast.AnnAssign(value=value):
                children: list[ast.AST] = [value] if value else []
            case _:
                children = list(ast.iter_child_nodes(node))
        yield from self._of(node)
        for child in children:
            yield from self.within(child)

    def _of(self, node: ast.AST) -> Iterator[tuple[int, int, bytes]]:
        match node:
            case ast.Compare(left=left, comparators=[right]) | ast.BinOp(left=left, right=right):
                yield from self._between(left, right)
            case ast.BoolOp(values=values):
                for left, right in pairwise(values):
                    yield from self._between(left, right)
            case ast.UnaryOp(op=ast.Not()):
                start, _ = self._span(node)
                yield start, start + len(b"not "), b""
            case ast.Constant(value=int(value)):
                other = not value if isinstance(value, bool) else value + 1
                yield *self._span(node), str(other).encode()
            case ast.Return(value=ast.expr() as result) if ast.unparse(result) != "None":
                yield *self._span(result), b"None"
            case ast.If(test=ast.Name() | ast.Attribute() | ast.Call() as test):
                start, end = self._span(test)
                yield start, end, b"not (" + self._source[start:end] + b")"
        yield from self._without(node)

    def _without(self, node: ast.AST) -> Iterator[tuple[int, int, bytes]]:
        match node:
            case ast.AugAssign(target=target, value=value):
                yield from self._between(target, value)
                yield *self._span(node), b"pass"
            case ast.Expr(value=ast.Call() | ast.Await()) | ast.Assign() | ast.Raise():
                yield *self._span(node), b"pass"
            case ast.Delete() | ast.Continue():
                yield *self._span(node), b"pass"

    def _between(self, left: ast.AST, right: ast.AST) -> Iterator[tuple[int, int, bytes]]:
        """Change the operator between two expressions."""
        start = self._span(left)[1]
        found = re.search(OPERATOR, self._source[start : self._span(right)[0]])
        replacement = found and SWAPS.get(b" ".join(found[0].split()))
        if found and replacement:
            yield start + found.start(), start + found.end(), replacement

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, (ast.expr, ast.stmt))
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

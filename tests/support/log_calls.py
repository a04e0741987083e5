"""Every call in the sources that logs a warning or an error."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).parents[2] / "src"
_LEVELS = {
    "warning": ("WARNING",),
    "error": ("ERROR",),
    "exception": ("ERROR",),
    "critical": ("CRITICAL",),
}
_LOGGERS = ("_log", "logger")
_NATIVE = re.compile(r'logger\.(warning|error|exception|critical)\(\s*"((?:[^"]|"\s+")*)"')


class LogCall(NamedTuple):
    """A call: where it is, its levels, and the first template it may have; None: not a literal."""

    place: str
    levels: tuple[str, ...]
    template: str | None


@cache
def calls() -> tuple[LogCall, ...]:
    """Return every call; the process that Spark runs has a log of its own."""
    return tuple(_calls())


def _calls() -> Iterator[LogCall]:
    for file in sorted((SOURCES / "broker").rglob("*.py")):
        if "pipeline" not in file.relative_to(SOURCES).parts:
            yield from calls_of(file.read_text(), str(file.relative_to(SOURCES)))
    for file in sorted((SOURCES / "_native").rglob("*.pyx")):
        for found in _NATIVE.finditer(file.read_text()):
            template = re.sub(r'"\s+"', "", found[2])
            yield LogCall(str(file.relative_to(SOURCES)), _LEVELS[found[1]], template)


def calls_of(source: str, place: str) -> Iterator[LogCall]:
    """Return the calls in a source."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if not _is_logger(node.func.value):
            continue
        at = f"{place}:{node.lineno}"
        if node.func.attr in _LEVELS:
            for template in _templates(node.args[0]):
                yield LogCall(at, _LEVELS[node.func.attr], template)
        elif node.func.attr == "log" and (levels := _levels(node.args[0])):
            for template in _templates(node.args[1]):
                yield LogCall(at, levels, template)


def _is_logger(node: ast.expr) -> bool:
    return (isinstance(node, ast.Name) and node.id in _LOGGERS) or (
        isinstance(node, ast.Call) and ast.unparse(node.func) == "logging.getLogger"
    )


def _levels(node: ast.expr) -> tuple[str, ...]:
    """Return the levels of `log` that are warnings or errors; ANY for one that is not named."""
    if isinstance(node, ast.Name):
        return ("ANY",)
    found = re.findall(r"logging\.(WARNING|ERROR|CRITICAL)", ast.unparse(node))
    return tuple(sorted(set(found)))


def _templates(node: ast.expr) -> Iterator[str | None]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=other):
            yield from _templates(body)
            yield from _templates(other)
        case ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=str(text))):
            for each in _templates(left):
                yield None if each is None else each + text
        case _:
            yield None

"""Tables for people.

A name, a number or a size is never broken: people copy them. What has several words is broken
between these where the terminal is narrow, and columns without values are left out then. A table
that is still wider is as wide as it is: the terminal breaks its lines.
"""

import os
import re
from collections.abc import Sequence
from typing import IO, Final, Literal, NamedTuple

_NUMBER: Final = re.compile(r"-?[\d.,]+( [KMGTP]?i?B)?|-")
_NOTHING: Final = ("", "-")
_GAP: Final = 2
_WORD_MAX: Final = 30  # of a text with several words: its longer words are broken


class _Column(NamedTuple):
    """A column: its head, its cells, whether they are numbers, and its widths."""

    head: str
    cells: Sequence[str]
    is_number: bool
    width: int
    least: int


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], stream: IO[str], *, is_single: bool
) -> None:
    """Print rows under their columns, or the only row as lines of NAME and value."""
    is_terminal = stream.isatty()
    if not is_terminal and all(cell.isascii() for row in rows for cell in row):
        _print_plain_table(columns, rows, stream, is_single=is_single)
        return
    from rich.console import Console  # noqa: PLC0415 - 35 ms, which other formats do not need
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    # In a pipe, lines are as long as they are: whoever reads them can cut them.
    console = Console(file=stream, width=None if is_terminal else 1 << 14, highlight=False)
    style = "" if os.environ.get("NO_COLOR") else "bold"
    table = Table(box=None, pad_edge=False, header_style=style, show_header=not is_single)
    if is_single:
        table.add_column(style=style, no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in zip(columns, rows[0], strict=True):
            table.add_row(Text(name.replace("_", " ")), Text(value))
        console.print(table)
        return
    shown = _fitting([_column(name, rows, at) for at, name in enumerate(columns)], console.width)
    for each in shown:
        justify: Literal["right", "left"] = "right" if each.is_number else "left"
        table.add_column(each.head, justify=justify, overflow="fold", width=each.width)
    for cells in zip(*[each.cells for each in shown], strict=True):
        table.add_row(*map(Text, cells))
    width = max(console.width, _total([each.width for each in shown]))
    Console(file=stream, width=width, highlight=False).print(table, crop=False)


def _column(name: str, rows: Sequence[Sequence[str]], at: int) -> _Column:
    from rich.cells import cell_len  # noqa: PLC0415

    head, cells = name.replace("_", " "), [row[at] for row in rows]
    is_number = _is_number(rows, at)
    has_words = not is_number and any(" " in each for each in cells)
    longest = max(map(cell_len, cells))
    if has_words:
        words = (min(cell_len(word), _WORD_MAX) for each in cells for word in each.split())
        least = max(words, default=1)
    else:
        least = longest
    least = max(least, *map(cell_len, head.split()))
    return _Column(head, cells, is_number, max(longest, cell_len(head)), least)


def _fitting(columns: Sequence[_Column], room: int) -> list[_Column]:
    """Return the columns with widths that fit, or as they are if that cannot be."""
    shown = [each._replace(width=min(each.width, max(each.least, room))) for each in columns]
    if _total([each.least for each in shown]) > room:
        shown = [each for each in shown if not set(each.cells) <= set(_NOTHING)] or shown
    if _total([each.least for each in shown]) > room:
        return shown  # texts that are broken would be broken by the terminal once more
    while _total([each.width for each in shown]) > room:
        broken = [at for at, each in enumerate(shown) if each.width > each.least]
        widest = max(broken, key=lambda at: shown[at].width)
        shown[widest] = shown[widest]._replace(width=shown[widest].width - 1)
    return shown


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _print_plain_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], stream: IO[str], *, is_single: bool
) -> None:
    """Print a table whose cells need neither styles nor lines of their own, at once.

    Ten thousand rows take seconds otherwise.
    """
    heads = [each.replace("_", " ") for each in columns]
    lines = [[*each] for each in zip(heads, rows[0], strict=True)] if is_single else [heads, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    is_right = [not is_single and _is_number(rows, index) for index in range(len(widths))]
    for line in lines:
        cells = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, is_right, strict=True)
        ]
        stream.write("  ".join(cells) + "\n")


def _is_number(rows: Sequence[Sequence[str]], index: int) -> bool:
    return all(_NUMBER.fullmatch(each[index]) for each in rows)

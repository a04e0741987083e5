"""A benchmark that is measured at several sizes, and prints a column for each."""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from benchmarks.end_to_end import machine

ROOT = Path(__file__).resolve().parents[2]

_Measured = TypeVar("_Measured")


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Return lines of cells as a table; a line may have fewer cells than the first."""
    widths = [max(len(line[i]) for line in lines if i < len(line)) for i in range(len(lines[0]))]
    text = [
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=False)) for line in lines
    ]
    return "\n".join(line.rstrip() for line in text)


def run(  # noqa: PLR0913 (what a benchmark is)
    arguments: Sequence[str],
    *,
    name: str,
    description: str | None,
    unit: str,
    sizes: Sequence[int],
    measure: Callable[[int, Path], _Measured],
    table: Callable[[list[int], list[_Measured]], tuple[str, bool]],
) -> int:
    """Measure each size in a folder of its own and print the table; return 1 if a goal is missed.

    Args:
        arguments: of the command line: other sizes.
        name: of the suite.
        description: for `--help`.
        unit: what the sizes count.
        sizes: if the command line has none.
        measure: measures a size.
        table: returns the text, and whether all goals are met.
    """
    parser = argparse.ArgumentParser(prog=f"make bench SUITE={name}", description=description)
    parser.add_argument("sizes", nargs="*", type=int, default=list(sizes), help=unit)
    asked = sorted(parser.parse_args(arguments).sizes)
    (ROOT / "build").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{name}-", dir=ROOT / "build"))
    found: list[_Measured] = []
    try:
        for size in asked:
            found.append(measure(size, folder / str(size)))
            sys.stderr.write(f"{size:,} {unit} measured\n")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text, are_all_met = table(asked, found)
    sys.stdout.write(f"{text}\n\n{machine.describe()}\n")
    return 0 if are_all_met else 1

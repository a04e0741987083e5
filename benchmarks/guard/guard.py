"""Compares the instruction counts of a few kernels with those in the checked-in table.

make bench SUITE=guard                       fails if a kernel takes 5 % more than in the table
make bench SUITE=guard BENCH=--update        writes the table again

Callgrind runs a kernel a few times and many times; the difference is the cost of the kernel without
the start of Python. Counts depend on the compiler, so the table has its name.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.guard.kernels import KERNELS

TABLE = Path(__file__).with_name("instructions.json")
TOLERANCE = 0.05
FEW, MANY = 5, 25
TIMEOUT_S = 300


def counted(kernel: str, times: int) -> int:
    """Return the instructions of a process that runs a kernel several times."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable]
    ended = subprocess.run(
        [*command, "-m", "benchmarks.guard.kernels", kernel, str(times)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=os.environ | {"PYTHONHASHSEED": "0"},
        check=False,
    )
    found = re.search(r"Collected : (\d+)", ended.stderr)
    if ended.returncode or found is None:
        sys.exit(f"{kernel}: callgrind ended with {ended.returncode}\n{ended.stderr}")
    return int(found[1])


def per_call(kernel: str) -> int:
    """Return the instructions of one call."""
    return (counted(kernel, MANY) - counted(kernel, FEW)) // (MANY - FEW)


def builder() -> str:
    """Return the compiler of the interpreter (likely also of the extensions) and the machine."""
    return f"{platform.python_compiler()}, {platform.machine()}"


def main() -> int:
    """Count instructions, and compare them with the table or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the table again")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed", file=sys.stderr)
        return 0
    known = json.loads(TABLE.read_text()) if TABLE.exists() else {"instructions": {}}
    found = {}
    for place, kernel in enumerate(KERNELS, 1):
        print(f"{place} of {len(KERNELS)}: {kernel}", file=sys.stderr)
        found[kernel] = per_call(kernel)
    if arguments.update:
        table = {"of": builder(), "instructions": found}
        TABLE.write_text(json.dumps(table, indent=2) + "\n")
        return 0
    before: dict[str, int] = known["instructions"]
    worse = [name for name in found if found[name] > before[name] * (1 + TOLERANCE)]
    if arguments.output == "json":
        print(json.dumps({"before": before, "now": found, "worse": worse}))
    else:
        print(f"{'kernel':<16}{'before':>12}{'now':>12}{'change':>9}   (table of {known['of']})")
        for name, count in found.items():
            change = count / before[name] - 1
            print(f"{name:<16}{before[name]:>12,}{count:>12,}{change:>+9.1%}")
    for name in worse:
        print(f"{name} takes more than {TOLERANCE:.0%} more instructions", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())

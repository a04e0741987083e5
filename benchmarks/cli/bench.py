"""What a command costs before it does something: `make bench SUITE=cli`.

Each command runs in a process of its own, in turn with a bare interpreter. Processor time is that
of the process, user and system; it hardly depends on the load of the machine, but caches that are
shared do, so the least of the rounds is shown, beside that of `python -c pass` in the same rounds.
The time to the first byte of output is the clock's: read it on a machine that does nothing else.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.cli.nouns import NOUNS
from broker.cli.tree import verbs

HELP_S, LOCAL_S = 0.08, 0.15  # the goals of help, and of what has to be done before a request
NOBODY: Final = "127.0.0.1:1"  # where no broker listens: a command ends when it has tried
REFERENCE: Final = ("-c", "pass")
_ROUNDS: Final = 5


class Command(NamedTuple):
    """A command line, and the goal of its processor time and of its first byte."""

    words: tuple[str, ...]
    goal_s: float


class Cost(NamedTuple):
    """What a process took, in seconds."""

    processor_s: float
    first_byte_s: float


def commands() -> list[Command]:
    """Return what is measured: every help, and commands that ask nobody, or nobody who answers."""
    found = [Command(("--version",), HELP_S), Command(("--help",), HELP_S)]
    names = dict.fromkeys([*sorted(NOUNS), *(name for name, _ in verbs())])
    found += [Command((*name.split(), "--help"), HELP_S) for name in names]
    local = ("profile list", "config explain retention.ms", "generate systemd", "version")
    found += [Command(tuple(each.split()), LOCAL_S) for each in local]
    reaching = ("topic list", "group lag readers", "config list --topic t", "cluster info")
    found += [Command((*each.split(), "-b", NOBODY), LOCAL_S) for each in reaching]
    return found


def measure(words: Sequence[str]) -> Cost:
    """Run a program of Python once."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    process.stdout.read(1)
    first_byte_s = time.perf_counter() - begun
    process.stdout.read()
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    process.stdout.close()
    return Cost(used.ru_utime + used.ru_stime, first_byte_s)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print a table; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="runs of each command")
    parser.add_argument("--all", action="store_true", help="all commands, not the slowest ten")
    options = parser.parse_args(arguments)
    measured: dict[tuple[str, ...], list[Cost]] = {REFERENCE: []}
    for _ in range(options.rounds):
        for each in commands():
            measured.setdefault(each.words, []).append(measure(("-m", "broker", *each.words)))
        measured[REFERENCE].append(measure(REFERENCE))
    least = {words: Cost(*map(min, zip(*costs, strict=True))) for words, costs in measured.items()}
    helps = [each for each in commands() if each.words[-1] == "--help"]
    slowest = sorted(helps, key=lambda each: -least[each.words].processor_s)
    others = [each for each in commands() if each not in helps]
    print("| command | processor time, ms | goal | first byte, ms |")
    print("|---|---|---|---|")
    for each in [*others, *(slowest if options.all else slowest[:10])]:
        _print(f"broker {' '.join(each.words)}", least[each.words], each.goal_s)
    _print(f"python {' '.join(REFERENCE)}", least[REFERENCE], None)
    late = [each for each in commands() if least[each.words].processor_s > each.goal_s]
    print(f"{len(least) - 1 - len(late)} of {len(least) - 1} commands within their goal")
    return 1 if late else 0


def _print(name: str, cost: Cost, goal_s: float | None) -> None:
    processor_s, first_byte_s = cost
    missed = "" if goal_s is None or processor_s <= goal_s else ", NOT MET"
    goal = "" if goal_s is None else f"{goal_s * 1000:.0f}{missed}"
    print(
        f"| `{name}` | {processor_s * 1000:.0f} | {goal} | {first_byte_s * 1000:.0f} |", flush=True
    )


if __name__ == "__main__":
    sys.exit(main())

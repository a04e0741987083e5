"""Change the source in one place at a time, and report changes that no test detects.

    make mutants MUTANTS="--seed 1 --count 300 -o json"
    make mutants MUTANTS="--layer native --count 50"

A sample of all changes, an equal share of each layer, is tried one after another: the changed
file is put into a copy of the installed package, and the nearest tests run with that copy, until
one fails; without a change, all of them have to pass. A change of a Cython file has its one module
compiled again. Progress is on stderr, and each survivor with its place; the result is on stdout.
Exit status 1: some survived.

Why not mutmut or cosmic-ray: neither knows Cython; they change the source in place, or a
copy that has to be importable without a build, while this package is installed; and neither finds
tests near a change without a first run of the whole suite under coverage.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.mutations import cython_mutants, nearest, python_mutants
from tests.mutations.mutant import Mutant
from tests.mutations.overlay import Overlay

ROOT: Final = nearest.ROOT
BUILD: Final = ROOT / "build" / "mutants"
LAYERS: Final = {
    "core": "src/broker/core/**/*.py",
    "storage": "src/broker/storage/**/*.py",
    "native": "src/_native/**/*.pyx",
}
CPU_SECONDS_MAX = 180  # of a run of tests
TEST_SECONDS_MAX = 180  # of a single test


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    description = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="make mutants", description=description)
    parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    parser.add_argument("--count", type=int, default=300, help="how many changes (300)")
    parser.add_argument("--layer", action="append", choices=[*LAYERS], help="one or more; all")
    parser.add_argument("--file", default="", help="only files whose path contains this")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    return parser.parse_args(argv)


def mutants_of(layer: str, part: str = "") -> list[Mutant]:
    """Return every mutant of a layer's files."""
    make = cython_mutants.mutants if layer == "native" else python_mutants.mutants
    names = sorted(str(file.relative_to(ROOT)) for file in ROOT.glob(LAYERS[layer]))
    wanted = [name for name in names if part in name]
    return [each for name in wanted for each in make(name, (ROOT / name).read_bytes())]


def sample(layers: list[str], seed: int, part: str = "") -> Iterator[Mutant]:
    """Yield mutants in an order that the seed determines, the layers in turn."""
    left = {layer: mutants_of(layer, part) for layer in layers}
    for layer, mutants in left.items():
        random.Random(f"{seed} {layer}").shuffle(mutants)
    while any(left.values()):
        yield from [mutants.pop() for mutants in left.values() if mutants]


def run_tests(overlay: Path | None, stage: tuple[str, ...]) -> bool:
    """Return whether the tests pass within the time limit."""
    options = ["-q", "-x", "-p", "no:cacheprovider", f"--timeout={TEST_SECONDS_MAX}", *stage]
    # However busy the machine is, a test that does not end is detected.
    limit = ["sh", "-c", f'ulimit -t {CPU_SECONDS_MAX} && exec "$@"', "sh"]
    environment = {
        **os.environ,
        "HYPOTHESIS_STORAGE_DIRECTORY": str(BUILD / "hypothesis"),
        "PYTHONDONTWRITEBYTECODE": "1",
        **({"PYTHONPATH": str(overlay)} if overlay else {}),
    }
    command = [*limit, sys.executable, "-m", "pytest", *options]
    ended = subprocess.run(command, check=False, capture_output=True, cwd=ROOT, env=environment)
    return ended.returncode == 0


def survives(overlay: Overlay, mutant: Mutant) -> bool | None:
    """Return whether no test fails; None: the mutant does not compile."""
    target = overlay.change(mutant)
    if target is None:
        return None
    try:
        return all(run_tests(overlay.folder, each) for each in nearest.stages(mutant.file))
    finally:
        overlay.restore(target)


def main(argv: list[str] | None = None) -> int:
    """Try the sample, and report the survivors."""
    options = arguments(argv)
    overlay = Overlay(ROOT, BUILD)
    outcomes: dict[str, bool] = {}
    for mutant in sample(options.layer or [*LAYERS], options.seed, options.file):
        if len(outcomes) >= options.count:
            break
        shown = mutant.shown((ROOT / mutant.file).read_bytes())
        outcome = survives(overlay, mutant)
        if outcome is not None:
            outcomes[shown] = outcome
        word = {True: "SURVIVED", False: "killed", None: "invalid"}[outcome]
        print(f"{len(outcomes)} {word} {shown}", file=sys.stderr, flush=True)
    survivors = [shown for shown, survived in outcomes.items() if survived]
    tried, killed = len(outcomes), len(outcomes) - len(survivors)
    if options.output == "json":
        result = {"seed": options.seed, "tried": tried, "killed": killed, "survivors": survivors}
        print(json.dumps(result, indent=2))
    else:
        print(f"killed {killed} of {tried}: {killed / max(tried, 1):.1%}", *survivors, sep="\n")
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main())

"""Fuzz the codec: libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer on every target.

    make fuzz FUZZ="--seconds 60 --target batch -o fuzz.json"
    make fuzz FUZZ="--target batch --replay build/fuzz/crashes/batch/crash-..."
    make fuzz FUZZ=--keep    # keep the fewest inputs that cover all edges, in tests/fuzz/corpus

Progress is on stderr, one line per target: inputs tried; edges covered of all in those native
modules that were entered; the same with Python's, as libFuzzer counts; how many of these the corpus
did not cover before; and crashes. Found inputs stay in build/fuzz/corpus, and the next run begins
with them. Exit status 1: a target crashed, ran too long or took too much memory; the input is kept,
and the command that reproduces it is printed.
"""

import argparse
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from tests.fuzz.blind import read_current
from tests.fuzz.seeds import corpus_file, kept, seeds
from tests.fuzz.targets import TARGETS

ROOT: Final = Path(__file__).parents[2]
FOUND: Final = ROOT / "build" / "fuzz"

INPUT_SIZE_MAX = 4096
INPUT_SECONDS_MAX = 10  # with sanitizers, on a busy machine
# No allocation may be larger than a target's limit for the codec and its arrays: see BYTES_MAX.
MALLOC_MIB_MAX = 64
MEMORY_MIB_MAX = 2048
KEPT_SIZE_MAX = 600  # a longer input is found again, or not missed
GRACE_SECONDS = 120

STATUS = re.compile(r"^#\d+\t(\w+) .*?cov: (\d+)", re.MULTILINE)
INPUTS = re.compile(r"^stat::number_of_executed_units: (\d+)", re.MULTILINE)
MEMORY = re.compile(r"^stat::peak_rss_mb: +(\d+)", re.MULTILINE)
# Successful lines, and what a sanitizer reports of its own memory.
STATUS_LINE = re.compile(
    r"^#\d+\t|^(INFO|stat::|WARNING: |You can likely|Shadow )"
    r"|^(=>|  )0x|^  [A-Z][\w ]+: +[0-9a-f]{2}"
)
DEEP_FRAME = re.compile(r"^    #([2-9]\d|1[2-9]|\d{3}) ")
LINES_MAX, LINE_SIZE_MAX = 400, 240
LAST_INPUT = re.compile(r"^#(\d+)\t", re.MULTILINE)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--target", action="append", choices=[*TARGETS], help="one or more; all by default"
    )
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument("--seed", type=int, default=0, help="of libFuzzer's random numbers")
    parser.add_argument(
        "--blind",
        action="store_true",
        help="only mutate what has been found before, without counting edges: many more inputs",
    )
    parser.add_argument(
        "--fast",
        action="store_true",
        help="let Python's own allocator take its objects: overreads of them are not seen then,"
        " those of inputs and of native memory are; then try the corpus again without",
    )
    parser.add_argument("--replay", type=Path, nargs="+", help="only try these inputs")
    parser.add_argument("--keep", action="store_true", help="only write the corpus that is kept")
    parser.add_argument("-o", "--output", type=Path, help="a JSON summary")
    parser.add_argument(
        "--build", type=Path, default=FOUND / "package", help="the package with BROKER_FUZZ"
    )
    return parser.parse_args()


# ---- the fuzzed process --------------------------------------------------------------------------


def environment(build: Path, edges: Path, *, is_fast: bool) -> dict[str, str]:
    """Return the environment variables of the sanitizers and of native/*.c."""
    forward = build / "broker" / "_native" / "libfuzz_forward.so"
    if not forward.exists():
        sys.exit(f"{build}: no build that counts edges, make fuzz makes one")
    compiler = os.environ.get("CC", "cc")
    asan = subprocess.check_output([compiler, "-print-file-name=libasan.so"], text=True).strip()
    find = "import atheris.core_with_libfuzzer as found; print(found.__file__)"
    libfuzzer = subprocess.check_output([sys.executable, "-c", find], text=True).strip()
    return {
        **os.environ,
        "PYTHONPATH": f"{build}{os.pathsep}{ROOT}",
        "PYTHONMALLOC": "pymalloc" if is_fast else "malloc",
        "LD_PRELOAD": f"{forward}:{asan}",
        "BROKER_FUZZ_LIBFUZZER": libfuzzer,
        "BROKER_FUZZ_EDGES": str(edges),
        # Python leaks memory at exit; libforward must come before the sanitizer's library.
        "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0:abort_on_error=1"
        ":allocator_may_return_null=1:quarantine_size_mb=32",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:abort_on_error=1",
    }


def child(
    target: str,
    build: Path,
    *options: str,
    seconds_max: int,
    is_fast: bool = False,
    module: str = "child",
) -> tuple[int, str]:
    """Run libFuzzer, or another module, on a target; return its exit status and output."""
    edges = fresh(FOUND / "edges" / target)
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", f"tests.fuzz.{module}", target, *options],
            cwd=ROOT,
            env=environment(build.absolute(), edges, is_fast=is_fast),
            stdout=log,
            stderr=log,
        )
        try:
            status = process.wait(seconds_max + GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        log.seek(0)
        return status, log.read()


def fresh(folder: Path) -> Path:
    """Return an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def write_inputs(folder: Path, inputs: list[bytes]) -> Path:
    """Write each input to its own file, as libFuzzer needs them."""
    for number, data in enumerate(inputs):
        (folder / f"{number:04}").write_bytes(data)
    return folder


# ---- a run ---------------------------------------------------------------------------------------


def fuzz(target: str, options: argparse.Namespace) -> dict[str, Any]:
    """Fuzz one target for a while and return the result."""
    corpus = FOUND / "corpus" / target
    crashes = FOUND / "crashes" / target
    for folder in (corpus, crashes):
        folder.mkdir(parents=True, exist_ok=True)
    known = set(crashes.iterdir())
    started, cpu_before = time.monotonic(), _cpu_seconds()
    status, log = (_try_blindly if options.blind else _explore)(target, options, corpus, crashes)
    result = {
        "target": target,
        "seconds": round(time.monotonic() - started, 1),
        "cpu_seconds": round(_cpu_seconds() - cpu_before, 1),
        **counts(log),
        "native_edges": native_edges(target),
        "tried_again": 0,
    }
    if options.fast and not options.blind and not status:
        status, log = child(
            target,
            options.build,
            str(corpus),
            "-runs=0",
            f"-artifact_prefix={crashes}/",
            *limits(),
            seconds_max=600,
        )
        result["tried_again"] = counts(log)["inputs"]
    result |= {
        "crashes": sorted(str(path.relative_to(ROOT)) for path in set(crashes.iterdir()) - known),
        "status": status,
    }
    print(line(result), file=sys.stderr, flush=True)
    if status:
        complain(result, log)
    return result


def _explore(
    target: str, options: argparse.Namespace, corpus: Path, crashes: Path
) -> tuple[int, str]:
    return child(
        target,
        options.build,
        str(corpus),
        str(write_inputs(fresh(FOUND / "seeds" / target), seeds(target))),
        f"-max_total_time={options.seconds}",
        f"-seed={options.seed}",
        f"-artifact_prefix={crashes}/",
        *limits(),
        seconds_max=options.seconds,
        is_fast=options.fast,
    )


def _try_blindly(
    target: str, options: argparse.Namespace, corpus: Path, crashes: Path
) -> tuple[int, str]:
    current = fresh(FOUND / "current" / target) / "input"
    status, log = child(
        target,
        options.build,
        *(str(options.seconds), str(options.seed), str(current), str(corpus)),
        str(write_inputs(fresh(FOUND / "seeds" / target), seeds(target))),
        seconds_max=options.seconds,
        is_fast=options.fast,
        module="blind",
    )
    if status and current.exists():
        (crashes / f"blind-{options.seed}").write_bytes(read_current(current))
    return status, log


def _cpu_seconds() -> float:
    """Return what the processes that have ended took of the processors."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def limits() -> list[str]:
    """Return the limits of every input."""
    return [
        f"-max_len={INPUT_SIZE_MAX}",
        f"-timeout={INPUT_SECONDS_MAX}",
        f"-malloc_limit_mb={MALLOC_MIB_MAX}",
        f"-rss_limit_mb={MEMORY_MIB_MAX}",
        "-detect_leaks=0",
        "-print_final_stats=1",
    ]


def counts(log: str) -> dict[str, int]:
    """Return the numbers that libFuzzer prints."""
    edges = [(word, int(count)) for word, count in STATUS.findall(log)]
    before = next((count for word, count in edges if word == "INITED"), 0)
    after = edges[-1][1] if edges else 0
    inputs = INPUTS.findall(log) or LAST_INPUT.findall(log) or ["0"]
    return {
        "inputs": int(inputs[-1]),
        "edges": after,
        "new_edges": after - before,
        "peak_mib": int((MEMORY.findall(log) or ["0"])[-1]),
    }


def native_edges(target: str) -> dict[str, tuple[int, int]]:
    """Return the covered and total edges of each native module that was entered."""
    found = {}
    for file in sorted((FOUND / "edges" / target).iterdir()):
        taken = file.read_bytes()[1:]
        if is_entered(taken):
            found[file.name.partition(".cpython")[0]] = (sum(taken), len(taken))
    return found


def is_entered(edges: bytes) -> bool:
    """Return whether more of a module ran than the garbage collector calls."""
    return 100 * sum(edges) > len(edges)


def together(targets: list[str]) -> dict[str, tuple[int, int]]:
    """Return the coverage of several targets, edges covered by two counted once."""
    taken: dict[str, bytearray] = {}
    for target in targets:
        for file in (FOUND / "edges" / target).iterdir():
            edges = file.read_bytes()[1:]
            if not is_entered(edges):
                continue
            sum_of = taken.setdefault(file.name.partition(".cpython")[0], bytearray(len(edges)))
            sum_of[:] = bytes(one | other for one, other in zip(sum_of, edges, strict=True))
    return {name: (sum(edges), len(edges)) for name, edges in sorted(taken.items())}


def line(result: dict[str, Any]) -> str:
    """Return a result as a line."""
    taken = sum(pair[0] for pair in result["native_edges"].values())
    total = sum(pair[1] for pair in result["native_edges"].values())
    return (
        f"{result['target']:24} {result['inputs']:>9,} inputs in {result['seconds']:.0f} s"
        f" ({result['cpu_seconds']:.0f} of the processor), "
        f"{taken:,} of {total:,} native edges, {result['edges']:,} with Python's, "
        f"{result['new_edges']:,} of these new, {len(result['crashes'])} crashes"
    )


def complain(result: dict[str, Any], log: str) -> None:
    """Print the output of a crash, and how to reproduce it."""
    sys.stderr.write(shortened(log))
    for path in result["crashes"]:
        content = (ROOT / path).read_bytes()
        again = shlex.join(["--target", result["target"], "--replay", path])
        print(f"\nagain:  make fuzz FUZZ={shlex.quote(again)}", file=sys.stderr)
        if len(content) <= INPUT_SIZE_MAX:
            place = corpus_file(result["target"]).relative_to(ROOT)
            print(f"keep it in {place}:\n{content.hex()}", file=sys.stderr)


def shortened(log: str) -> str:
    """Return libFuzzer's output without successful lines, and the top of stacks."""
    lines = [text[:LINE_SIZE_MAX] for text in log.splitlines() if not STATUS_LINE.match(text)]
    return "".join(f"{text}\n" for text in lines[-LINES_MAX:] if not DEEP_FRAME.match(text))


def replay(target: str, options: argparse.Namespace) -> int:
    """Run some inputs and print everything reported about them."""
    files = [str(path) for path in options.replay]
    status, log = child(target, options.build, *files, *limits(), seconds_max=60)
    sys.stderr.write(shortened(log))
    return status


def keep(target: str, options: argparse.Namespace) -> None:
    """Write the checked-in corpus: named inputs unchanged, and as few others as needed."""
    folder = fresh(FOUND / "kept" / target)
    status, log = child(
        target,
        options.build,
        "-merge=1",
        str(folder),
        str(write_inputs(fresh(FOUND / "seeds" / target), kept(target))),
        str(FOUND / "corpus" / target),
        f"-max_len={KEPT_SIZE_MAX}",
        *limits()[1:],
        seconds_max=600,
    )
    if status:
        sys.exit(log)
    file = corpus_file(target)
    named = []
    lines = file.read_text().splitlines() if file.exists() else []
    for above, text in zip(["", *lines], lines, strict=False):
        if above.startswith("#") or text.startswith("#"):
            named.append(text)
    known = {bytes.fromhex(text) for text in named if not text.startswith("#")}
    found = {path.read_bytes() for path in folder.iterdir()} - known
    ordered = sorted(found, key=lambda data: (len(data), data))
    file.write_text("".join(f"{text}\n" for text in [*named, *(data.hex() for data in ordered)]))
    print(f"{target:24} {len(known)} named and {len(found)} other inputs", file=sys.stderr)


def main() -> None:
    """Run the command."""
    options = arguments()
    targets = options.target or [*TARGETS]
    if options.replay:
        sys.exit(max(replay(target, options) for target in targets) != 0)
    if options.keep:
        for target in targets:
            keep(target, options)
        return
    results = [fuzz(target, options) for target in targets]
    modules = together(targets)
    taken, total = (sum(pair[i] for pair in modules.values()) for i in (0, 1))
    print(f"{taken:,} of {total:,} native edges by all targets together", file=sys.stderr)
    if options.output:
        summary = {"targets": results, "native_edges": modules}
        options.output.write_text(json.dumps(summary, indent=2) + "\n")
    sys.exit(any(result["status"] for result in results))


if __name__ == "__main__":
    main()

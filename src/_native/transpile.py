"""Translates Cython sources to C, many in one process: Cython starts slower than it translates.

python transpile.py INCLUDE OUTPUT DEPFILE PATH...

A source is PATH with `.pyx` in the folder INCLUDE, and becomes PATH with `.c` in OUTPUT; its module
is named like the path. Only C files older than what they depend on are written again, so that the
build compiles only those. DEPFILE lists everything that any of the sources depends on.

A C file has the time at which its run of this script began, so that an edit during the run is
newer, and gets its name when it is complete. What it was made of is beside it, in PATH with
`.needs`: a declaration that has been deleted is missed.
"""

import gc
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import Cython
from Cython.Build.Dependencies import create_dependency_tree
from Cython.Compiler.Main import CompilationOptions, Context, compile_single, default_options

DIRECTIVES: Final = {
    "language_level": 3,
    "auto_pickle": False,
    "autotestdict": False,
    "cdivision": True,
    "embedsignature": True,
}


class Task(NamedTuple):
    """One source to be translated."""

    include: str
    source: str
    module: str
    output: Path
    needs: str  # a file name per line
    begun_ns: int


def transpile(task: Task) -> bool:
    """Write the C file of one source; return whether that succeeded. Cython prints errors."""
    output = task.output
    output.parent.mkdir(parents=True, exist_ok=True)
    new = output.with_suffix(".new")
    options = CompilationOptions(
        default_options,
        compiler_directives=DIRECTIVES,
        include_path=[task.include],
        language_level=DIRECTIVES["language_level"],
        output_file=str(new),
    )
    if compile_single(task.source, options, task.module).num_errors:
        return False
    os.utime(new, ns=(task.begun_ns, task.begun_ns))
    output.with_suffix(".needs").write_text(task.needs)
    new.replace(output)
    return True


def is_current(output: Path, needs: list[str]) -> bool:
    """Return whether a C file was made of these files as they are now."""
    made_of = output.with_suffix(".needs")
    if not output.exists() or not made_of.exists():
        return False
    return made_of.read_text() == "\n".join(needs) and output.stat().st_mtime > newest(needs)


def newest(files: list[str]) -> float:
    """Return the time of the last change of any of the files."""
    return max(Path(each).stat().st_mtime for each in files)


def main(include: str, output: str, depfile: str, *paths: str) -> int:
    """Write the C files that are out of date; return the exit status."""
    begun_ns = time.time_ns()
    tree = create_dependency_tree(Context([include], DIRECTIVES), quiet=True)
    tools = [__file__, Cython.__file__]
    everything = set(tools)
    tasks = []
    for path in paths:
        source, written = str(Path(include, path + ".pyx")), Path(output, path + ".c")
        needs = sorted({*tools, *tree.all_dependencies(source)})
        everything.update(needs)
        if not is_current(written, needs):
            module = path.replace("/", ".")
            tasks.append(Task(include, source, module, written, "\n".join(needs), begun_ns))
    tasks.sort(key=lambda task: -Path(task.source).stat().st_size)  # the longest first
    # Cython's trees are full of cycles: the collector takes half of the time and frees little.
    gc.disable()
    workers = min(len(os.sched_getaffinity(0)), len(tasks))
    if workers > 1:
        forking = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(workers, forking) as pool:  # raises if a worker is killed
            succeeded = list(pool.map(transpile, tasks))
    else:
        succeeded = [transpile(task) for task in tasks]
    names = " ".join(each.replace(" ", "\\ ") for each in sorted(everything))
    Path(depfile).write_text(f"{Path(output, paths[0] + '.c')}: {names}\n")
    return 0 if all(succeeded) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

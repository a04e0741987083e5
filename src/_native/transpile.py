"""Translates Cython sources to C, many in one process: Cython starts slower than it translates.

python transpile.py INCLUDE OUTPUT DEPFILE PATH...

A source is PATH with `.pyx` in the folder INCLUDE, and becomes PATH with `.c` in OUTPUT; its module
is named like the path. Only C files older than what they depend on are written again, so that the
build compiles only those. DEPFILE lists everything that any of the sources depends on.
"""

import gc
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Final

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


def transpile(include: str, source: str, module: str, output: Path) -> bool:
    """Write the C file of one source; return whether that succeeded. Cython prints errors."""
    output.parent.mkdir(parents=True, exist_ok=True)
    options = CompilationOptions(
        default_options,
        compiler_directives=DIRECTIVES,
        include_path=[include],
        language_level=DIRECTIVES["language_level"],
        output_file=str(output),
    )
    return not compile_single(source, options, module).num_errors


def newest(files: list[str]) -> float:
    """Return the time of the last change of any of the files."""
    return max(Path(each).stat().st_mtime for each in files)


def main(include: str, output: str, depfile: str, *paths: str) -> int:
    """Write the C files that are out of date; return the exit status."""
    tree = create_dependency_tree(Context([include], DIRECTIVES), quiet=True)
    tools = [__file__, Cython.__file__]
    everything = set(tools)
    tasks = []
    for path in paths:
        source, written = str(Path(include, path + ".pyx")), Path(output, path + ".c")
        needs = [*tools, *tree.all_dependencies(source)]
        everything.update(needs)
        if not written.exists() or written.stat().st_mtime <= newest(needs):
            tasks.append((include, source, path.replace("/", "."), written))
    tasks.sort(key=lambda task: -Path(task[1]).stat().st_size)  # the longest first
    # Cython's trees are full of cycles: the collector takes half of the time and frees little.
    gc.disable()
    workers = min(len(os.sched_getaffinity(0)), len(tasks))
    if workers > 1:
        with multiprocessing.get_context("fork").Pool(workers) as pool:
            succeeded = pool.starmap(transpile, tasks, chunksize=1)
    else:
        succeeded = [transpile(*task) for task in tasks]
    names = " ".join(each.replace(" ", "\\ ") for each in sorted(everything))
    Path(depfile).write_text(f"{Path(output, paths[0] + '.c')}: {names}\n")
    return 0 if all(succeeded) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

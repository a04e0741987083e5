"""Builds the wheels that a release has, and tries each as a user would: `make wheels`.

    python -m tools.wheels [--python PROGRAM]... [--out dist] [--twice]

Without --python, these are the interpreters of the versions in pyproject.toml's classifiers that
are on PATH or among pyenv's; for the others it says that they are not there.

For each interpreter: a wheel is built, repaired for older systems by auditwheel (if that can be
installed), installed into an empty environment with nothing beside it, says its version, and its
broker stores and returns a record. The wheel of the interpreter of `make build` is made of the
objects that are there, so that only what has changed is compiled. `--twice` builds it once more
from a copy of the sources in another folder: the bytes must be the same.

Two builds of the same sources give the same bytes because SOURCE_DATE_EPOCH (the time of the last
commit, unless it is set) is the time of every file in the archive, and because CMakeLists.txt keeps
the folder of the build out of the modules.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
WORK: Final = ROOT / "build" / "wheels"
OBJECTS: Final = ROOT / "build" / "release"  # of `make build`
BYTES_MAX: Final = 15 << 20  # what a user waits for at most
COPIED: Final = ("src", "docs", "tools", "CMakeLists.txt", "pyproject.toml", "LICENSE", "NOTICE")


def main(arguments: Sequence[str] | None = None) -> int:
    """Build and try a wheel for each interpreter; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--python", action="append", help="an interpreter; may be repeated (default: all found)"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the wheels go")
    parser.add_argument("--twice", action="store_true", help="compare with a second build")
    options = parser.parse_args(arguments)
    for python in options.python or found_interpreters():
        wheel = build(python, ROOT, options.out)
        if options.twice:
            compare(wheel, build_of_a_copy(python))
        try_as_a_user(python, wheel)
    return 0


def found_interpreters() -> list[str]:
    """Return an interpreter of each supported version; print which are not there.

    Raises:
        SystemExit: there is none.
    """
    classifiers = " ".join(_project()["project"]["classifiers"])
    found = []
    for version in re.findall(r"Python :: (3\.\d+)", classifiers):
        python = _interpreter(version)
        if python is None:
            print(f"python{version}: skipped, neither on PATH nor in {_pyenv()}", flush=True)
        else:
            found.append(python)
    if not found:
        raise SystemExit("there is no interpreter of a supported version")
    return found


def _interpreter(version: str) -> str | None:
    """Return an interpreter of a version: this one, one on PATH, or the newest of pyenv's."""
    of_pyenv = sorted(
        _pyenv().glob(f"{version}.*/bin/python{version}"),
        key=lambda each: [int(part) for part in re.findall(r"\d+", each.parts[-3])],
        reverse=True,
    )
    wanted = "import sys; sys.exit('%d.%d' % sys.version_info[:2] != sys.argv[1])"
    for each in (sys.executable, shutil.which(f"python{version}"), *map(str, of_pyenv)):
        # A shim of pyenv is on PATH, and fails, although the version is not selected.
        if each and _succeeds([each, "-c", wanted, version]):
            return each
    return None


def _succeeds(command: Sequence[str]) -> bool:
    return not subprocess.run(command, capture_output=True, check=False).returncode  # noqa: S603


def _pyenv() -> Path:
    return Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"


def build(python: str, sources: Path, out: Path) -> Path:
    """Return the repaired wheel of an interpreter, made of the sources in a folder."""
    tag = _run([python, "-c", "import sys; print('%d%d' % sys.version_info[:2])"])
    work = WORK / tag if sources == ROOT else sources / "build"
    environment = _build_environment(python, WORK / tag / "tools")
    built, repaired = work / "built", work / "repaired"
    for each in (built, repaired):
        shutil.rmtree(each, ignore_errors=True)
    builder, objects = f"{environment}/bin/python", work / "objects"
    if sources == ROOT and _has_built(python):
        builder, objects = python, OBJECTS
    pip = [builder, "-m", "pip", "--disable-pip-version-check", "wheel"]
    options = ["--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", str(built)]
    settings = [f"--config-settings=build-dir={objects}"]
    programs = {"PATH": f"{environment}/bin:{os.environ['PATH']}", "SOURCE_DATE_EPOCH": epoch()}
    _run([*pip, *options, *settings, str(sources)], programs)
    [wheel] = built.glob("*.whl")
    if (environment / "bin" / "auditwheel").exists():
        auditwheel = [f"{environment}/bin/python", "-m", "auditwheel", "repair"]
        _run([*auditwheel, "--wheel-dir", str(repaired), str(wheel)], programs)
        [wheel] = repaired.glob("*.whl")
    if wheel.stat().st_size > BYTES_MAX:
        raise SystemExit(f"{wheel.name} has {wheel.stat().st_size} bytes, more than {BYTES_MAX}")
    out.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(wheel, out))


def build_of_a_copy(python: str) -> Path:
    """Return the wheel of the same sources in another folder, whose name has another length."""
    copy = WORK / "a-copy-of-the-sources"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    for name in (*COPIED, "README.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md"):
        place = ROOT / name
        if place.is_dir():
            shutil.copytree(
                place, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.so")
            )
        else:
            shutil.copy(place, copy)
    return build(python, copy, copy / "out")


def compare(wheel: Path, other: Path) -> None:
    """Raise SystemExit unless two builds are the same."""
    if wheel.read_bytes() != other.read_bytes():
        raise SystemExit(f"{wheel} and {other} differ: two builds of the same sources")
    print(f"{wheel.name}: a second build in another folder has the same bytes")


def try_as_a_user(python: str, wheel: Path) -> None:
    """Install a wheel into an empty environment; produce and consume a record with it."""
    user = WORK / "user"
    shutil.rmtree(user, ignore_errors=True)
    _run([python, "-m", "venv", str(user)])
    begun = time.perf_counter()
    pip = [f"{user}/bin/python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    _run([*pip, str(wheel)])
    installed = time.perf_counter()
    said = _run([f"{user}/bin/python", str(ROOT / "tools" / "first_message.py")])
    done = time.perf_counter()
    version = _run([f"{user}/bin/broker", "--version"])
    if version != f"polylog {_project()['project']['version']}":
        raise SystemExit(f"{wheel.name}: `broker --version` says {version!r}")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB; {said}")
    print(f"  installed in {installed - begun:.1f} s, first record {done - installed:.1f} s later")


@cache  # a commit that is made meanwhile must not part two builds
def epoch() -> str:
    """Return SOURCE_DATE_EPOCH: as it is set, else the time of the last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return given or _run(["git", "-C", str(ROOT), "log", "-1", "--format=%ct"])


def _has_built(python: str) -> bool:
    """Whether the objects of `make build` are of an interpreter."""
    cache = OBJECTS / "CMakeCache.txt"
    return cache.exists() and f"\nPython_EXECUTABLE:PATH={python}\n" in cache.read_text()


def _build_environment(python: str, folder: Path) -> Path:
    """Return an environment of an interpreter with what building and repairing need."""
    project = _project()
    needed, repairing = project["build-system"]["requires"], project["dependency-groups"]["wheels"]
    wanted = "\n".join([*needed, *repairing])
    complete = folder / "complete.txt"
    if not complete.exists() or complete.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        _run([python, "-m", "venv", str(folder)])
        pip = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check", "install"]
        _run([*pip, "--quiet", *needed])
        try:
            _run([*pip, "--quiet", *repairing])
        except SystemExit as error:
            print(f"{error}\nauditwheel cannot be installed: the wheel is not repaired", flush=True)
            return folder
        complete.write_text(wanted)
    return folder


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def _run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Return what a command prints, without the last line's end."""
    done = subprocess.run(  # noqa: S603 - the tools of a build
        command,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())

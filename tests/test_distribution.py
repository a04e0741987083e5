"""The name of the installed project: `polylog` and `broker` belong to others."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
# A name that a package index would look up: not a path, not the distribution's own name.
OTHERS = re.compile(r"pip install [^\n`]*(?<![\w./-])(?:polylog|broker)(?![\w./-])")


def groups() -> dict[str, list[str]]:
    """Return what only development needs, by the name of the group."""
    found: dict[str, list[str]] = pyproject()["dependency-groups"]
    return found


def pyproject() -> dict[str, Any]:
    """Return the file."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def project() -> dict[str, Any]:
    """Return the metadata."""
    found: dict[str, Any] = pyproject()["project"]
    return found


def ranges() -> dict[str, Requirement]:
    """Return the users' dependencies by name."""
    extras = project()["optional-dependencies"]
    given = [*project()["dependencies"], *(each for extra in extras.values() for each in extra)]
    found = [Requirement(each) for each in given if not each.startswith("polylog")]
    return {each.name: each for each in found}


def test_dependencies_of_users_have_lower_and_upper_bounds() -> None:
    ends = {name: {each.operator for each in found.specifier} for name, found in ranges().items()}

    assert {name: each for name, each in ends.items() if each != {">=", "<"}} == {}


def test_the_exact_version_of_each_dependency_range_is_within_the_range() -> None:
    exact = [Requirement(each) for each in groups()["exact"]]
    versions = {each.name: str(each.specifier).removeprefix("==") for each in exact}

    assert versions.keys() == ranges().keys()
    assert [name for name in versions if versions[name] not in ranges()[name].specifier] == []
    assert {name: version(name) for name in versions} == versions


def test_development_dependencies_have_exact_versions() -> None:
    lists = [pyproject()["build-system"]["requires"], *groups().values()]

    assert [each for some in lists for each in some if "==" not in each] == []


def test_the_distribution_has_its_own_name_and_its_extras_use_it() -> None:
    extras = project()["optional-dependencies"].values()
    own = [each for extra in extras for each in extra if each.startswith(("polylog", "broker"))]

    assert project()["name"] == "polylog-broker"
    assert own == ["polylog-broker[codec]"]


def test_no_document_tells_users_to_install_the_unrelated_package_of_the_short_name() -> None:
    files = [ROOT / "README.md", ROOT / "pyproject.toml", ROOT / "Makefile"]
    for folder in ("src", "benchmarks", "docs"):
        for kind in ("py", "pyi", "pyx", "md", "txt", "toml"):
            files += (ROOT / folder).rglob(f"*.{kind}")

    assert [file.name for file in files if OTHERS.search(file.read_text())] == []


@pytest.mark.parametrize(
    ("text", "is_another"),
    [
        ("pip install polylog", True),
        ("pip install 'polylog[spark]'", True),
        ("pip install numpy broker", True),
        ("pip install polylog-broker", False),
        ("pip install 'polylog-broker[spark]'", False),
        ("pip install .", False),
    ],
)
def test_the_unrelated_package_is_recognized_by_its_name(text: str, is_another: bool) -> None:
    assert bool(OTHERS.search(text)) == is_another


@pytest.mark.parametrize("command", ["broker", "polylog"])
def test_the_command_is_installed_under_two_names(command: str) -> None:
    program = Path(sys.executable).parent / command

    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)

    assert said.stdout.startswith("polylog ")

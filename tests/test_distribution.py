"""What the project is called where it is installed: `polylog` and `broker` belong to others."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
# A name that an index would look up: not a path, not the distribution's own name.
OTHERS = re.compile(r"pip install [^\n`]*(?<![\w./-])(?:polylog|broker)(?![\w./-])")


def project() -> dict[str, Any]:
    """Return the metadata."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def test_the_distribution_has_a_name_of_its_own_and_its_extras_know_it() -> None:
    extras = project()["optional-dependencies"].values()
    own = [each for extra in extras for each in extra if each.startswith(("polylog", "broker"))]

    assert project()["name"] == "polylog-broker"
    assert own == ["polylog-broker[codec]"]


def test_nothing_says_to_install_a_package_of_that_name_which_is_another() -> None:
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
def test_another_package_is_told_by_its_name(text: str, is_another: bool) -> None:
    assert bool(OTHERS.search(text)) == is_another


@pytest.mark.parametrize("command", ["broker", "polylog"])
def test_the_command_has_two_names(command: str) -> None:
    program = Path(sys.executable).parent / command

    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)

    assert said.stdout.startswith("polylog ")

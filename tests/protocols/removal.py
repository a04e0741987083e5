"""Copies of the installed package and of the sources without one of the protocols."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from tests.support.broker_process import BrokerProcess

NAMES_FILE = "broker/model/protocol_names.py"
ROOT = Path(__file__).parents[2]
OWN_TESTS = ("tests/unit/protocols", "tests/native/protocols")
OWN_FOLDERS = ("broker/protocols", "broker/_native/protocols")


def package_without(protocol: str, folder: Path) -> Path:
    """Copy the package to the folder without the protocol's packages and its row in the list."""
    installed = Path(sysconfig.get_path("platlib")) / "broker"
    shutil.copytree(installed, folder / "broker", copy_function=os.symlink)
    for own in OWN_FOLDERS:
        shutil.rmtree(folder / own / protocol)
    change(folder / NAMES_FILE, lambda text: without_row(text, protocol))
    return folder


def source_without(protocol: str, folder: Path) -> Path:
    """Copy the sources to the folder without the protocol's packages, its tests and its row."""
    listed = ["git", "-C", str(ROOT), "ls-files", "-z"]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout
    for name in names.split("\0"):
        if name and (ROOT / name).exists() and not name.startswith(tuple(own_sources(protocol))):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    change(folder / "src" / NAMES_FILE, lambda text: without_row(text, protocol))
    return folder


def own_sources(protocol: str) -> list[str]:
    """Return the folders that only this protocol has."""
    parents = (*(f"src/{own}" for own in OWN_FOLDERS), "src/_native/protocols", *OWN_TESTS)
    return [f"{parent}/{protocol}/" for parent in parents]


def shared_tests(protocol: str, source: Path) -> list[str]:
    """Return the tests elsewhere that need the protocol, because they compare some of them."""
    needs = re.compile(rf"broker\.(?:_native\.)?protocols\.{protocol}\b")
    found = [
        str(file.relative_to(source))
        for folder in ("tests/unit", "tests/native")
        for file in (source / folder).rglob("test_*.py")
        if needs.search(file.read_text())
    ]
    return [*found, "tests/native/wire/test_detection.py"]


def without_row(names: str, protocol: str) -> str:
    """Return the text of the list of protocols without one of them."""
    changed, count = re.subn(rf'"{protocol}",? ?', "", names)
    assert count == 1, f"{protocol} has {count} rows in the list"
    return changed


def change(file: Path, by: Callable[[str], str]) -> None:
    """Change one file of a copy."""
    text = by(file.read_text())
    file.unlink()  # a link to the installed one
    file.write_text(text)


def command_with(package: Path, arguments: list[str]) -> list[str]:
    """Return a command line that uses this copy of the package."""
    return ["env", f"PYTHONPATH={package}", *arguments]


def broker_of(package: Path, folder: Path) -> BrokerProcess:
    """Return a broker of the copy, not started."""
    broker = BrokerProcess(folder)
    broker.wrap = lambda command: command_with(package, command)
    return broker


def python_of(package: Path, *arguments: str) -> list[str]:
    """Return a command line of Python with the copy."""
    return command_with(package, [sys.executable, *arguments])

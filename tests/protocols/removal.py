"""A copy of the installed package without one of the protocols."""

import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from tests.support.broker_process import BrokerProcess

NAMES_FILE = "broker/model/protocol_names.py"
OWN_FOLDERS = ("broker/protocols", "broker/_native/protocols")


def package_without(protocol: str, folder: Path) -> Path:
    """Copy the package to the folder without the protocol's packages and its row in the list."""
    installed = Path(sysconfig.get_path("platlib")) / "broker"
    shutil.copytree(installed, folder / "broker", copy_function=os.symlink)
    for own in OWN_FOLDERS:
        shutil.rmtree(folder / own / protocol)
    change(folder / NAMES_FILE, lambda text: without_row(text, protocol))
    return folder


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

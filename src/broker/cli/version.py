"""`broker version`."""

import platform
import sysconfig
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final, NamedTuple

import broker
from broker.cli.frame import Session, verb

DISTRIBUTION: Final = "polylog-broker"


class Version(NamedTuple):
    """The versions.

    Attributes:
        version: of the broker.
        python: of the interpreter.
        implementation: of the interpreter.
        platform: the operating system and the processor.
        libc: the C library, and its version.
        build: the platform that the compiled modules were made for.
        installed: the folder of the package.
        packages: the version of each package that it uses, null where an optional one is missing.
    """

    version: str
    python: str
    implementation: str
    platform: str
    libc: str
    build: str | None
    installed: str
    packages: dict[str, str | None]


def versions() -> Version:
    """Return the versions of this installation."""
    return Version(
        version(DISTRIBUTION),
        platform.python_version(),
        platform.python_implementation(),
        f"{platform.system()} {platform.release()} {platform.machine()}",
        " ".join(platform.libc_ver()),
        sysconfig.get_config_var("SOABI"),
        str(Path(broker.__file__).parent),
        {name: _version_of(name) for name in _used()},
    )


def _used() -> list[str]:
    """Return the names of the packages in the metadata, without their ranges."""
    found = {each.split(";")[0] for each in requires(DISTRIBUTION) or ()}
    names = {each.strip() for text in found for each in [_name(text)]}
    return sorted(names - {DISTRIBUTION})


def _name(requirement: str) -> str:
    end = next(
        (i for i, each in enumerate(requirement) if not (each.isalnum() or each in "-_.")), None
    )
    return requirement[:end]


def _version_of(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@verb(
    Version,
    name="version",
    is_single=True,
    is_local=True,
    examples=("broker version", "broker version -o json"),
)
def command(session: Session) -> None:
    """Print the versions of the broker, of Python and of the packages that it uses."""
    session.write(versions())


NOUN: Final = command

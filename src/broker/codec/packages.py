"""Imports of optional packages, with an error that names the package to install."""

from importlib import import_module
from typing import Any

from broker.model.errors import Unsupported

# Packages that an extra of the distribution installs.
EXTRAS = {"deltalake": "spark", "matplotlib": "plot", "pyspark": "spark"}


def import_optional(package: str, purpose: str) -> Any:  # noqa: ANN401 - a module
    """Import a package that is not a dependency of the broker.

    Raises:
        Unsupported: it is not installed; the message names the package or extra to install.
    """
    try:
        return import_module(package)
    except ImportError:
        raise not_installed(package, purpose) from None


def not_installed(package: str, purpose: str) -> Unsupported:
    """Return the error for a package (or a module of it) that is not installed."""
    name = package.partition(".")[0]
    extra = EXTRAS.get(name)
    wanted = name if extra is None else f"'polylog-broker[{extra}]'"
    return Unsupported(f"{purpose}: needs {name}: pip install {wanted}")

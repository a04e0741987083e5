"""Packages that only some functions need: imported when they are, missed by name."""

from importlib import import_module
from typing import Any

from broker.model.errors import Unsupported


def needed(package: str, purpose: str) -> Any:  # noqa: ANN401 - a module, typed where it is used
    """Import a package that is not a dependency of the broker.

    Raises:
        Unsupported: it is not installed; the message says what to install.
    """
    try:
        return import_module(package)
    except ImportError:
        raise missing(package, purpose) from None


def missing(package: str, purpose: str) -> Unsupported:
    """Return the error for a package that is not installed."""
    return Unsupported(f"{purpose}: needs {package}: pip install {package}")

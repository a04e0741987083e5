"""Packages that only some functions need: imported when they are, missed by name."""

from importlib import import_module
from typing import Any

from broker.model.errors import Unsupported

# Packages that come with an extra of the distribution.
EXTRAS = {"deltalake": "spark", "matplotlib": "plot", "pyspark": "spark"}


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
    """Return the error for a package, or a module of one, that is not installed."""
    name = package.partition(".")[0]
    extra = EXTRAS.get(name)
    wanted = name if extra is None else f"'polylog-broker[{extra}]'"
    return Unsupported(f"{purpose}: needs {name}: pip install {wanted}")

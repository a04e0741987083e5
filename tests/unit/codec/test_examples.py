"""The examples in the documentation of broker.codec run as shown."""

import doctest
import importlib
import pkgutil

import pytest

from broker import codec

MODULES = [each.name for each in pkgutil.iter_modules(codec.__path__, "broker.codec.")]
# The modules that a user calls; the others are internal.
PUBLIC = (
    "columns compression convert coordinator_records encoding errors hashes headers messages schema"
)
WITH_EXAMPLES = {"broker.codec", *(f"broker.codec.{name}" for name in PUBLIC.split())}


@pytest.mark.parametrize("name", ["broker.codec", *MODULES])
def test_every_docstring_example_runs(name: str) -> None:
    ran = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)

    assert ran.failed == 0
    assert ran.attempted or name not in WITH_EXAMPLES

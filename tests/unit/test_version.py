"""`broker.__version__`."""

import subprocess
import sys
from importlib.metadata import version

import pytest

import broker


def test_the_version_is_that_of_the_distribution() -> None:
    assert broker.__version__ == version("polylog-broker")
    with pytest.raises(AttributeError, match="'broker' has no attribute 'version'"):
        _ = broker.version


def test_an_import_does_not_look_it_up() -> None:
    program = "import broker, sys\nprint('importlib.metadata' in sys.modules)"
    printed = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys\nsys.path.insert(0, {PACKAGES!r})\n{program}"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert printed.stdout.strip() == "False"


PACKAGES = broker.__path__[0].removesuffix("/broker")

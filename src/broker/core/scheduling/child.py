"""What a process that the broker starts inherits."""

import os
from pathlib import Path

import broker


def environment() -> dict[str, str]:
    """Return an environment in which the child imports the same code as this process."""
    here = str(Path(broker.__file__).parents[1])
    inherited = os.environ.get("PYTHONPATH")
    path = here if not inherited else os.pathsep.join((here, inherited))
    return os.environ | {"PYTHONPATH": path}

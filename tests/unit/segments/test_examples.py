"""The examples in the documentation of broker.segments run as shown."""

import doctest
import subprocess
import sys
from pathlib import Path

from broker import segments
from tests.support.segment_files import write_ascending

WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None  # importing it fails
from broker import segments
from broker.model.errors import Unsupported
try:
    segments.open(sys.argv[1])
except Unsupported as error:
    print(error)
"""


def test_every_example_runs(tmp_path: Path) -> None:
    folder = write_ascending(tmp_path)
    folder = folder.rename(folder.with_name("orders-0"))

    failures, examples = doctest.testmod(segments, extraglobs={"folder": folder})

    assert examples
    assert failures == 0


def test_opening_a_log_without_numpy_names_what_to_install(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMPY, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
    )

    assert said.stdout == "broker.segments: needs numpy: pip install numpy\n"

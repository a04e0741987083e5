"""Other versions of PySpark than the suite's, in environments that somebody has made.

    python3 -m venv old && old/bin/pip install 'pyspark==4.0.*' pandas pyarrow numpy cramjam google-re2
    pytest tests/pipeline/test_other_pyspark.py --pyspark old/bin/python

The package itself is the one that is tested here; Java is found as ever.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import broker as package
from tests.broker_process import Broker
from tests.pipeline import other_pyspark
from tests.pipeline.killing import TIMEOUT_S
from tests.pipeline.reading import read_committed
from tests.pipeline.rows import some

pytestmark = [pytest.mark.client, pytest.mark.timeout(2 * TIMEOUT_S)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each environment."""
    given = metafunc.config.getoption("--pyspark")
    none = pytest.param(
        "", marks=pytest.mark.skip(reason="no environment was given: --pyspark PYTHON")
    )
    metafunc.parametrize("python", given or [none])


def run(python: str, folder: Path, *arguments: str) -> dict[str, Any]:
    """Run the program; return what it found by step."""
    path = folder / "path"
    path.mkdir()
    (path / "broker").symlink_to(Path(package.__file__).parent)
    ended = subprocess.run(
        [python, "-m", other_pyspark.__name__, *arguments, str(folder)],
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(path), str(Path.cwd())])},
    )
    assert ended.returncode == 0, ended.stderr
    steps = map(json.loads, ended.stdout.splitlines())
    return {each["step"]: each["found"] for each in steps}


def test_what_a_version_can_do_is_done_and_the_rest_refused_in_words(
    broker: Broker, topic: str, fill: Callable[..., None], tmp_path: Path, python: str
) -> None:
    target = f"{topic}-again"
    fill(topic, some(3_000), partitions=3)
    fill(target, partitions=3)

    found = run(python, tmp_path, broker.address, topic, target)

    version = tuple(map(int, found["version"].split(".")[:2]))
    assert found["read"] == 3_000
    before = read_committed(broker.address, topic)
    after = read_committed(broker.address, target)
    streamed = [each.value for each in after if (each.value or b"").startswith(b"streamed ")]
    copied = [each for each in after if each.value not in streamed]
    assert [each._replace(offset=0) for each in copied] == [
        each._replace(offset=0) for each in before
    ]
    if version < (4, 1):
        assert "pushdown needs PySpark 4.1 or later" in found["filter"]
        assert "writing a stream needs PySpark 4.1 or later" in found["stream written"]
        assert streamed == []
    else:
        assert found["filter"] == 10
        assert found["stream written"] == 3
        assert sorted(streamed) == [b"streamed 0", b"streamed 1", b"streamed 2"]
    if version < (4, 2):
        assert "reading a stream needs PySpark 4.2 or later" in found["stream read"]
    else:
        assert found["stream read"] == 3_003

"""Sparks beside the suite's local session: Connect, and versions of PySpark that somebody has made.

    python3 -m venv old
    old/bin/pip install 'pyspark==4.0.*' pandas pyarrow numpy cramjam google-re2 uvloop
    pytest tests/pipeline/test_other_sparks.py --pyspark old/bin/python

The package itself is the one that is tested here; Java is found as ever.
"""

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from broker.model.errors import Unsupported
from broker.pipeline.java import find_java
from tests.pipeline.reading import read_committed
from tests.pipeline.rows import some
from tests.support.broker_process import Broker

pytest.importorskip("pyspark")

from tests.pipeline import copying, java_classes
from tests.pipeline.killing import TIMEOUT_S

pytestmark = [pytest.mark.client, pytest.mark.jvm, pytest.mark.timeout(2 * TIMEOUT_S)]

Copy = Callable[[str, str, Mapping[str, str]], dict[str, Any]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each environment."""
    if "python" in metafunc.fixturenames:
        given = metafunc.config.getoption("--pyspark")
        skipped = pytest.mark.skip(reason="no environment was given: --pyspark PYTHON")
        metafunc.parametrize("python", given or [pytest.param("", marks=skipped)])


@pytest.fixture
def copied(broker: Broker, topic: str, fill: Callable[..., None], tmp_path: Path) -> Copy:
    """Copy a topic by a Python and a master; check everything that is the same everywhere."""
    try:
        find_java()
    except Unsupported as error:
        pytest.skip(str(error))
    target = f"{topic}-again"

    def copy(python: str, master: str, environment: Mapping[str, str]) -> dict[str, Any]:
        fill(topic, some(3_000), partitions=3)
        fill(target, partitions=3)
        found = copying.run(python, tmp_path, environment, master, broker.address, topic, target)
        assert found["read"] == 3_000
        after = read_committed(broker.address, target)
        streamed = [each.value for each in after if (each.value or b"").startswith(b"streamed ")]
        assert sorted(map(str, streamed)) == [
            str(b"streamed %d" % each) for each in range(3) if found["stream written"] == 3
        ]
        assert [each._replace(offset=0) for each in after if each.value not in streamed] == [
            each._replace(offset=0) for each in read_committed(broker.address, topic)
        ]
        return found

    return copy


def test_each_pyspark_version_does_what_it_supports_and_refuses_the_rest(
    copied: Copy, python: str
) -> None:
    found = copied(python, "local[2]", os.environ)

    version = tuple(map(int, found["version"].split(".")[:2]))
    if version < (4, 1):
        assert "pushdown needs PySpark 4.1 or later" in found["filter"]
        assert "writing a stream needs PySpark 4.1 or later" in found["stream written"]
    else:
        assert found["filter"] == 10
        assert found["stream written"] == 3
    if version < (4, 2):
        assert "reading a stream needs PySpark 4.2 or later" in found["stream read"]
    else:
        assert found["stream read"] == 3_003


@pytest.mark.skipif(
    importlib.util.find_spec("grpc_status") is None, reason="Spark Connect needs grpcio-status"
)
def test_a_spark_connect_client_reads_and_writes_as_a_classic_session(
    copied: Copy,
) -> None:
    found = copied(sys.executable, copying.CONNECT, java_classes.environment())

    assert (found["filter"], found["stream written"], found["stream read"]) == (10, 3, 3_003)

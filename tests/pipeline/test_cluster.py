"""A Spark cluster with separate executors, some of which are killed -9."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.model.errors import Unsupported
from broker.pipeline.java import find_java
from tests.pipeline.reading import read_committed
from tests.pipeline.rows import consumed, some
from tests.support.broker_process import Broker

pytest.importorskip("pyspark")

from tests.pipeline import cluster_driver
from tests.pipeline.killing import TIMEOUT_S

pytestmark = [pytest.mark.client, pytest.mark.jvm, pytest.mark.timeout(2 * TIMEOUT_S)]


@pytest.mark.slow("a cluster is a JVM for its driver and one for each executor")
def test_a_killed_executor_loses_and_duplicates_no_record(
    broker: Broker, topic: str, fill: Callable[..., None], tmp_path: Path
) -> None:
    try:
        find_java()
    except Unsupported as error:
        pytest.skip(str(error))
    target = f"{topic}-to"
    fill(topic, some(3_000), partitions=3)
    fill(target, partitions=3)

    ended = subprocess.run(
        [
            *(sys.executable, "-m", cluster_driver.__name__),
            *(broker.address, topic, target, str(tmp_path)),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=tmp_path,  # Spark's workers leave a folder there
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])},
    )

    assert ended.returncode == 0, ended.stderr
    assert {each.name for each in tmp_path.iterdir()} >= {"read", "written"}, "nobody was killed"
    read = [tuple(place) for place in json.loads(ended.stdout)]
    assert sorted(read) == [(part, each) for part in range(3) for each in range(1_000)]
    written = Counter((each.key, each.value) for each in read_committed(broker.address, target))
    rows = cluster_driver.ROWS
    assert written == Counter((b"k%d" % each, b"v%d" % each) for each in range(rows))
    assert len(consumed(broker.address, target)) > rows  # with what the killed one had sent

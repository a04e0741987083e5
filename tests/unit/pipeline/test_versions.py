"""What is refused with older versions of PySpark, and what they need not import."""

import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

import pyspark

from broker.model.errors import Unsupported
from broker.pipeline.versions import require_pyspark

# As in PySpark 4.0: no filters, no Arrow rows for streams, no limits of triggers.
_OLD = """
import sys
import pyspark
import pyspark.sql.datasource as api

pyspark.__version__ = "4.0.5"
for name in ("Filter", "EqualTo", "In", "ColumnPath", "DataSourceStreamArrowWriter"):
    delattr(api, name)
sys.modules["pyspark.sql.streaming.datasource"] = None

from pyspark.sql.types import BinaryType, StructField, StructType
from broker.pipeline.source.polylog import PolylogDataSource

schema = StructType([StructField("value", BinaryType())])
source = PolylogDataSource({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"})
print(type(source.reader(schema)).__name__)
import broker.pipeline.sink.writer
for call in (lambda: source.streamReader(schema), lambda: source.streamWriter(schema, False)):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_an_old_pyspark_reads_and_writes_batches_and_names_what_streams_need() -> None:
    found = subprocess.run(
        [sys.executable, "-c", _OLD], check=True, capture_output=True, text=True, timeout=120
    )
    reader, read, written = found.stdout.splitlines()

    assert reader == "BatchReader"
    assert read.startswith("Unsupported reading a stream needs PySpark 4.2 or later, this is 4.0.5")
    assert written.startswith("Unsupported writing a stream needs PySpark 4.1 or later")


@pytest.mark.parametrize("version", ["4.2.0", "4.3.1", "5.0.0.dev1", "4.10.0"])
def test_a_version_that_is_new_enough_is_accepted(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    require_pyspark("a stream", (4, 2))


@pytest.mark.parametrize("version", ["4.1.9", "4.0.0", "3.5.9"])
def test_a_version_that_is_too_old_is_refused(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    with pytest.raises(Unsupported, match=version):
        require_pyspark("a stream", (4, 2))
